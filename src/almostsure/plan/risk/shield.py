"""``RiskShield``: whatever the agent does, the budget is overspent with a probability of at most ``risk``.

Where no finite budget suffices almost surely, or only at too high a price, a stated risk ρ₀ may be acceptable.  The
shield carries the remaining risk ρ beside the remaining budget K.  Let p̄(s, K) be an upper bound of the least
probability of overspending (:mod:`almostsure.plan.risk.least`), 1 once overspent, and let q̄(s, K, a) be an upper bound
of Σ p · p̄(s', K'), with p̄ ≥ min over a of q̄.

- An action is allowed if q̄(s, K, a) ≤ ρ.
- After an outcome that leads to (s', K'), the remaining risk is

      ρ' = p̄' + (1 − p̄') · (ρ − q̄) / (1 − q̄)     (1 if q̄ = 1),   p̄' = p̄(s', K'),   rounded down, never below p̄'.

**Theorem.**  If p̄(s₀, Δ) ≤ ρ₀, every agent that plays only allowed actions, even a hostile one, overspends Δ with a
probability of at most ρ₀, and there is always an allowed action.

*Proof.*  Let c = (ρ − q̄)/(1 − q̄), which lies in [0, 1] since q̄ ≤ ρ ≤ 1.  The mean of p̄' over the outcomes is at most q̄,
so the mean of ρ' = p̄' (1 − c) + c is at most q̄ (1 − c) + c = ρ: ρ is a supermartingale with values in [0, 1].  Since
ρ' ≥ p̄' ≥ min q̄ there is an allowed action again.  Once overspent p̄' = 1 and so ρ' = 1, and it stays there.  Hence
P(overspent by step t) ≤ E ρ_t ≤ ρ₀ for every t.  Rounding ρ' down keeps all of this while ρ' ≥ p̄'.  ∎

The q̄ must be computed from the same p̄ that ρ' uses: with separate bounds the mean of ρ' could exceed ρ, and waiting
would increase the risk.  With ρ = 0 the allowed actions are those with q̄ = 0, that is k*(s, a) ≤ K: the
:class:`almostsure.Shield`.  With ρ = 1 nothing is forbidden, and ρ stays 1.

*With a horizon* of T steps the tables are indexed by the number of steps left as well: p̄_t ≥ min over a of q̄_t, and q̄_t
is computed from p̄_{t−1}.  The proof is the same.
"""

from __future__ import annotations

from copy import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, check_horizon, check_tolerance, names_right_word, whole, whole_array
from almostsure.budget import minimal_budget
from almostsure.errors import ArgumentError, CertificateError, Infeasible, NoSafeAction
from almostsure.files import file_name, must_hold
from almostsure.memory import require
from almostsure.model.arrays import spans
from almostsure.model.mdp import Bools, Floats, Ints
from almostsure.model.source import Model, as_model
from almostsure.plan.constraints import check_risk
from almostsure.plan.risk.certificate import (
    Promise,
    check_risks,
    known_probabilities,
    read_risks,
    risk_at_start,
    write_risks,
)
from almostsure.plan.risk.least import least_risk, least_within
from almostsure.plan.risk.sums import part_at, part_of, risks_of, sums_of
from almostsure.shield.lookups import begins_in, check_goes_on, check_states, check_steps_left, indices, one_or_many
from almostsure.shield.outcomes import Outcomes
from almostsure.shield.protocol import Run
from almostsure.wording import counted

if TYPE_CHECKING:
    from almostsure.plan.risk.inside import Risked

TOLERANCE = 1e-8


