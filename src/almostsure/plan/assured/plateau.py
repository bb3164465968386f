"""Large budgets: from some budget on the value no longer changes, so not every layer needs to be solved.

Let V(K) be the best return with remaining budget K, M the largest finite k* of a choice, D the largest damage of a
step, and U the best return *without* a budget, over all choices with a finite k*: the model without its damage, which
is one layer.

- V(K) ≤ U for every K: every policy inside the shield can be played there too, for the same return.
- Let π be the policy found for U and ℓ its proved lower bound, for which ℓ ≤ r + P ℓ on the choices of π.  Let every
  state be worth at least ℓ − c in the layers K₀ + 1 − D … K₀, c ≥ 0, and K₀ ≥ M + D, so that every choice with a
  finite k* is allowed in all of them.  Then π, played with K₀ + 1 remaining, reaches these layers or never takes
  damage, and ℓ − c ≤ r + P (ℓ − c), as rows of P add up to 1 at most; so it is worth at least ℓ − c there too.  By
  induction the same holds in every layer above K₀.

So ℓ − c ≤ V(K) ≤ U for all K > K₀, and π attains this.  Layers above K₀ are not solved if these bounds are within the
tolerance at the start, and elsewhere at least about as close as those of layer K₀ itself.  The first K₀ tried is a
little above M + D; each further one is four times as large.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from almostsure.budget.minimal import INFINITE
from almostsure.errors import LimitReached, UnboundedReturn
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP, Bools, Floats, Ints
from almostsure.plan.assured.layers import Layers, solve_layers

FEW = 16  # layers above M + D up to the first K₀
GROWTH = 4  # the factor to the next K₀


def is_large(mdp: MDP, of_choice: Ints, budget: int) -> bool:
    """Whether a budget is so large that layers above some K₀ may be skipped."""
    return budget >= GROWTH * FEW and budget >= GROWTH * _first_layer(mdp, of_choice)


def _first_layer(mdp: MDP, of_choice: Ints) -> int:
    """The first K₀ that is tried."""
    finite = of_choice[of_choice < INFINITE]
    return int(finite.max(initial=0)) + mdp.max_damage + FEW


def solve_large(
    mdp: MDP,
    of_choice: Ints,
    budget: int,
    *,
    discount: float,
    tolerance: float,
    report: Callable[[int, int], None] | None,
) -> Layers:
    """Solve all layers like :func:`solve_layers`, but skip those above K₀ if they are proved not to differ."""

    def solve(layers: int) -> Layers:
        return solve_layers(mdp, of_choice, layers, discount=discount, tolerance=tolerance, report=report)

    most = _first_layer(mdp, of_choice)
    if budget < GROWTH * most:
        return solve(budget)
    above = _bounded(mdp, of_choice, discount, tolerance)
    known = np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]) < INFINITE
    while above is not None and GROWTH * most <= budget:
        below = solve(most)
        bounds = _bounds(mdp, below, above, known, tolerance)
        if bounds is not None:
            return _repeat(below, bounds, above, budget)
        most *= GROWTH
    return solve(budget)


def without_budget(mdp: MDP, of_choice: Ints, *, discount: float = 1.0, tolerance: float = 1e-8) -> Layers:
    """The layer without a budget, over all choices with a finite k*: an upper bound of the return for every budget.

    Raises UnboundedReturn if the return has no bound there.
    """
    choice = mdp.outcome_choices()
    harmless = from_transitions(
        mdp.choice_states()[choice], mdp.choice_action[choice], mdp.successor, mdp.probability, mdp.reward,
        np.zeros(mdp.num_outcomes, np.uint8), num_states=mdp.num_states,
        initial={int(s): float(p) for s, p in zip(mdp.initial_states, mdp.initial_probabilities, strict=True)},
    )  # fmt: skip
    needed = np.where(of_choice < INFINITE, 0, INFINITE).astype(of_choice.dtype)
    return solve_layers(harmless, needed, 0, discount=discount, tolerance=tolerance)


def _bounded(mdp: MDP, of_choice: Ints, discount: float, tolerance: float) -> Layers | None:
    """The layer without a budget; None if the return has no bound there, or none that can be proved."""
    try:
        above = without_budget(mdp, of_choice, discount=discount, tolerance=tolerance)
    except (UnboundedReturn, LimitReached):
        return None
    return None if np.isposinf(above.upper).any() else above


def _bounds(mdp: MDP, below: Layers, above: Layers, known: Bools, tolerance: float) -> tuple[Floats, Floats] | None:
    """Bounds, [num_states], that hold in every layer above K₀; None if they are too far apart anywhere."""
    lower, upper = above.lower[0], above.upper[0]
    finite = known & np.isfinite(lower)
    short = lower[finite] - below.lower[-max(mdp.max_damage, 1) :, finite]
    if not np.isfinite(short).all() or not np.isneginf(upper[known & ~finite]).all():
        return None
    least = lower - np.nextafter(max(0.0, float(short.max(initial=0.0))), np.inf)
    enough = tolerance * np.maximum(1.0, np.abs(least))
    usual = 2 * np.max(below.upper[-1, finite] - below.lower[-1, finite], initial=0.0)
    elsewhere = np.ones(mdp.num_states, np.bool_)
    elsewhere[mdp.initial_states] = False
    enough[elsewhere] = np.maximum(enough[elsewhere], usual)
    if (upper[finite] - least[finite] > enough[finite]).any():
        return None
    return least, upper


def _repeat(below: Layers, bounds: tuple[Floats, Floats], above: Layers, budget: int) -> Layers:
    """The layers ``below``, continued with the same bounds and choices up to the budget."""
    more = budget + 1 - len(below.lower)

    def extend(rows: Floats, row: Floats) -> Floats:
        return np.concatenate([rows, np.broadcast_to(row, (more, row.size))])

    choice = above.choice[0].astype(below.choice.dtype)
    return Layers(
        lower=extend(below.lower, bounds[0]),
        upper=extend(below.upper, bounds[1]),
        choice=np.concatenate([below.choice, np.broadcast_to(choice, (more, choice.size))]),
        proved=below.proved and above.proved,
    )
