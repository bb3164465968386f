"""Checking a budget without trusting the solver that computed it.

This module shares no code with the engines, and is short enough to be read at once.  Write v(s) for the claimed budget
of a state, k(s,a) for that of a choice, ρ(s) for the rank of a state, and C for the value of ∞ (with a cap Δ, ∞ means
"more than Δ", so C = Δ + 1; without one, C = ∞).  Four conditions are checked, each in one pass over the model:

1. v(s) = min over a of k(s,a).
2. k(s,a) ≥ max over outcomes of d + v(s')    — *never too small*.  k is then a pre-fixed point of the
   monotone operator T, and k* is the least one, so k* ≤ k.
3. k(s,a) ≤ max over outcomes of d + v(s')    — *no choice is worse than its worst outcome*.
4. Where v(s) ≥ 1, every choice of s has an outcome with d + v(s') ≥ v(s) and one of: d ≥ 1; v(s') > v(s);
   ρ(s') < ρ(s)    — *never too large*.  Let nature always respond with such an outcome.  Then v never falls by more
   than the damage done, and in steps without damage it rises or the rank falls, so the next damage comes after
   finitely many steps, until v(s) units have been done.  (Where v(s) = C, v cannot rise; if C = ∞, it stays ∞
   indefinitely.)  So no smaller budget suffices: k* ≥ k.

With a cap, values above Δ read INFINITE, and in conditions 2 and 3 all values above Δ are equal.  Only the support of
the model is read, once, in chunks of choices.

Conditions 1 and 2 alone prove upper bounds: v ≥ k* for v from any source (a coarser model, another tool, a neural
network), and a shield made of them never overspends.  :func:`check_upper` verifies just these, and so does every
shield.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast, overload

import numpy as np
import numpy.typing as npt

from almostsure.arguments import and_more, whole_array
from almostsure.errors import ArgumentError, CertificateError, ModelMismatch
from almostsure.model.arrays import owners, spans
from almostsure.model.mdp import MDP
from almostsure.model.source import Model, as_model
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.budget.horizon import HorizonBudget, Rises
    from almostsure.budget.minimal import MinimalBudget

INFINITE = 2**31 - 1
CHUNK = 1 << 16  # choices per chunk
SMALL = 200_000  # below this many outcomes NumPy is faster than loading the compiled loop

Find = Callable[[MDP, "MinimalBudget"], tuple[int, int]]


def check_minimal_budget(mdp: Model, minimal: MinimalBudget | HorizonBudget) -> None:
    """Verify that ``minimal`` is the minimal budget of ``mdp``, by its certificate.

    Parameters
    ----------
    mdp
        The model, an example's name, or a file.
    minimal
        The budget to verify: the result of :func:`minimal_budget`, or one loaded from a file.

    Raises
    ------
    CertificateError
        If a condition is violated; the message names the first state or choice.  The module's docstring proves that
        the four conditions suffice.
    ModelMismatch
        If the budget belongs to another model.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("quicksand")
    >>> check_minimal_budget(mdp, asure.minimal_budget(mdp))  # silent: it holds
    """
    mdp = as_model(mdp)
    _check_kind(minimal)
    if minimal.mdp is not mdp and minimal.mdp.fingerprint != mdp.fingerprint:
        raise ModelMismatch(
            f"the budget must belong to the model; it was made for model {minimal.mdp.fingerprint[:16]}, "
            f"this is {mdp.fingerprint[:16]}. Solve again with minimal_budget(mdp)."
        )
    if hasattr(minimal, "rises"):
        return _check_horizon(mdp, cast("HorizonBudget", minimal))
    if minimal.upper_bound:
        raise CertificateError("upper bounds are not minimal budgets; but a shield can be made of them.")
    _check_shapes(mdp, minimal)
    _check_minimum(mdp, minimal)
    find: Find = _find_plain if mdp.num_outcomes < SMALL else _find_compiled
    condition, choice = find(mdp, minimal)
    if condition:
        _fail(mdp, minimal, condition, choice)


def _check_kind(minimal: Any) -> None:
    """Refuse anything but a MinimalBudget or a HorizonBudget."""
    if not hasattr(minimal, "rises") and not hasattr(minimal, "rank"):
        remedy = "Use check_upper for your own values." if isinstance(minimal, np.ndarray | list | tuple) else ""
        remedy = "Pass its .minimal." if hasattr(minimal, "minimal") else remedy
        raise ArgumentError(
            "minimal must be a MinimalBudget or a HorizonBudget, as minimal_budget returns; got a "
            f"{type(minimal).__name__}. {remedy}".rstrip()
        )


class Bounded(Protocol):
    """An object with its own solver and check, such as the abstraction of a continuous system."""

    def minimal_budget(self, *, cap: int | None = None) -> Any:
        """Its minimal budgets, or upper bounds on them."""
        ...

    def check_upper(self, values: npt.ArrayLike) -> Any:
        """Verify upper bounds."""
        ...


@overload
def check_upper(mdp: Model, values: npt.ArrayLike) -> MinimalBudget: ...


@overload
def check_upper(mdp: Bounded, values: npt.ArrayLike) -> Any: ...


def check_upper(mdp: Model | Bounded, values: npt.ArrayLike) -> Any:
    """Verify that ``values``, from any source, are upper bounds on k* that suffice for a shield.

    The condition is v(s) ≥ min over a of max over outcomes of d + v(s').  An agent that always plays a minimiser then
    keeps the remaining budget at v or above, so v is at least k*.

    Parameters
    ----------
    mdp
        The model, or an abstraction, which returns its own upper bounds.
    values
        One whole number per state, 0 or more; ``INFINITE`` or ∞ if no budget is claimed to suffice.

    Returns
    -------
    MinimalBudget
        Marked as an ``upper_bound``.  Its ``of_state`` are the values; no choice needs less than its state.

    Raises
    ------
    CertificateError
        If a value is too small; the message names the first such state.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.example("paper")
    >>> upper = asure.check_upper(mdp, asure.minimal_budget(mdp).of_state + 1)
    >>> upper
    <MinimalBudget, an upper bound: the start needs a budget of at most 1 (2 states)
      states need 1; none needs ∞
      given; verified: never too small>
    >>> asure.Shield(upper).allowed("circle", 1).tolist()
    [1]
    """
    if not isinstance(mdp, MDP) and hasattr(mdp, "check_upper"):
        return mdp.check_upper(values)
    from almostsure.budget.minimal import MinimalBudget

    model = as_model(mdp)
    of_state = upper_values(values, model.num_states, model.describe_state)
    of_choice = np.empty(model.num_choices, np.int32)
    for first, last, worst in _costs(model, of_state.astype(np.int64), INFINITE - 1):
        of_choice[first:last] = worst
    least = np.minimum.reduceat(of_choice, model.choice_ptr[:-1])
    small = np.flatnonzero(of_state < least)
    if small.size:
        s = int(small[0])
        raise CertificateError(
            f"the value of {model.describe_state(s)} is too small: it is {show(of_state[s])}, but even the "
            f"best action may cost {show(least[s])}{and_more(small.size - 1, 'state')}.",
            state=s,
        )
    np.maximum(of_choice, np.repeat(of_state, np.diff(model.choice_ptr)), out=of_choice)
    rank = np.zeros(model.num_states, np.int32)
    upper = MinimalBudget(
        mdp=model, of_state=of_state, of_choice=of_choice, rank=rank, engine="given", upper_bound=True
    )
    return upper.verified()


def upper_values(values: npt.ArrayLike, count: int, describe: Callable[[int], str]) -> npt.NDArray[np.int32]:
    """The values as int32, with INFINITE for ∞, after validating them."""
    given = np.asarray(values)
    if given.dtype.kind == "f":
        given = np.where(np.isposinf(given), float(INFINITE), given.astype(np.float64))
    whole = whole_array("values", given)
    if whole.shape != (count,):
        raise ArgumentError(f"values must be one number per state ({count}); got shape {whole.shape}")
    bad = (whole < 0) | (whole > INFINITE)
    if bad.any():
        s = int(np.argmax(bad))
        raise ArgumentError(f"values must be 0 … {INFINITE - 1}, or ∞; got {whole[s]} at {describe(s)}")
    return whole.astype(np.int32)


def check_never_too_small(minimal: MinimalBudget) -> None:
    """Verify conditions 1 and 2, which suffice for safety, unless the budget was verified on construction.

    Raises
    ------
    CertificateError
        If a budget is too small; the message names the first such state or choice.
    """
    if minimal.checked:
        return
    mdp = minimal.mdp
    _check_shapes(mdp, minimal)
    _check_minimum(mdp, minimal)
    for first, last, worst in _costs(mdp, minimal.of_state.astype(np.int64), _limit(minimal)):
        small = minimal.of_choice[first:last] < worst
        if small.any():
            _fail(mdp, minimal, 2, first + int(np.argmax(small)))


def _limit(minimal: MinimalBudget | HorizonBudget) -> int:
    """The largest value that is distinguished from ∞; C is one more."""
    return INFINITE - 1 if minimal.cap is None else minimal.cap


def _costs(mdp: MDP, v: npt.NDArray[np.int64], cap: int) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Chunks of choices first … last − 1, with the max over their outcomes of d + v(s'), INFINITE above ``cap``."""
    for first in range(0, mdp.num_choices, CHUNK):
        last = min(first + CHUNK, mdp.num_choices)
        begin, end = int(mdp.outcome_ptr[first]), int(mdp.outcome_ptr[last])
        cost = v[mdp.successor[begin:end]] + mdp.damage[begin:end]
        cost[cost > cap] = INFINITE
        yield first, last, np.maximum.reduceat(cost, mdp.outcome_ptr[first:last].astype(np.int64) - begin)


def _check_shapes(mdp: MDP, minimal: MinimalBudget) -> None:
    for name, size in (("of_state", mdp.num_states), ("of_choice", mdp.num_choices), ("rank", mdp.num_states)):
        array = getattr(minimal, name)
        if array.shape != (size,) or array.dtype.kind != "i":
            raise CertificateError(f"{name} must be {size} integers; got {array.dtype} of shape {array.shape}")
    cap = INFINITE if minimal.cap is None else minimal.cap
    if minimal.cap is not None and not 0 <= cap < INFINITE:
        raise CertificateError(f"cap must be 0 … {INFINITE - 1}, or None; got {cap}")
    for name in ("of_state", "of_choice"):
        array = getattr(minimal, name)
        bad = (array < 0) | ((array > cap) & (array != INFINITE))
        if bad.any():
            at = int(np.argmax(bad))
            rule = "0 or more" if array[at] < 0 else f"at most the cap {cap}, or INFINITE"
            raise CertificateError(f"{name} must be {rule}; got {array[at]} at index {at}")


def _check_minimum(mdp: MDP, minimal: MinimalBudget) -> None:
    """Condition 1."""
    least = np.minimum.reduceat(minimal.of_choice, mdp.choice_ptr[:-1])
    wrong = np.flatnonzero(least != minimal.of_state)
    if wrong.size:
        s = int(wrong[0])
        raise CertificateError(
            f"the budget of {mdp.describe_state(s)} must be the least of its choices' budgets, {show(least[s])}; "
            f"got {show(minimal.of_state[s])}",
            state=s,
        )


def _fail(mdp: MDP, minimal: MinimalBudget, condition: int, choice: int) -> None:
    state = mdp.choice_state(choice)
    begin, end = int(mdp.outcome_ptr[choice]), int(mdp.outcome_ptr[choice + 1])
    v = minimal.of_state[mdp.successor[begin:end]].astype(np.int64)
    worst = int(np.minimum(v + mdp.damage[begin:end], INFINITE).max())
    claimed = minimal.of_choice[choice]
    what = {
        2: f"is too small: it claims {show(claimed)}, but an outcome costs {show(worst)}",
        3: f"is too large: it claims {show(claimed)}, but no outcome costs more than {show(worst)}",
        4: f"is not justified: nothing forces {show(minimal.of_state[state])} damage when it is chosen",
    }[condition]
    raise CertificateError(f"the budget of {mdp.describe_choice(choice)} {what}", state=state, choice=choice)


def show(value: int | np.integer[Any]) -> str:
    """A budget as text."""
    return "∞" if value == INFINITE else str(int(value))


# ---------------------------------------------------------------------- conditions 2, 3 and 4, plain and compiled


def _find_plain(mdp: MDP, minimal: MinimalBudget) -> tuple[int, int]:
    """The first violated condition and the choice that violates it, or (0, 0)."""
    v, rank, owed_for_infinite = minimal.of_state.astype(np.int64), minimal.rank, _limit(minimal) + 1
    for first, last, worst in _costs(mdp, v, _limit(minimal)):
        begin, end = int(mdp.outcome_ptr[first]), int(mdp.outcome_ptr[last])
        starts = mdp.outcome_ptr[first:last].astype(np.int64) - begin
        target, damage = mdp.successor[begin:end], mdp.damage[begin:end].astype(np.int64)
        state = np.searchsorted(mdp.choice_ptr, np.arange(first, last), side="right") - 1
        s = np.repeat(state, np.diff(np.append(starts, end - begin)))
        owed, offered = (np.where(x == INFINITE, owed_for_infinite, x) for x in (v[s], v[target]))
        pays = offered + damage >= owed
        if owed_for_infinite == INFINITE:  # only ∞ justifies ∞
            pays &= (v[s] != INFINITE) | (v[target] == INFINITE)
        forced = pays & ((damage >= 1) | (offered > owed) | (rank[target] < rank[s]))
        justified = np.logical_or.reduceat(forced, starts) | (v[state] == 0)
        claimed = minimal.of_choice[first:last]
        condition = np.select([worst > claimed, worst < claimed, ~justified], [2, 3, 4], 0)
        if condition.any():
            at = int(np.argmax(condition > 0))
            return int(condition[at]), first + at
    return 0, 0


def _find_compiled(mdp: MDP, minimal: MinimalBudget) -> tuple[int, int]:
    """The same as :func:`_find_plain`, compiled, on two threads."""
    from concurrent.futures import ThreadPoolExecutor

    from almostsure.budget.compiled.certificate import ClaimArrays, first_broken

    edges = np.linspace(0, mdp.num_states, 3).astype(np.int64)
    support = mdp.choice_ptr, mdp.outcome_ptr, mdp.successor, mdp.damage
    claim = ClaimArrays(*support, minimal.of_state, minimal.of_choice, minimal.rank)

    def part(i: int) -> tuple[int, int]:
        condition, choice = first_broken(claim, _limit(minimal), int(edges[i]), int(edges[i + 1]))
        return int(condition), int(choice)

    with ThreadPoolExecutor(2) as pool:
        return next((found for found in pool.map(part, range(2)) if found[0]), (0, 0))


# ---------------------------------------------------------------------- horizons


def check_rises(mdp: MDP, rises: Rises) -> None:
    """Check that for every state the steps, and the values from them on, are in range and ascending."""
    ptr, step, value = rises
    whole = all(array.ndim == 1 and array.dtype.kind == "i" for array in rises)
    if not (whole and ptr.size == mdp.num_states + 1 and ptr[0] == 0 and ptr[-1] == step.size == value.size):
        raise CertificateError(f"rises must be integers for each of {counted(mdp.num_states, 'state')}")
    if (np.diff(ptr) < 0).any() or (step < 0).any() or (step >= INFINITE).any():
        raise CertificateError("rises must be sorted by state, with steps 0 … 2³¹ − 2")
    inside = np.ones(step.size, np.bool_)  # all but the first rise of each state
    inside[ptr[:-1][ptr[:-1] < step.size]] = False
    falls = inside[1:] & ((np.diff(step) <= 0) | (np.diff(value) <= 0))
    if falls.any() or not ((value >= 0) & (value <= INFINITE)).all():
        raise CertificateError("rises must be ascending steps with ascending values, 0 or more")


def check_never_too_small_within(minimal: HorizonBudget) -> None:
    """Verify what suffices for safety within t steps: v_t(s) ≥ min over a of max over outcomes of d + v_{t−1}(s').

    A state only has to be checked in steps in which its value may have become too small: in the first one, and after
    every rise of a successor's value.
    """
    mdp, rises = minimal.mdp, minimal.rises
    check_rises(mdp, rises)
    owner = owners(rises.ptr)
    order = np.argsort(rises.step, kind="stable")
    settled = min(minimal.horizon, int(rises.step.max(initial=0)) + 1)  # after this step nothing changes
    begin = np.searchsorted(rises.step[order], np.arange(settled + 2))
    by_successor = np.argsort(mdp.successor, kind="stable")
    edge = np.searchsorted(mdp.successor[by_successor], np.arange(mdp.num_states + 1))
    before = mdp.choice_states()[mdp.outcome_choices()[by_successor]]  # the predecessors of each state, side by side
    now = rises.at(0).astype(np.int64)
    forbidden = forbidden_values(mdp)
    if (now < forbidden).any():
        raise CertificateError(f"{mdp.describe_state(int(np.argmax(now < forbidden)))} is forbidden, and must need ∞")
    look = np.arange(mdp.num_states)
    for step in range(1, settled + 1):
        last = now.copy() if look.size else now
        risen = order[begin[step] : begin[step + 1]]
        now[owner[risen]] = rises.value[risen]
        if look.size:
            _check_step(minimal, look, last, now, step)
        look = np.unique(before[spans(edge, owner[risen])[0]])


def _check_step(
    minimal: HorizonBudget, states: npt.NDArray[Any], last: npt.NDArray[Any], now: npt.NDArray[Any], step: int
) -> None:
    mdp = minimal.mdp
    choice, of_state = spans(mdp.choice_ptr, states)
    outcome, of_choice = spans(mdp.outcome_ptr, choice)
    cost = np.minimum(last[mdp.successor[outcome]] + mdp.damage[outcome], INFINITE)
    worst = np.maximum.reduceat(cost, np.searchsorted(of_choice, np.arange(choice.size)))
    least = np.minimum.reduceat(worst, np.searchsorted(of_state, np.arange(states.size)))
    short = np.flatnonzero(least > now[states])
    if short.size:
        s = int(states[short[0]])
        raise _wrong_claim(mdp, step, s, least[short[0]], now[s])


def _wrong_claim(mdp: MDP, step: int, s: int, needed: np.integer[Any], claimed: np.integer[Any]) -> CertificateError:
    return CertificateError(
        f"with {counted(step, 'step')} left, {mdp.describe_state(s)} needs {show(needed)}; "
        f"the budget claims {show(claimed)}. Solve again with minimal_budget(mdp, horizon=…).",
        state=s,
    )


def forbidden_values(mdp: MDP) -> npt.NDArray[np.int64]:
    """INFINITE for unknown and forbidden states (labelled so; every step stays and does damage), 0 for all others."""
    values = np.zeros(mdp.num_states, np.int64)
    for s in np.flatnonzero(mdp.labels.get("forbidden", np.zeros(mdp.num_states, np.bool_))).tolist():
        where = slice(int(mdp.outcome_ptr[mdp.choice_ptr[s]]), int(mdp.outcome_ptr[mdp.choice_ptr[s + 1]]))
        if (mdp.successor[where] == s).all() and (mdp.damage[where] > 0).all():
            values[s] = INFINITE
    values[values.size if mdp.unknown is None else mdp.unknown :] = INFINITE
    return values


def _check_horizon(mdp: MDP, minimal: HorizonBudget) -> None:
    """Verify the least damage for every number of steps by its definition, with its own sweeps."""
    check_rises(mdp, minimal.rises)
    limit, values = _limit(minimal), forbidden_values(mdp)
    last = int(minimal.rises.step.max(initial=0))
    for step in range(minimal.horizon + 1):
        before = values
        if step:
            values = _with_one_more_step(mdp, before, limit)
        wrong = np.flatnonzero(values != minimal.rises.at(step))
        if wrong.size:
            s = int(wrong[0])
            raise _wrong_claim(mdp, step, s, values[s], minimal.rises.at(step)[s])
        if step >= last and step and np.array_equal(values, before):
            break
    last_step = minimal.rises.at(minimal.horizon - 1)
    of_choice = _worst(mdp, last_step, limit) if minimal.horizon else minimal.of_choice
    if not (np.array_equal(minimal.of_state, values) and np.array_equal(minimal.of_choice, of_choice)):
        raise CertificateError("of_state and of_choice must be the values of the rises at the horizon. Solve again.")
    if minimal.settled is not None:  # the claim that more steps change nothing
        before = minimal.rises.at(minimal.settled).astype(np.int64)
        rises = not np.array_equal(_with_one_more_step(mdp, before, limit), before)
        if rises or (minimal.rises.step > minimal.settled).any():
            raise CertificateError(
                f"no value may rise after {minimal.settled} steps, as settled claims; one does. Solve again."
            )


def _with_one_more_step(mdp: MDP, values: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.int64]:
    """The values with one more step, from ``values``."""
    best = np.minimum.reduceat(_worst(mdp, values, limit), mdp.choice_ptr[:-1].astype(np.int64))
    return np.maximum(best, values, dtype=np.int64)


def _worst(mdp: MDP, values: npt.NDArray[Any], limit: int) -> npt.NDArray[np.int64]:
    """Max over outcomes of d + v(s'), for every choice."""
    return np.concatenate([worst for _, _, worst in _costs(mdp, values.astype(np.int64, copy=False), limit)])
