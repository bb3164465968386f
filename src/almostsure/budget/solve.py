"""``minimal_budget``: chooses the engine for a model and runs it."""

from __future__ import annotations

import time
from typing import Any, Literal, overload

import numpy as np

from almostsure.arguments import names_right_word, one_of
from almostsure.budget.certificate import Bounded, check_minimal_budget
from almostsure.budget.horizon import HorizonBudget
from almostsure.budget.minimal import Answer, Halted, MinimalBudget, cap_limit
from almostsure.budget.plain import solve_plain
from almostsure.errors import ArgumentError, Interrupted
from almostsure.memory import require, show
from almostsure.model.mdp import MDP, Support
from almostsure.model.source import Model, as_model
from almostsure.progress import Bar

SMALL = 20_000  # up to this many outcomes NumPy is faster than loading the compiler
PATIENCE = 20_000_000  # outcomes that the plain engine examines before the compiled one takes over
CHECK_RATE = 2e-9  # seconds per outcome for verifying the certificate, about
BACKENDS = ("auto", "plain", "compiled")
CHECKS = ("auto", "always", "never")


@overload
def minimal_budget(
    mdp: Model,
    *,
    cap: int | None = None,
    horizon: None = None,
    backend: Literal["auto", "plain", "compiled"] = "auto",
    check: Literal["auto", "always", "never"] = "auto",
) -> MinimalBudget: ...


@overload
def minimal_budget(mdp: Model, *, cap: int | None = None, horizon: int) -> HorizonBudget: ...


@overload
def minimal_budget(mdp: Bounded, *, cap: int | None = None) -> Any: ...


@names_right_word
def minimal_budget(
    mdp: Model | Bounded,
    *,
    cap: int | None = None,
    horizon: int | None = None,
    backend: Literal["auto", "plain", "compiled"] = "auto",
    check: Literal["auto", "always", "never"] = "auto",
) -> Any:
    """The minimal budget k* of every state and every choice, exactly.

    Parameters
    ----------
    mdp
        The model, or the name of an example or file.  The result depends only on which outcomes are possible, not on
        their probabilities.  For an abstraction, the result has upper bounds.
    cap
        Stop at this budget: larger budgets are reported as INFINITE.
    horizon
        Compute the least damage that can be forced within this many steps instead.  The result is a
        :class:`almostsure.budget.HorizonBudget`, which also has the values for all smaller numbers of steps.
    backend
        ``"plain"`` (NumPy) or ``"compiled"`` (Numba); ``"auto"`` chooses by the model.  Both give the same values.
    check
        Whether to verify the certificate before returning; ``"auto"`` does if that takes little time beside the run.

    Raises
    ------
    Interrupted
        On Ctrl-C.  Its ``kept`` is a MinimalBudget that is exact up to its cap (and safe to use), or None.
    NotEnoughMemory
        If the run would not fit into memory; raised before it starts.

    Examples
    --------
    >>> import almostsure as asure
    >>> asure.minimal_budget(asure.example("paper"))
    <MinimalBudget: the start needs a budget of 0 (2 states)
      states need 0; none needs ∞
      solved by the plain engine; certificate verified>
    """
    if not isinstance(mdp, MDP) and hasattr(mdp, "minimal_budget"):
        if horizon is not None or backend != "auto" or check != "auto":
            raise ArgumentError("horizon, backend and check are for models; an abstraction only takes cap")
        return mdp.minimal_budget(cap=cap)
    mdp = as_model(mdp)
    cap = None if cap is None else cap_limit(cap)
    if horizon is not None:
        if backend != "auto" or check != "auto":
            raise ArgumentError("backend and check are not for horizons; verify with check_minimal_budget")
        from almostsure.budget.horizon_solve import forced_within

        return forced_within(mdp, horizon, cap)
    one_of("backend", backend, BACKENDS)
    one_of("check", check, CHECKS)
    return _solved(mdp, cap, backend, check)


def _solved(mdp: MDP, cap: int | None, backend: str, check: str) -> MinimalBudget:
    start = time.perf_counter()
    try:
        answer, engine = _run(mdp.support, cap_limit(cap), backend)
    except Halted as halt:
        raise _interrupted(mdp, halt.answer) from None
    took = time.perf_counter() - start
    small = mdp.num_outcomes <= SMALL
    verify = check == "always" or (check == "auto" and (small or mdp.num_outcomes * CHECK_RATE < took / 10))
    minimal = _minimal(mdp, answer, engine, cap=cap)
    if not verify:
        return minimal
    try:
        check_minimal_budget(mdp, minimal)
    except KeyboardInterrupt:
        raise Interrupted("interrupted while verifying the certificate; .kept is complete.", kept=minimal) from None
    return minimal.verified()


def if_unknown_is_harmless(minimal: MinimalBudget) -> MinimalBudget:
    """The budget of a learned model if its unknown state did no damage; what is infinite then is so for certain."""
    mdp = minimal.mdp
    support = Support(
        choice_ptr=mdp.choice_ptr,
        outcome_ptr=mdp.outcome_ptr,
        successor=mdp.successor,
        damage=np.where(mdp.successor == mdp.unknown, np.uint8(0), mdp.damage),
    )
    return _minimal(mdp, *_run(support, minimal.limit, "auto"), cap=minimal.cap)


def _run(support: Support, cap: int, backend: str) -> tuple[Answer, str]:
    if backend == "plain" or (backend == "auto" and support.num_outcomes <= SMALL):
        answer = solve_plain(support, cap=cap, patience=PATIENCE if backend == "auto" else float("inf"))
        if answer is not None:
            return answer, "plain engine"
    from almostsure.budget.compiled.engine import estimate, solve_levels

    needed = estimate(support)
    require(needed, f"k* of {support.num_outcomes:,} outcomes", "Close other programs, or use a larger machine.")
    notice = f"{support.num_outcomes:,} outcomes; about {show(needed)} of memory in addition to the model"
    with Bar("minimal budgets", support.num_states, notice=notice) as bar:

        def report(level: int, settled: int) -> None:
            bar.update(settled, f"level {level}, {settled:,} states settled")

        return solve_levels(support, cap=cap, report=report), "compiled engine"


def _minimal(mdp: MDP, answer: Answer, engine: str, *, cap: int | None) -> MinimalBudget:
    return MinimalBudget(
        mdp=mdp, of_state=answer.of_state, of_choice=answer.of_choice, rank=answer.rank, cap=cap, engine=engine
    )


def _interrupted(mdp: MDP, answer: Answer | None) -> Interrupted:
    if answer is None:
        return Interrupted("interrupted before level 0 was complete; there is no partial result.")
    kept = _minimal(mdp, answer, "compiled engine, interrupted", cap=answer.cap)
    return Interrupted(
        f"interrupted; budgets up to {answer.cap} are exact, all others are larger. "
        f"The error's .kept is a MinimalBudget with cap={answer.cap}, and safe to use.",
        kept=kept,
    )
