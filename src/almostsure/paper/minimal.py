"""Sections 3.2 and 3.3 with their appendix: the barrier, feasible policies, and the minimal budget as a fixed point.

Lemma 3, Theorems 1, 2 and 3, Definitions 4 and 5, Proposition 2 and Algorithm 1 are here.  The objects themselves are
in :mod:`almostsure.budget.reference`, as defined in the paper.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from almostsure.budget import INFINITE, minimal_budget, reference
from almostsure.budget.reference import barrier
from almostsure.model import MDP, example, from_transitions
from almostsure.model.arrays import Floats, Ints
from almostsure.paper.claim import LOOSE, Trial, claim
from almostsure.paper.search import MOST_POLICIES, History, follow, overspends, policies, unrolled
from almostsure.policy import Policy, evaluate
from almostsure.shield import Shield

SAFE, LOST = 0.0, -math.inf
BUDGET = 2
PLENTY = 64  # larger budgets count as ∞ where the barriers of all budgets are computed
MOST_CHOICES = 7  # all small budgets are tried on models with up to this many choices

# ---------------------------------------------------------------------- Lemma 3: the barrier


@claim("Lemma 3", "Decomposition", verdict=LOOSE)
def lemma_3_decomposition(trial: Trial) -> str:
    """The value of a policy is its expected return plus its barrier, which is 0 if it is feasible and −∞ if not.

    The equation is printed with Q on both sides. Q = return + barrier is meant, and checked.
    """
    lost = 0
    for mdp, k in itertools.product(map(unrolled, trial.models), range(BUDGET + 1)):
        for _ in range(5):
            rows = trial.actions(mdp, k + 2)
            facts = evaluate(mdp, Policy.from_table(mdp, rows[:-1], overspent=rows[-1]))
            value = _extended_value(mdp, rows, k)
            trial.close(value, facts.expected_return + (SAFE if facts.overspends == 0 else LOST), f"Q with {k} left")
            lost += value == LOST
    return f"{trial.cases:,} policies, {lost:,} of them −∞: trajectory by trajectory, Q is return plus barrier"


def _extended_value(mdp: MDP, rows: list[list[int]], budget: int) -> float:
    """Q by its definition: the sum over all trajectories, −∞ for those that overspend."""

    def decide(history: History, remaining: int) -> dict[int, float]:
        return {rows[max(remaining, -1)][history[-1]]: 1.0}

    followed = follow(mdp, decide, budget)
    ends = (item for item in followed if mdp.is_terminal()[item[0][-1]])
    return sum(chance * gained if left >= 0 else LOST for _, left, chance, gained in ends)


@claim("Lemma 3", "Bellman equation of the barrier", verdict=LOOSE)
def lemma_3_bellman(trial: Trial) -> str:
    """B*(s, k, a) = E[𝕀{no failure} + max over a' of B*(S', K', a')], and B* is the best over all policies.

    The equation is printed with 𝕀{D̃}, which rewards failure; 𝕀{D̃ = 0} is meant. It does not determine the barrier
    by itself, since −∞ everywhere solves it too: B* is its greatest solution.
    """
    tried = 0
    for mdp in trial.models:
        found = barrier(mdp, BUDGET)
        trial.expect(np.array_equal(_right_hand_side(mdp, found), found), "B* does not solve its equation")
        lost = np.full_like(found, LOST)
        trial.expect(np.array_equal(_right_hand_side(mdp, lost), lost), "−∞ must solve it as well")
        every = policies(mdp, BUDGET, trial.rng)
        tried += len(every)
        safe = any(not overspends(mdp, policy, BUDGET) for policy in every)
        best = min(found[BUDGET][list(mdp.choices(s))].max() for s in mdp.initial_states.tolist())
        trial.expect(not safe or best == SAFE, "a policy is safe, but the barrier says that none is")
        trial.expect(safe or best == LOST or len(every) == MOST_POLICIES, "the barrier is 0, but no policy is safe")
    found = barrier("paper", BUDGET)
    as_printed = _right_hand_side(example("paper"), found, rewarded=True)
    trial.expect(not np.array_equal(as_printed, found), "as printed, it must not hold")
    return f"B* solves it on {trial.where}; it is the best of {tried:,} policies tried"


def _right_hand_side(mdp: MDP, b: Floats, rewarded: bool = False) -> Floats:
    """The right-hand side of the barrier's equation; if ``rewarded``, as printed, where failure counts 0."""
    remaining = np.arange(b.shape[0])[:, None] - mdp.damage
    best = np.maximum.reduceat(b, mdp.choice_ptr[:-1], axis=1)
    after = np.where(remaining >= 0, best[np.maximum(remaining, 0), mdp.successor], LOST)
    signal = np.where((remaining < 0) == rewarded, 0.0, LOST)
    return np.add.reduceat(signal + after, mdp.outcome_ptr[:-1], axis=1)


