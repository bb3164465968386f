"""``RiskShield``: whatever the agent does, the budget is overspent with a probability of at most ``risk``.

Where no finite budget holds with certainty, or only at too high a price, one may accept a stated risk ρ₀.  The shield
carries what is left of it, ρ, beside what remains of the budget, K.  Let p̄(s, K) be an upper bound of the least
probability of overspending (:mod:`almostsure.plan.least_risk`), 1 once overspent, and let q̄(s, K, a) be an upper bound
of Σ p · p̄(s', K'), with p̄ ≥ min over a of q̄.

- An action is allowed where q̄(s, K, a) ≤ ρ.
- After an outcome that leads to (s', K'), the risk that is left is

      ρ' = p̄' + (1 − p̄') · (ρ − q̄) / (1 − q̄)     (1 if q̄ = 1),   p̄' = p̄(s', K'),   rounded down, never below p̄'.

**Theorem.**  If p̄(s₀, Δ) ≤ ρ₀, every agent that plays allowed actions only, learning or hostile, overspends Δ with a
probability of at most ρ₀, and there is always an allowed action.

*Proof.*  Let c = (ρ − q̄)/(1 − q̄), which lies in [0, 1] since q̄ ≤ ρ ≤ 1.  The mean of p̄' over the outcomes is at most q̄,
so the mean of ρ' = p̄' (1 − c) + c is at most q̄ (1 − c) + c = ρ: ρ is a supermartingale with values in [0, 1].  Since
ρ' ≥ p̄' ≥ min q̄ there is an allowed action again.  Once overspent p̄' = 1 and so ρ' = 1, and it stays there.  Hence
P(overspent by step t) ≤ E ρ_t ≤ ρ₀ for every t.  Rounding ρ' down keeps all of this, as long as ρ' ≥ p̄'.  ∎

The q̄ must be made of the same p̄ that ρ' uses: with separate bounds the mean of ρ' could exceed ρ, and waiting would
gain risk.  With ρ = 0 the allowed actions are those with q̄ = 0, that is k*(s, a) ≤ K: the :class:`almostsure.Shield`.
With ρ = 1 nothing is forbidden, and ρ stays 1.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from almostsure.arguments import check_budget, check_real, check_tolerance, names_right_word, whole, whole_array
from almostsure.budget import minimal_budget
from almostsure.errors import ArgumentError, Infeasible, ModelError, NoSafeAction
from almostsure.memory import require
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.model.source import Model, as_model
from almostsure.plan.least_risk import EPSILON, LeastRisk, Sums, least_risk, risks_of, sums_of
from almostsure.policy.explore import spans
from almostsure.shield.outcomes import Outcomes
from almostsure.shield.protocol import Run

TOLERANCE = 1e-8


@final
class RiskShield:
    """Allows what keeps the probability of overspending ``budget`` at or below ``risk``, whoever plays.

    Parameters
    ----------
    mdp
        The model.  Its probabilities matter here, so a model that was learned from samples is refused.
    budget
        The damage that an episode may take.
    risk
        The probability with which it may take more, 0 … 1.
    tolerance
        How close p̄ must be to the least risk.  A looser one is computed sooner and allows a little less.

    Raises
    ------
    Infeasible
        If ``risk`` is below the least probability of overspending from the start; ``needed`` is what suffices.

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
    >>> round(shield.after(run, 0, 1, 0)[2], 4)  # the crossing went well: less risk is left
    0.1667
    """

    carries = ("remaining", "risk")
    is_fixed = True

    def __init__(self, mdp: Model, budget: int, risk: float, *, tolerance: float = TOLERANCE) -> None:
        self.mdp = as_model(mdp)
        self.mdp.require_probabilities("RiskShield")
        if self.mdp.unknown is not None or (self.mdp.origin is not None and self.mdp.origin.counted):
            raise ModelError(
                "a RiskShield needs the model's probabilities, and this model was learned: which outcomes are possible "
                "is known with the stated confidence, how probable they are is not. Use Shield, or a model with known "
                "probabilities."
            )
        self.budget, self.risk = check_budget(budget), check_risk(risk)
        size = 2 * 8 * (self.budget + 1) * self.mdp.num_states
        require(size, f"least risks for budgets up to {self.budget:,}", "Use a smaller budget.")
        self.minimal = minimal_budget(self.mdp)
        self.least: LeastRisk = least_risk(self.mdp, self.minimal.of_state, self.budget, check_tolerance(tolerance))
        self._sums: Sums = sums_of(self.mdp)
        self._outcomes = Outcomes(self.mdp)
        self._choices = self.mdp.choice_states().astype(np.int64) * self.mdp.num_actions + self.mdp.choice_action
        self._start = self._share_risk()

    @property
    def space(self) -> MDP:
        """The states and actions that it knows: its model's."""
        return self.mdp

    def _share_risk(self) -> dict[int, float]:
        """The risk with which a run begins in each initial state: the start is a draw like any other."""
        states, weights = self.mdp.initial_states, self.mdp.initial_probabilities
        least = self.least.upper[self.budget, states]
        if states.size == 1:
            mean, shares = float(least[0]), np.array([self.risk])
        else:
            mean = min(math.fsum(weights * least) * (1 + (states.size + 4) * EPSILON), 1.0)
            shares = _left(self.risk, mean, least)
        if mean > self.risk:
            raise Infeasible(
                f"a risk of {self.risk:g} is not enough: from the start, more than {self.budget} damage cannot be "
                f"ruled out at a risk below {mean!r} (rounded up). Allow that risk, or a larger budget.",
                needed=mean,
            )
        return dict(zip(states.tolist(), shares.tolist(), strict=True))

    # ------------------------------------------------------------------ what is allowed

    def least_risk(self, state: int | str, remaining: int) -> float:
        """The least probability of taking more than ``remaining`` damage from a state on, rounded up."""
        return float(self._least(np.array([self.mdp.state(state)]), np.array([whole("remaining", remaining)]))[0])

    @names_right_word
    def allowed(self, state: int | str, remaining: int, risk: float) -> npt.NDArray[np.int64]:
        """The ids of the actions that are allowed with what remains of the budget and of the risk, ascending.

        Raises
        ------
        NoSafeAction
            If ``risk`` is less than the least risk there.
        """
        s, left, rho = self.mdp.state(state), whole("remaining", remaining), check_risk(risk)
        of_state = self.mdp.choices(s)
        choices = np.arange(of_state.start, of_state.stop)
        safe = self._risks(np.full(choices.size, left), choices) <= rho
        if not safe.any():
            self._refuse(s, left, rho)
        return self.mdp.choice_action[choices[safe]].astype(np.int64)

    def mask(self, states: npt.ArrayLike, remaining: npt.ArrayLike, risk: npt.ArrayLike) -> Bools:
        """Which actions are allowed, for many runs at once: [n, num_actions].  No row is empty.

        Raises
        ------
        NoSafeAction
            If any row would be empty; it names the first.
        """
        s, left, rho = np.broadcast_arrays(
            np.atleast_1d(whole_array("states", states)),
            whole_array("remaining", remaining),
            np.asarray(risk, np.float64),
        )
        odd = ~((rho >= 0) & (rho <= 1))  # NaN too
        if odd.any():
            check_risk(float(rho[odd][0]))  # says what is wrong
        if s.size and not (s.min() >= 0 and s.max() < self.mdp.num_states):
            self.mdp.state(int(s[(s < 0) | (s >= self.mdp.num_states)][0]))  # says what is wrong
        choices, owner = spans(self.mdp.choice_ptr, s)
        safe = self._risks(left[owner], choices) <= rho[owner]
        result = np.zeros((s.size, self.mdp.num_actions), np.bool_)
        result[owner, self.mdp.choice_action[choices]] = safe
        empty = ~result.any(axis=1)
        if empty.any():
            at = int(np.argmax(empty))
            self._refuse(int(s[at]), int(left[at]), float(rho[at]))
        return result

    def _refuse(self, state: int, remaining: int, risk: float) -> NoReturn:
        least = self.least_risk(state, remaining)
        raise NoSafeAction(
            f"no action of {self.mdp.describe_state(state)} keeps the risk at {risk:.6g} with {remaining} left: "
            f"the least is {least:.6g}.",
            state=state,
            remaining=remaining,
        )

    # ------------------------------------------------------------------ runs

    def begin(self, state: Any, budget: int | None = None) -> Run:
        """The run (state, remaining, risk) that begins in a state; for an array of states, three arrays.

        ``budget`` may be less than the shield was made for.  An initial state gets its share of the risk, another one
        all of it.
        """
        remaining = self.budget if budget is None else check_budget(budget)
        if remaining > self.budget:
            raise ArgumentError(f"budget must be at most the {self.budget} that this shield is for; got {remaining}")
        states = np.atleast_1d(whole_array("states", [self.mdp.state(x) for x in np.ravel(state)]))
        whole_budget = remaining == self.budget
        risk = np.array([self._start.get(s, self.risk) if whole_budget else self.risk for s in states.tolist()])
        left = np.full(states.size, remaining, np.int64)
        short = self._least(states, left) > risk
        if short.any():
            at = int(np.argmax(short))
            self._refuse(int(states[at]), remaining, float(risk[at]))
        if np.ndim(state) == 0:
            return int(states[0]), remaining, float(risk[0])
        return states.astype(np.int64), left, risk

    def after(self, run: Run, action: Any, next_state: Any, damage: Any = None) -> Run:
        """The run after ``action`` led to ``next_state``; for many runs, arrays of both.  See ``Shield.after``."""
        state, remaining, risk = run
        if isinstance(next_state, np.ndarray) and next_state.ndim:
            left = remaining - self._outcomes.damages(state, action, next_state, damage)
            choices = np.searchsorted(self._choices, state * self.mdp.num_actions + action)  # they exist: it happened
            return next_state, left, self._after(choices, remaining, risk, next_state, left)
        s, a, reached = self.mdp.state(state), self.mdp.action(action), self.mdp.state(next_state)
        spent = self._outcomes.damage(s, a, reached, damage)
        return reached, remaining - spent, self.risk_after(s, remaining, risk, a, reached, spent)

    def risk_after(
        self, state: int | str, remaining: int, risk: float, action: int | str, next_state: int | str, damage: int
    ) -> float:
        """The risk that is left after an action led to a state and did some damage."""
        choice, reached = self.mdp.choice(state, action), self.mdp.state(next_state)
        left, rho = whole("remaining", remaining), check_risk(risk)
        spent = whole("damage", damage)
        columns = (np.array([x]) for x in (choice, left, rho, reached, left - spent))
        return float(self._after(*columns)[0])

    def _after(self, choices: Ints, remaining: Ints, risk: Floats, next_states: Ints, left: Ints) -> Floats:
        used = self._risks(remaining, choices)
        if (used > risk).any():
            at = int(np.argmax(used > risk))
            raise NoSafeAction(
                f"{self.mdp.describe_choice(int(choices[at]))} was not allowed with a risk of {risk[at]:.6g}: it takes "
                f"{used[at]:.6g}",
                remaining=int(remaining[at]),
            )
        return _left(risk, used, self._least(next_states, left))

    def _least(self, states: Ints, remaining: Ints) -> Floats:
        """p̄ of each pair; 1 once overspent.  More than the budget is as good as the budget."""
        row = np.clip(remaining, 0, self.budget)
        result: Floats = np.where(remaining < 0, 1.0, self.least.upper[row, states])
        return result

    def _risks(self, remaining: Ints, choices: Ints) -> Floats:
        """q̄ of each choice; 1 once overspent."""
        overspent = remaining < 0
        found = risks_of(self._sums, self.least.upper, np.clip(remaining, 0, self.budget), choices)
        result: Floats = np.where(overspent, 1.0, found)
        return result

    def __repr__(self) -> str:
        starts = self.least.upper[self.budget, self.mdp.initial_states]
        return (
            f"<RiskShield: more than {self.budget} damage with a probability of at most {self.risk:g}, whoever plays\n"
            f"  {self.mdp.num_states:,} states; the least risk at the start is {starts.max():.6g}>"
        )


def check_risk(risk: object) -> float:
    """``risk`` as a float in [0, 1]."""
    value = check_real("risk", risk)
    if not 0 <= value <= 1:
        raise ArgumentError(f"risk must be a probability, 0 … 1; got {value:g}")
    return value


def _left(risk: Any, used: Any, least: Floats) -> Floats:
    """ρ' = p̄' + (1 − p̄') (ρ − q̄)/(1 − q̄), rounded down but never below p̄'; 1 where ρ = 1."""
    risk, used = np.broadcast_arrays(np.asarray(risk, np.float64), np.asarray(used, np.float64))
    below = np.nextafter
    with np.errstate(divide="ignore", invalid="ignore"):
        share = below(below(risk - used, 0.0) / below(1.0 - used, 2.0), 0.0)
    extra = below(below(1.0 - least, 0.0) * np.clip(share, 0.0, 1.0), 0.0)
    result: Floats = np.where(risk >= 1.0, 1.0, np.maximum(below(least + extra, 0.0), least))
    return result
