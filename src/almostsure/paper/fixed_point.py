"""Section 3.3 and its appendix: the budget operator, its order, Algorithm 1 and its convergence."""

from __future__ import annotations

import itertools

import numpy as np

from almostsure.budget import reference
from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.model.build import from_transitions
from almostsure.model.examples import example
from almostsure.model.mdp import MDP, Ints
from almostsure.paper.claim import LOOSE, Trial, check
from almostsure.paper.small import models


@check(
    "Definition 5",
    "Budget operator",
    comment="That k + c is a fixed point with k is right, also for c = ∞: this is why 'smallest' matters.",
)
def definition_5(trial: Trial) -> str:
    """T takes each choice to the largest damage of a possible outcome plus the least k of the state after it."""
    for mdp in models(trial.rng, 150, states=5, damage=2):
        k = _random_budgets(trial, mdp)
        trial.expect(reference.budget_operator(mdp, k).tolist() == _operator(mdp, k), f"T of {k.tolist()}")
        least = minimal_budget(mdp).of_choice.astype(np.int64)
        for constant in (1, 7, INFINITE):
            raised = np.minimum(least + constant, INFINITE)
            trial.expect(
                np.array_equal(reference.budget_operator(mdp, raised), raised), f"k* + {constant} must be fixed"
            )
    return "equal to its definition on 150 random models, ∞ included; k* + 1, k* + 7 and ∞ are fixed points as well"


def _operator(mdp: MDP, k: Ints) -> list[int]:
    """T, outcome by outcome."""
    least = [min(k[c] for c in mdp.choices(s)) for s in range(mdp.num_states)]
    bounds = [(int(mdp.outcome_ptr[c]), int(mdp.outcome_ptr[c + 1])) for c in range(mdp.num_choices)]
    after = [min(int(least[t]) + int(d), INFINITE) for t, d in zip(mdp.successor, mdp.damage, strict=True)]
    return [max(after[begin:end]) for begin, end in bounds]


def _random_budgets(trial: Trial, mdp: MDP) -> Ints:
    k = trial.rng.integers(0, 7, mdp.num_choices)
    return np.where(trial.rng.random(k.size) < 0.2, INFINITE, k)


@check("Definition 7", "Order of budgets", comment="In the appendix. It is partial: most pairs cannot be compared.")
def definition_7(trial: Trial) -> str:
    """One budget is below another if it is at every choice: an order in which any two have a meet and a join."""
    comparable = 0
    for mdp in models(trial.rng, 200):
        one, other = _random_budgets(trial, mdp), _random_budgets(trial, mdp)
        low, high = np.minimum(one, other), np.maximum(one, other)
        trial.expect(_below(low, one) and _below(one, high) and _below(low, high), "bounds, and transitivity")
        trial.expect((_below(one, other) and _below(other, one)) == np.array_equal(one, other), "antisymmetry")
        comparable += _below(one, other) or _below(other, one)
    return f"an order on 200 random pairs, {comparable} of which are comparable"


def _below(one: Ints, other: Ints) -> bool:
    return bool((one <= other).all())


@check("Proposition 2", "Properties of the operator", comment="In the appendix.")
def proposition_2(trial: Trial) -> str:
    """T preserves the order, and k* is a fixed point of it."""
    for mdp in models(trial.rng, 200, states=5, damage=2):
        one, other = _random_budgets(trial, mdp), _random_budgets(trial, mdp)
        low, high = (reference.budget_operator(mdp, k) for k in (np.minimum(one, other), np.maximum(one, other)))
        trial.expect(_below(low, high), "T is not monotone")
        least = minimal_budget(mdp).of_choice
        trial.expect(np.array_equal(reference.budget_operator(mdp, least), least), "k* is not a fixed point")
    return "on 200 random models and pairs of budgets"


@check(
    "Algorithm 1",
    "Fixed-point iteration",
    verdict=LOOSE,
    comment="As printed its loop has no end, and where k* = ∞ its iterates have no last value. Ours stops at the first "
    "repetition and calls ∞ what exceeds |S| times the largest damage, which no finite k* does.",
)
def algorithm_1(trial: Trial) -> str:
    """From k = 0 on, apply T: its iterates give the minimal budget."""
    mdp = from_transitions([0], [0], [0], [1.0], [0.0], [1])  # one state whose only action hurts and stays
    k = np.zeros(1, np.int64)
    for n in range(1, 1001):
        k = reference.budget_operator(mdp, k)
        trial.expect(int(k[0]) == n, f"iterate {n} is {k[0]}")
    ours = reference.algorithm_1(mdp)
    trial.expect(int(ours.of_choice[0]) == INFINITE, "ours must find ∞")
    for model in models(trial.rng, 150, states=6, damage=3):
        finite = (found := minimal_budget(model).of_choice)[found < INFINITE]
        bound = model.num_states * model.max_damage
        trial.expect(not finite.size or int(finite.max()) <= bound, f"a finite budget exceeds {bound}")
        trial.expect(np.array_equal(reference.algorithm_1(model).of_choice, found), "Algorithm 1 and the solver differ")
    return f"where every step hurts, iterate n is n (1,000 tried); ours stops after {ours.iterations} sweeps with ∞"


@check(
    "Theorem 3",
    "Convergence to the minimal budget",
    comment="That the limit is a fixed point is used without saying why; increasing sequences and finite sets suffice.",
)
def theorem_3(trial: Trial) -> str:
    """Algorithm 1's iterates increase and converge to k*, the smallest fixed point."""
    longest = 0
    for mdp in (*models(trial.rng, 100, states=6, damage=2), *map(example, ("paper", "corridor", "quicksand"))):
        least = minimal_budget(mdp).of_choice
        k, bound = np.zeros(mdp.num_choices, np.int64), mdp.num_states * max(mdp.max_damage, 1)
        sweeps = 0
        while not np.array_equal(np.where(k > bound, INFINITE, k), least) and sweeps <= mdp.num_states * (bound + 1):
            following = reference.budget_operator(mdp, k)
            trial.expect(_below(k, following) and _below(following, least), "iterates must increase, up to k*")
            k, sweeps = following, sweeps + 1
        trial.expect(np.array_equal(np.where(k > bound, INFINITE, k), least), "no convergence to k*")
        finite = least < INFINITE
        trial.expect(np.array_equal(reference.budget_operator(mdp, k)[finite], least[finite]), "not a fixed point")
        longest = max(longest, sweeps)
    _expect_least(trial)
    return f"from below, on 103 models, without a stopping rule; at most {longest:,} sweeps"


def _expect_least(trial: Trial) -> None:
    """That no fixed point is smaller: all small budgets of small models are tried."""
    for mdp in models(trial.rng, 15, states=3):
        least = minimal_budget(mdp).of_choice
        for candidate in itertools.product((0, 1, 2, INFINITE), repeat=mdp.num_choices):
            if _operator(mdp, np.array(candidate)) == list(candidate):
                trial.expect(_below(least, np.array(candidate)), f"fixed point {candidate} is not above k*")