@claim("Equations (9), (10)", "Monotonicity of the barrier", verdict=LOOSE)
def monotonicity(trial: Trial) -> str:
    """A choice that is safe with k units of budget is safe with more; one that is unsafe with k is unsafe with fewer.

    The equations are printed for every policy π on (s, K); but they are false for a policy that takes more risk if more
    budget is left. They hold for policies that do not depend on K, and for B*; only the latter is used.
    """
    for mdp in trial.models:
        is_safe = barrier(mdp, PLENTY) == SAFE
        trial.expect(bool((is_safe[1:] >= is_safe[:-1]).all()), "B* is not monotone")
    # A step, then a choice between ending without damage and two steps of damage 1.
    mdp = from_transitions([0, 1, 1, 2], [0, 0, 1, 0], [1, 3, 2, 3], [1] * 4, [0] * 4, [0, 0, 1, 1], terminal=[3])
    policy = Policy.from_table(mdp, {(0, 0): 0, (0, 1): 0, (1, 0): 0, (1, 1): 1, (2, 0): 0}, budget=1)
    with_none, with_one = (evaluate(mdp, policy, budget=k).overspends for k in (0, 1))
    trial.expect((with_none, with_one) == (0, 1), "the counterexample must be one")
    return (
        f"true of B* on {trial.where}; false of a policy that plays safe with 0 left and not with 1: it overspends "
        f"with probability {with_none:g} from k = 0 and {with_one:g} from k = 1"
    )


# ---------------------------------------------------------------------- the minimal budget and feasible policies


@claim("Definition 4", "Minimal budget")
def definition_4(trial: Trial) -> str:
    """k*(s, a) is the least k for which the best barrier is 0: the least budget with which a may be played in s.

    k* depends only on which outcomes are possible, not on their probabilities.
    """
    infinite = 0
    for mdp in trial.models:
        k = minimal_budget(mdp).of_choice.astype(np.int64)
        is_safe = barrier(mdp, PLENTY) == SAFE
        threshold = np.where(is_safe.any(axis=0), is_safe.argmax(axis=0), INFINITE)
        k[k > PLENTY] = INFINITE
        trial.expect(np.array_equal(k, threshold), f"k* {k.tolist()}, by the barrier {threshold.tolist()}")
        infinite += int(np.count_nonzero(k == INFINITE))
    return f"equal to the barrier's threshold, on {trial.where} ({infinite} times ∞)"


@claim("Theorem 1", "Feasible policies", verdict=LOOSE)
def theorem_1(trial: Trial) -> str:
    """A policy on (s, K) is feasible if and only if it plays no choice with k*(s, a) > K at any pair that it reaches.

    As printed the condition is required at every (s, k), even at unreachable ones; then no policy would satisfy it if
    some pair has no allowed action. The theorem holds for reachable pairs, which is what we check.
    """
    tried, feasible, printed = 0, 0, 0
    for mdp in trial.models:
        minimal = minimal_budget(mdp)
        shield = Shield(minimal)
        budget = min(minimal.smallest_budget(), BUDGET) + 1
        for policy in policies(mdp, budget, trial.rng):
            keeps = not overspends(mdp, policy, budget)
            trial.expect(keeps == shield.is_feasible(policy, budget), f"policy {policy}")
            tried, feasible = tried + 1, feasible + keeps
            printed += all(minimal.of(s, a) <= k for (s, k), a in policy.items())
        if minimal.smallest_budget() <= budget:
            inside = evaluate(mdp, shield.random_policy(budget)).overspends
            trial.expect(inside == 0, f"random play within the shield overspends with probability {inside:g}")
    return (
        f"both ways, on {tried:,} policies of {trial.where}: {feasible:,} are feasible, of which only {printed:,} "
        "satisfy the condition at every (s, k), as printed"
    )


