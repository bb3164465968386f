"""Sections 3.2 and 3.3 with their appendix: the barrier, feasible policies, and the minimal budget as a fixed point.

Lemma 3, Theorems 1, 2 and 3, Definitions 4 and 5, Proposition 2 and Algorithm 1 are here.  The objects themselves are
in :mod:`almostsure.budget.reference`, as plain as in the paper.
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
PLENTY = 64  # budgets above are taken for ∞ where the barrier of every budget is computed
MOST_CHOICES = 7  # of a model all of whose small budgets are tried

# ---------------------------------------------------------------------- Lemma 3: the barrier


@claim("Lemma 3", "Decomposition", verdict=LOOSE)
def lemma_3_decomposition(trial: Trial) -> str:
    """The value of a policy is its expected return plus its barrier, which is 0 if it is feasible and −∞ if not.

    Printed with Q on both sides, which says nothing. Meant, and checked, is Q = return + barrier.
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
    """Q by its definition: every trajectory with its probability, −∞ for those that overspend."""

    def decide(history: History, remaining: int) -> dict[int, float]:
        return {rows[max(remaining, -1)][history[-1]]: 1.0}

    followed = follow(mdp, decide, budget)
    ends = (item for item in followed if mdp.is_terminal()[item[0][-1]])
    return sum(chance * gained if left >= 0 else LOST for _, left, chance, gained in ends)


@claim("Lemma 3", "Bellman equation of the barrier", verdict=LOOSE)
def lemma_3_bellman(trial: Trial) -> str:
    """B*(s, k, a) = E[𝕀{no failure} + max over a' of B*(S', K', a')], and B* is the best over all policies.

    Printed with 𝕀{D̃}, which rewards failure; meant is 𝕀{D̃ = 0}. The equation alone does not determine the
    barrier, as −∞ everywhere solves it too: B* is its greatest solution.
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
        trial.expect(not safe or best == SAFE, "a policy is safe where the barrier says that none is")
        trial.expect(safe or best == LOST or len(every) == MOST_POLICIES, "no policy is safe where the barrier says so")
    found = barrier("paper", BUDGET)
    as_printed = _right_hand_side(example("paper"), found, rewarded=True)
    trial.expect(not np.array_equal(as_printed, found), "as printed, it must not hold")
    return f"B* solves it on {trial.where}; it is the best of {tried:,} policies tried"


def _right_hand_side(mdp: MDP, b: Floats, rewarded: bool = False) -> Floats:
    """The right-hand side of the barrier's equation; ``rewarded`` is the signal of failure that counts 0."""
    remaining = np.arange(b.shape[0])[:, None] - mdp.damage
    best = np.maximum.reduceat(b, mdp.choice_ptr[:-1], axis=1)
    after = np.where(remaining >= 0, best[np.maximum(remaining, 0), mdp.successor], LOST)
    signal = np.where((remaining < 0) == rewarded, 0.0, LOST)
    return np.add.reduceat(signal + after, mdp.outcome_ptr[:-1], axis=1)


@claim("Equations (9), (10)", "Monotonicity of the barrier", verdict=LOOSE)
def monotonicity(trial: Trial) -> str:
    """What is safe with k units of budget is safe with more, and what is unsafe with k is unsafe with fewer.

    Printed for every policy π of (s, K); there it is false, as such a policy may be reckless where it has more
    left. It holds for policies that do not look at K, and for B*, which is all that is used.
    """
    for mdp in trial.models:
        is_safe = barrier(mdp, PLENTY) == SAFE
        trial.expect(bool((is_safe[1:] >= is_safe[:-1]).all()), "B* is not monotone")
    # A step, then a choice between a harmless end and two steps that hurt.
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

    Only which outcomes are possible matters, never how probable they are.
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
    """A policy on (s, K) is feasible if, and only if, where it gets to it never plays a choice with k*(s, a) > K.

    As printed it is asked at every (s, k), also where the policy never gets to; where no action is allowed no
    policy would qualify. It holds along what can happen, which is what we check.
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
        "satisfy the condition at every (s, k), as it is printed"
    )


@claim("Theorem 2", "Recursion for the minimal budget")
def theorem_2(trial: Trial) -> str:
    """k*(s, a) is the largest damage of a possible outcome plus what the state after it needs: k* = T k*.

    With damages above 1, too. In the proof the case k* = ∞ is missing; it is easy.
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

    In the appendix. That k* + c is a fixed point, too, is right, also for c = ∞: this is why 'smallest' matters.
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
    """From k = 0 on, apply T: its iterates give the minimal budget.

    As printed its loop has no end, and where k* = ∞ its iterates have no last value. Ours stops at the first
    repetition and calls ∞ what exceeds |S| times the largest damage, which no finite k* does.
    """
    for mdp in trial.models:
        found = minimal_budget(mdp).of_choice
        trial.expect(np.array_equal(reference.algorithm_1(mdp).of_choice, found), "Algorithm 1 and the solver differ")
    mdp = from_transitions([0], [0], [0], [1.0], [0.0], [1])  # one state whose only action hurts and stays
    k = np.zeros(1, np.int64)
    for n in range(1, 1001):
        k = reference.budget_operator(mdp, k)
        trial.expect(int(k[0]) == n, f"iterate {n} is {k[0]}")
    ours = reference.algorithm_1(mdp)
    trial.expect(int(ours.of_choice[0]) == INFINITE, "ours must find ∞")
    return (
        f"equal to the solver on {trial.where}; where every step hurts, iterate n is n (1,000 tried), and ours stops "
        f"after {ours.iterations} sweeps with ∞"
    )


@claim("Theorem 3", "Convergence to the minimal budget")
def theorem_3(trial: Trial) -> str:
    """Algorithm 1's iterates increase and converge to k*, the smallest fixed point.

    That the limit is a fixed point is used without saying why; increasing sequences and finite sets suffice.
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