@names_right_word
@final
class RiskShield:
    """Allows the actions that keep the probability of overspending ``budget`` at or below ``risk``, for every agent.

    Parameters
    ----------
    mdp
        The model.  Its probabilities matter, so models learned from samples are refused.
    budget
        The damage that an episode may take.
    risk
        The probability with which it may take more, 0 … 1.
    horizon
        Count only this many steps.  The shield then also carries the number of steps left.
    tolerance
        How close p̄ must be to the least risk.  A larger tolerance takes less time and allows a little less.

    Raises
    ------
    Infeasible
        If ``risk`` is below the least probability of overspending from the start; ``needed`` is a risk that suffices.

    Examples
    --------
    >>> import almostsure as asure
    >>> mdp = asure.from_transitions(  # cross the road at once, at a risk of 10 %, or walk round it for nothing
    ...     [0, 0, 0], [0, 0, 1], [1, 1, 1], [0.9, 0.1, 1], [5, 5, 0], [0, 1, 0], terminal=[1]
    ... )
    >>> shield = RiskShield(mdp, budget=0, risk=0.25)
    >>> run = shield.begin(0, 0)
    >>> shield.allowed(*run), shield.allowed(0, 0, 0.05)
    (array([0, 1]), array([1]))
    >>> round(shield.after(run, 0, 1, 0)[2], 4)  # the remaining risk, after crossing without damage
    0.1667
    """

    is_fixed = True

    def __init__(
        self, mdp: Model, budget: int, risk: float, *, horizon: int | None = None, tolerance: float = TOLERANCE
    ) -> None:
        self.mdp = self.space = known_probabilities(as_model(mdp))
        self.budget, self.risk = check_budget(budget), check_risk(risk)
        self.horizon = None if horizon is None else check_horizon(horizon, least=0)
        size = 8 * (self.budget + 1) * self.mdp.num_states * (2 if self.horizon is None else self.horizon + 1)
        require(size, f"least risks for budgets up to {self.budget:,}", "Use a smaller budget, or fewer steps.")
        tolerance = check_tolerance(tolerance)
        if self.horizon is None:
            needed = minimal_budget(self.mdp, cap=self.budget).of_state
            self.least = least_risk(self.mdp, needed, self.budget, tolerance).upper
        else:
            self.least = least_within(self.mdp, self.budget, self.horizon)
        self._prepare()

    def _prepare(self) -> None:
        """Freeze the table of p̄, one row per remaining budget (and per number of steps left), and share the risk.

        The mean of the initial risks of the initial states is ``risk``: the start is a random outcome too.
        """
        self.least.flags.writeable = False
        states, mean = self.mdp.initial_states, risk_at_start(self.mdp, self.least)
        if mean > self.risk:
            raise Infeasible(
                f"a risk of {self.risk:g} is not enough: from the start, more than {self.budget} damage cannot be "
                f"ruled out at a risk below {mean!r} (rounded up). Allow that risk, or a larger budget.",
                needed=mean,
            )
        shares = [self.risk] if states.size == 1 else _left(self.risk, mean, self.least[-1, states]).tolist()
        self._start = dict(zip(states.tolist(), shares, strict=True))
        self._asked: tuple[tuple[int, ...], Floats] = (), np.zeros(0)  # the last argument of _risks_at, and its result
        self._sums, self._outcomes = sums_of(self.mdp), Outcomes(self.mdp)

    @property
    def carries(self) -> tuple[str, ...]:
        """The names of the quantities that a run carries beside the state."""
        return ("remaining", "risk") if self.horizon is None else ("remaining", "risk", "steps_left")

    def within(self, steps: int) -> RiskShield:
        """The shield for a shorter horizon, which allows more; itself if ``steps`` is not less than the horizon."""
        if self.horizon is None or steps >= self.horizon:
            return self
        result = copy(self)
        result.least, result.horizon = self.least[: (steps + 1) * (self.budget + 1)], steps
        result._prepare()
        return result

    # ------------------------------------------------------------------ what is allowed

    def least_risk(self, state: int | str, remaining: int, steps_left: int | None = None) -> float:
        """The least probability of taking more than ``remaining`` damage from a state on, rounded up."""
        steps = self._step(self.horizon if steps_left is None else steps_left)
        return self._least_at(self.mdp.state(state), whole("remaining", remaining), steps)

    @names_right_word
    def allowed(
        self, state: int | str, remaining: int, risk: float, steps_left: int | None = None
    ) -> npt.NDArray[np.int64]:
        """The ids of the actions that are allowed with the remaining budget and risk, ascending.

        Raises
        ------
        NoSafeAction
            If ``risk`` is below the least risk there, or no step is left.
        """
        s, left, rho = self.mdp.state(state), whole("remaining", remaining), check_risk(risk)
        steps = self._step(steps_left)
        if steps < 1:
            check_steps_left(self.mdp, np.array([s]), np.array([left]), np.array([steps]), self.horizon)  # raises
        safe = np.flatnonzero(self._risks_at(s, left, steps) <= rho)
        if not safe.size:
            self._refuse(s, left, rho, steps)
        return self.mdp.choice_action[int(self.mdp.choice_ptr[s]) + safe].astype(np.int64)

    def mask(
        self,
        states: npt.ArrayLike,
        remaining: npt.ArrayLike,
        risk: npt.ArrayLike,
        steps_left: npt.ArrayLike | None = None,
    ) -> Bools:
        """The mask of allowed actions for many runs: [n, num_actions].  No row is empty.

        Raises
        ------
        NoSafeAction
            If any row would be empty; it names the first.
        """
        s, left, rho = np.broadcast_arrays(
            np.atleast_1d(whole_array("states", indices(self.mdp, states))),
            whole_array("remaining", remaining),
            np.asarray(risk, np.float64),
        )
        check_states(self.mdp, s)
        odd = ~((rho >= 0) & (rho <= 1))
        if odd.any():
            check_risk(float(rho[np.argmax(odd)]))  # raises
        steps = self._steps(s.size, steps_left)
        check_steps_left(self.mdp, s, left, steps, self.horizon)
        choices, owner = spans(self.mdp.choice_ptr, s)
        safe = self.risks_of_choices(left[owner], choices, steps[owner]) <= rho[owner]
        result = np.zeros((s.size, self.mdp.num_actions), np.bool_)
        result[owner, self.mdp.choice_action[choices]] = safe
        empty = ~result.any(axis=1)
        if empty.any():
            at = int(np.argmax(empty))
            self._refuse(int(s[at]), int(left[at]), float(rho[at]), int(steps[at]))
        return result

    def _refuse(self, state: int, remaining: int, risk: float, steps: int) -> NoReturn:
        least = self.least_risks(np.array([state]), np.array([remaining]), np.array([steps]))[0]
        raise NoSafeAction(
            f"no action of {self.mdp.describe_state(state)} keeps the risk at {risk:.6g} with {remaining} left: "
            f"the least is {least:.6g}.",
            state=state,
            remaining=remaining,
        )

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int | None = None) -> Run:
        """The run (state, remaining, risk) that begins in a state; with a horizon, also the steps left.

        For an array of states, arrays.  ``budget`` may be less than the shield's.  An initial state gets its share of
        the risk, any other state all of it.
        """
        remaining = self.budget if budget is None else check_budget(budget)
        if remaining > self.budget:
            raise ArgumentError(f"budget must be at most {self.budget}, the shield's budget; got {remaining}")
        states = begins_in(self.mdp, state)
        whole_budget = remaining == self.budget
        risk = np.array([self._start.get(s, self.risk) if whole_budget else self.risk for s in states.tolist()])
        left, steps = np.full(states.size, remaining, np.int64), np.full(states.size, self.horizon or 0, np.int64)
        short = self.least_risks(states, left, steps) > risk
        if short.any():
            at = int(np.argmax(short))
            self._refuse(int(states[at]), remaining, float(risk[at]), int(steps[at]))
        return one_or_many(self.mdp, state, states, left, risk, *([] if self.horizon is None else [steps]))

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, arrays of both.  See ``Shield.after``."""
        state, remaining, risk, *steps = run
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            left = remaining - self._outcomes.damages(state, action, next_state, damage)
            choices = self.mdp.find_choices(state, action)  # they exist, since they have been played
            before = self._steps(choices.size, *steps)
            check_goes_on(before)
            used = self.risks_of_choices(remaining, choices, before)
            if (used > risk).any():
                at = int(np.argmax(used > risk))
                raise self._not_allowed(int(choices[at]), int(remaining[at]), float(risk[at]), float(used[at]))
            after = _left(risk, used, self.least_risks(next_state, left, before - 1))
            return next_state, left, after, *(x - 1 for x in steps)
        try:
            spent = self._outcomes.known[state, action, next_state, damage, type(damage)]
            s, a, reached = state, action, next_state
        except (KeyError, TypeError):  # not in the cache, or not plain numbers
            s, a, reached = self.mdp.state(state), self.mdp.action(action), self.mdp.state(next_state)
            spent = self._outcomes.damage(s, a, reached, damage)
        kept = self.risk_after(s, remaining, risk, a, reached, spent, *steps)
        return reached, remaining - spent, kept, *(x - 1 for x in steps)

    def risk_after(
        self,
        state: int | str,
        remaining: int,
        risk: float,
        action: int | str,
        next_state: int | str,
        damage: int,
        steps_left: int | None = None,
    ) -> float:
        """The remaining risk after an action with its next state and damage; ``steps_left`` counts this step."""
        choice, s, reached = self.mdp.choice(state, action), self.mdp.state(state), self.mdp.state(next_state)
        left, spent = whole("remaining", remaining), whole("damage", damage)
        rho, steps = check_risk(risk), self._step(steps_left)
        check_goes_on(steps)
        used = float(self._risks_at(s, left, steps)[choice - int(self.mdp.choice_ptr[s])])
        if used > rho:
            raise self._not_allowed(choice, left, rho, used)
        return float(_left(rho, used, self._least_at(reached, left - spent, steps - 1)))

    def _not_allowed(self, choice: int, remaining: int, risk: float, used: float) -> NoSafeAction:
        return NoSafeAction(
            f"{self.mdp.describe_choice(choice)} was not allowed with a risk of {risk:.6g}: it takes {used:.6g}",
            remaining=remaining,
        )

    # ------------------------------------------------------------------ the model inside

    def restrict(self, levels: int = 64) -> Risked:
        """The model on (state, remaining, risk) with the allowed actions only: every policy of it keeps the risk.

        Any solver or learner can be used on it, and ``evaluate`` returns the exact risk of its policies.  The remaining
        risk has ``levels`` values above the least one; with more of them, slightly more is allowed.

        Examples
        --------
        >>> import almostsure as asure
        >>> shield = asure.RiskShield(asure.example("quicksand"), budget=1, risk=0.2)
        >>> inside = shield.restrict(levels=8).mdp
        >>> best = asure.solve_policy(inside.with_damage(0), asure.AlmostSure(0)).policy  # damage has no price inside
        >>> asure.evaluate(inside, asure.Policy(inside, choice=best.choice[:1]), budget=1).overspends <= 0.2
        True
        """
        from almostsure.plan.risk.inside import restrict

        return restrict(self, levels)

    def least_risks(self, states: Ints, remaining: Ints, steps: Ints | None = None) -> Floats:
        """p̄ of many pairs; 1 once overspent.  More than the budget counts as the budget.

        ``steps`` are the steps left, by default the horizon; without a horizon they are ignored.
        """
        row = np.clip(remaining, 0, self.budget)
        if self.horizon is not None:
            row = row + (self.horizon if steps is None else steps) * (self.budget + 1)
        result: Floats = np.where(remaining < 0, 1.0, self.least[row, states])
        return result

    def risks_of_choices(self, remaining: Ints, choices: Ints, steps: Ints | None = None) -> Floats:
        """q̄ of many choices with remaining budgets; 1 once overspent.  For ``steps`` see :meth:`least_risks`."""
        first = None
        if self.horizon is not None:
            left = np.full(choices.size, self.horizon) if steps is None else steps
            first = (left - 1) * (self.budget + 1)
        part = part_of(self._sums, np.clip(remaining, 0, self.budget), choices, first)
        found = risks_of(self._sums, self.least, part)
        result: Floats = np.where(remaining < 0, 1.0, found)
        return result

    def _least_at(self, state: int, remaining: int, steps: int) -> float:
        """p̄ of one pair."""
        row = min(remaining, self.budget) + (0 if self.horizon is None else steps * (self.budget + 1))
        return 1.0 if remaining < 0 else float(self.least[row, state])

    def _risks_at(self, state: int, remaining: int, steps: int) -> Floats:
        """q̄ of all choices of one state."""
        place, (last, risks) = (state, remaining, steps), self._asked
        if place == last:  # ``allowed`` asks first, then ``after``
            return risks
        if remaining < 0:
            return np.ones(int(self.mdp.choice_ptr[state + 1] - self.mdp.choice_ptr[state]))
        first = None if self.horizon is None else (steps - 1) * (self.budget + 1)
        risks = risks_of(self._sums, self.least, part_at(self._sums, min(remaining, self.budget), state, first))
        self._asked = place, risks
        return risks

    # ------------------------------------------------------------------ files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the shield to a safetensors file, atomically.  The model is not part of it."""
        write_risks(path, self.mdp, Promise(self.budget, self.risk, self.horizon, self.least))

    @classmethod
    def load(cls, path: str | PathLike[str], mdp: Model) -> RiskShield:
        """Read a shield of ``mdp``.  Files with a risk that is too small, or not 0 where it must be, are refused."""
        file_name(path, "RiskShield.load(path, mdp)")
        model, result = as_model(mdp), cls.__new__(cls)
        promise = read_risks(path, known_probabilities(model))
        result.mdp = result.space = model
        result.budget, result.risk, result.horizon, result.least = promise
        with must_hold(path, "a risk shield of its model"):
            check_risks(model, promise)
            result._prepare()
            result._check_sums()
        return result

    def _check_sums(self) -> None:
        """Raise unless p̄ ≥ min q̄ as this shield computes them, so that some action is always allowed."""
        first = 0 if self.horizon is None else self.budget + 1
        begin = self.mdp.choice_ptr[:-1].astype(np.int64)
        for row in range(len(self.least) - first):
            short = np.flatnonzero(np.minimum.reduceat(self.risks_in(row), begin) > self.least[row + first])
            if short.size:
                raise CertificateError(f"the risk of {self.mdp.describe_state(int(short[0]))} is too small")

    def risks_in(self, row: int) -> Floats:
        """q̄ of every choice for row ``remaining`` + (budget + 1) · t, with t + 1 steps left."""
        steps, remaining = divmod(row, self.budget + 1)
        choices = np.arange(self.mdp.num_choices)
        return self.risks_of_choices(np.full(choices.size, remaining), choices, np.full(choices.size, steps + 1))

    def export_numpy(self, path: str | PathLike[str]) -> tuple[Path, Path]:
        """Write a Python module and its table, which need only NumPy.

        The module has ``allowed(state, remaining, risk)`` and ``risk_after(state, remaining, risk, action, next_state,
        damage)``, with ``steps_left`` as a further argument if there is a horizon.  Returns both paths.
        """
        from almostsure.plan.risk.export import export_numpy

        return export_numpy(self, path)

    def export_c(self, path: str | PathLike[str], *, name: str = "almostsure") -> Path:
        """Write a self-contained C99 header with both functions; its comments explain them."""
        from almostsure.plan.risk.export import export_c

        return export_c(self, path, name=name)

    # ------------------------------------------------------------------ pieces

    def _steps(self, size: int, steps_left: npt.ArrayLike | None = None) -> Ints:
        """The steps left of each of many runs, checked; without a horizon all 1, and not used."""
        if self.horizon is None:
            if steps_left is not None:
                raise ArgumentError(
                    "steps_left is for a shield with a horizon: RiskShield(mdp, budget, risk, horizon=T)"
                )
            return np.ones(size, np.int64)
        if steps_left is None:
            raise ArgumentError(f"steps_left must be given: this shield is for a horizon of {self.horizon} steps")
        steps = np.broadcast_to(whole_array("steps_left", steps_left), (size,)).astype(np.int64)
        if size and not 0 <= steps.min() <= steps.max() <= self.horizon:
            raise ArgumentError(f"steps_left must lie in 0 … {self.horizon}, the horizon; got {steps_left!r}")
        return steps

    def _step(self, steps_left: int | None = None) -> int:
        """The steps left of one run."""
        if self.horizon is None and steps_left is None:
            return 1
        if self.horizon is not None and type(steps_left) is int and 0 <= steps_left <= self.horizon:
            return steps_left
        return int(self._steps(1, steps_left)[0])

    def __repr__(self) -> str:
        states = self.mdp.initial_states
        starts = self.least_risks(states, np.full(states.size, self.budget))
        steps = "" if self.horizon is None else f" within {counted(self.horizon, 'step')}"
        return (
            f"<RiskShield: more than {self.budget} damage{steps} with a probability of at most {self.risk:g}, "
            "whoever plays\n"
            f"  {counted(self.mdp.num_states, 'state')}; the least risk at the start is {starts.max():.6g}>"
        )


def _left(risk: Any, used: Any, least: Any) -> Floats:
    """ρ' = p̄' + (1 − p̄') (ρ − q̄)/(1 − q̄), rounded down but never below p̄'; 1 where ρ = 1."""
    below = np.nextafter
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # q̄ = 1: 0 / 0
        share = below(below(risk - used, 0.0) / below(1.0 - used, 2.0), 0.0)
    extra = below(below(1.0 - least, 0.0) * np.minimum(np.maximum(share, 0.0), 1.0), 0.0)
    result: Floats = np.where(risk >= 1.0, 1.0, np.maximum(below(least + extra, 0.0), least))
    return result
