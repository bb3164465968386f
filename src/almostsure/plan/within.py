"""The best assured return within a number of steps, by recursion over the steps left.

With t steps left and K of the budget,

    V_t(s, K) = max over a of [ g(s, a) + discount · Σ p(s', d | s, a) · V_{t−1}(s', K − d) ],    V_0 = 0,

where V(s', K') = −∞ for K' < 0 and where s' is forbidden or unknown.  So V_t(s, K) is −∞ exactly where k_t(s) > K
(:mod:`almostsure.budget.horizon`), and a choice is worth −∞ exactly where a :class:`almostsure.shield.HorizonShield`
forbids it.  The recursion needs no table of allowed choices.

*Bounds.*  Expected rewards g are exact sums, rounded once (:mod:`almostsure.plan.assured.sums`).  A step adds to the
error of the values at most the rounding of one sum, (3 n + 10) ε (|g| + |V|) with n outcomes; these errors add up over
the steps, discounted like the values.  The values are those of the choices played, so the lower bounds hold for the
policy.

*Ties.*  Choices whose values differ by less than the rounding of a step are tied.  Of these, one that ends soonest is
taken and, second, one with the least damage, as without a horizon (:mod:`almostsure.plan.assured.ties`).  The best one
may be better by at most this rounding, which therefore counts twice.

*Memory.*  Consecutive numbers of steps left with the same choices share one block of the policy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from almostsure.budget.horizon import first_values
from almostsure.kernels import njit, plain
from almostsure.memory import require
from almostsure.model.arrays import spans
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.model.monitors import Steps
from almostsure.plan.assured.engine import call
from almostsure.plan.assured.sums import expected
from almostsure.plan.assured.ties import DAMAGE
from almostsure.policy.policy import Policy
from almostsure.progress import Bar

PLAIN_WORK = 30_000  # outcomes · budgets · steps up to which the step runs uncompiled
EPSILON = 2.0**-52
LITTLE = 1e-9  # charges that differ by less count as equal


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Within:
    """The best returns with 0, 1, … horizon steps left; −∞ where the budget does not suffice."""

    returns: Floats  # [horizon + 1, budget + 1, initial states]
    error: Floats  # [horizon + 1], an upper bound of the values' errors
    values: Floats | None  # [horizon + 1, budget + 1, num_states], the returns from all states, with everywhere=True


class Model(NamedTuple):
    """The arrays that a step of the recursion reads."""

    choice_ptr: Ints
    outcome_ptr: Ints
    successor: Ints
    damage: npt.NDArray[np.uint8]
    probability: Floats  # divided by its sum
    gain: Floats  # [num_choices]
    charge: Floats  # [num_choices], 1 + DAMAGE · expected damage; 0 in terminal states
    discount: float


def solve_within(mdp: MDP, budget: int, horizon: int, *, discount: float, everywhere: bool) -> tuple[Policy, Within]:
    """The best policy for a budget and a horizon, and its returns with every number of steps left."""
    rows, large = budget + 1, mdp.num_outcomes * (budget + 1) * horizon > PLAIN_WORK
    if everywhere:
        require(8 * (horizon + 1) * rows * mdp.num_states, f"the values for {horizon:,} steps", "Ask for fewer.")
    model = _model(mdp, discount, large)
    step: Any = best_step if large else plain(best_step)
    values = np.zeros((rows, mdp.num_states))
    values[:, first_values(mdp) > 0] = -math.inf
    kept = [values.copy()] if everywhere else []
    returns, errors = np.empty((horizon + 1, rows, mdp.initial_states.size)), np.zeros(horizon + 1)
    returns[0], used, blocks = values[:, mdp.initial_states], np.zeros(horizon, np.int32), list[npt.NDArray[np.int32]]()
    choice, ahead = np.full((rows, mdp.num_states), -1, np.int32), np.zeros((rows, mdp.num_states))
    with Bar("steps", horizon) as bar:
        for done in range(1, horizon + 1):
            rounding = _rounding(model, values, float(errors[done - 1]))
            errors[done] = (discount * errors[done - 1] + 2 * rounding) * (1 + 4 * EPSILON)
            values, choice, ahead = step(model, rounding, values, choice, ahead)
            if not (blocks and np.array_equal(blocks[-1], choice)):
                blocks.append(choice)
                size = 4 * rows * mdp.num_states * len(blocks)
                require(size, f"the policy for {horizon:,} steps", "Solve for fewer steps, or a smaller budget.")
            used[done - 1] = len(blocks) - 1
            returns[done] = values[:, mdp.initial_states]
            kept += [values] if everywhere else []
            bar.update(done)
    policy = Policy(mdp, choice=np.concatenate(blocks), budget=budget, block=used)
    every = np.stack(kept) if everywhere else None
    return policy, Within(returns=returns, error=errors, values=every)


def require_within(mdp: MDP, budget: int, horizon: int) -> None:
    """Raise if the least that is kept of each step (returns, an error, the number of a block) does not fit."""
    size = (8 * (budget + 1) * mdp.initial_states.size + 12) * (horizon + 1)
    require(size, f"a solution for {horizon:,} steps", "Solve for fewer steps.")


def _model(mdp: MDP, discount: float, large: bool) -> Model:
    numbers = mdp.outcome_ptr, mdp.probability, mdp.reward
    gain, is_one = np.zeros(mdp.num_choices), np.zeros(mdp.num_choices, np.bool_)
    call(expected, *numbers, np.arange(mdp.num_choices), gain, is_one, plainly=not large)
    sums = np.where(is_one, 1.0, np.add.reduceat(mdp.probability, mdp.outcome_ptr[:-1].astype(np.int64)))
    probability = mdp.probability / np.repeat(sums, np.diff(mdp.outcome_ptr))
    columns = mdp.choice_ptr, mdp.outcome_ptr, mdp.successor, mdp.damage
    mean_damage = np.add.reduceat(probability * mdp.damage, mdp.outcome_ptr[:-1].astype(np.int64))
    charge = np.where(mdp.is_terminal()[mdp.choice_states()], 0.0, 1.0 + DAMAGE * mean_damage)
    return Model(*columns, probability, gain / sums, charge, discount)


def _rounding(model: Model, values: Floats, error: float) -> float:
    """An upper bound of the rounding error of one step, from values with this error."""
    most = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    size = float(np.abs(model.gain).max(initial=0.0)) + model.discount * (most + error)
    return (3 * int(np.diff(model.outcome_ptr).max(initial=0)) + 10) * EPSILON * size


@njit(cache=True, error_model="numpy")
def best_step(model: Any, rounding: Any, before: Any, last: Any, charged: Any) -> Any:
    """The values with one step more, the choice of each pair, and the expected charges.

    Of the choices within ``rounding`` of the best, the one with the least charge is taken, preferably that of ``last``.
    """
    values, choice, ahead = np.empty_like(before), np.empty_like(last), np.zeros_like(charged)
    widest = 0
    for s in range(before.shape[1]):
        widest = max(widest, model.choice_ptr[s + 1] - model.choice_ptr[s])
    worths, charges = np.empty(widest), np.empty(widest)
    for k in range(before.shape[0]):
        for s in range(before.shape[1]):
            first, best = model.choice_ptr[s], -np.inf
            for c in range(first, model.choice_ptr[s + 1]):
                worth, charge = 0.0, 0.0
                for o in range(model.outcome_ptr[c], model.outcome_ptr[c + 1]):
                    left = k - np.int64(model.damage[o])
                    if left < 0:
                        worth = -np.inf
                        break
                    worth += model.probability[o] * before[left, model.successor[o]]
                    charge += model.probability[o] * charged[left, model.successor[o]]
                worths[c - first], charges[c - first] = model.gain[c] + model.discount * worth, model.charge[c] + charge
                best = max(best, worths[c - first])
            values[k, s], choice[k, s], least = best, -1, np.inf
            for c in range(first, model.choice_ptr[s + 1] if best > -np.inf else first):
                at = c - first
                same = c == last[k, s] and charges[at] <= least + LITTLE
                if worths[at] >= best - rounding and (same or charges[at] < least - LITTLE):
                    least = charges[at]
                    values[k, s], choice[k, s], ahead[k, s] = worths[at], c, least
    return values, choice, ahead


def without_steps(policy: Policy, mdp: MDP, limit: Steps) -> Policy:
    """A policy of ``product(mdp, Steps(T))`` as one of ``mdp`` for the horizon T."""
    parts = policy.mdp.origin.parts
    assert parts is not None
    layers, horizon = policy.num_layers, limit.limit
    counted = np.flatnonzero(parts.states >= 0)
    steps = np.array([parts.memories[i] for i in counted.tolist()], np.int64)
    require(8 * layers * horizon * mdp.num_choices, f"the policy for {horizon:,} steps", "Solve for fewer steps.")
    table = np.zeros((horizon * layers, mdp.num_choices))
    choice, owner = spans(policy.mdp.choice_ptr, counted)  # where it ends, there is one choice and not all
    own = choice - policy.mdp.choice_ptr[counted][owner] + mdp.choice_ptr[parts.states[counted]][owner]
    for layer in range(layers):
        table[(steps[owner] - 1) * layers + layer, own] = policy.weights(layer)[choice]
    return Policy(mdp, probability=table, budget=policy.budget, block=np.arange(horizon))