@claim("Theorem 2", "Recursion for the minimal budget")
def theorem_2(trial: Trial) -> str:
    """k*(s, a) is the maximum over possible outcomes of the damage plus the need of the next state: k* = T k*.

    The recursion also holds for damages above 1. In the proof the case k* = ∞ is missing; it is easy.
    """
    for mdp in trial.models:
        k = minimal_budget(mdp).of_choice
        for c, worst in enumerate(reference.budget_operator(mdp, k)):
            trial.expect(worst == k[c], f"{mdp.describe_choice(c)}: k* is {k[c]}, the recursion {worst}")
    return f"{trial.cases:,} choices of {trial.where} satisfy it"


# ---------------------------------------------------------------------- the operator, and Algorithm 1


def _below(one: Ints, other: Ints) -> bool:
    """The order of budgets (Definition 7): one is below the other if it is at every choice."""
    return bool((one <= other).all())


@claim("Proposition 2", "Properties of the operator")
def proposition_2(trial: Trial) -> str:
    """The budget operator T (Definition 5) preserves the order, and k* is a fixed point of it.

    In the appendix. k* + c is a fixed point too, also for c = ∞, as the paper says; so 'smallest' matters.
    """
    for mdp in trial.models:
        one, other = (trial.rng.choice([*range(7), INFINITE], mdp.num_choices) for _ in range(2))
        low, high = (reference.budget_operator(mdp, k) for k in (np.minimum(one, other), np.maximum(one, other)))
        trial.expect(_below(low, high), "T is not monotone")
        for constant in (0, 1, 7, INFINITE):
            raised = np.minimum(minimal_budget(mdp).of_choice + np.int64(constant), INFINITE)
            fixed = np.array_equal(reference.budget_operator(mdp, raised), raised)
            trial.expect(fixed, f"k* + {constant} is not fixed")
    return f"on random pairs of budgets for {trial.where}; k*, k* + 1, k* + 7 and ∞ are fixed"


@claim("Algorithm 1", "Fixed-point iteration", verdict=LOOSE)
def algorithm_1(trial: Trial) -> str:
    """The iterates of T from k = 0 converge to the minimal budget.

    As printed the loop does not end, and where k* = ∞ the iterates grow indefinitely. Ours stops at the first
    repetition, and sets values above |S| times the largest damage to ∞; no finite k* exceeds that.
    """
    for mdp in trial.models:
        found = minimal_budget(mdp).of_choice
        trial.expect(np.array_equal(reference.algorithm_1(mdp).of_choice, found), "Algorithm 1 and the solver differ")
    mdp = from_transitions([0], [0], [0], [1.0], [0.0], [1])  # one state whose only action stays, with damage 1
    k = np.zeros(1, np.int64)
    for n in range(1, 1001):
        k = reference.budget_operator(mdp, k)
        trial.expect(int(k[0]) == n, f"iterate {n} is {k[0]}")
    ours = reference.algorithm_1(mdp)
    trial.expect(int(ours.of_choice[0]) == INFINITE, "ours must find ∞")
    return (
        f"equal to the solver on {trial.where}; with damage 1 in every step, iterate n is n (1,000 tried), and ours "
        f"stops after {ours.iterations} sweeps with ∞"
    )


@claim("Theorem 3", "Convergence to the minimal budget")
def theorem_3(trial: Trial) -> str:
    """The iterates of Algorithm 1 increase and converge to k*, the smallest fixed point.

    The proof uses without justification that the limit is a fixed point; monotonicity and finiteness imply it.
    """
    longest = 0
    for mdp in trial.models:
        least = minimal_budget(mdp).of_choice
        iterates = reference.algorithm_1(mdp, trace=True).trace
        for k, following in itertools.pairwise(iterates):
            trial.expect(_below(k, following) and _below(following, least), "iterates must increase, up to k*")
        trial.expect(np.array_equal(iterates[-1], least), "no convergence to k*")
        longest = max(longest, len(iterates) - 1)
        small = mdp.num_choices if mdp.num_choices <= MOST_CHOICES else 0  # all small budgets of small models
        for candidate in itertools.product((0, 1, 2, INFINITE), repeat=small):
            k = np.array(candidate, np.int64)
            fixed = small and np.array_equal(reference.budget_operator(mdp, k), k)
            trial.expect(not fixed or _below(least, k), f"fixed point {candidate} is not above k*")
    return f"from below, on {trial.where}; at most {longest:,} sweeps"
