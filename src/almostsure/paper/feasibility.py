"""Sections 3.2 and 3.3: the barrier, the minimal budget, and which policies are feasible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from almostsure.budget.minimal import INFINITE
from almostsure.budget.reference import barrier, budget_operator
from almostsure.budget.solve import minimal_budget
from almostsure.model.build import from_transitions
from almostsure.model.examples import example
from almostsure.model.mdp import MDP, Floats
from almostsure.paper.claim import LOOSE, Trial, check
from almostsure.paper.memory import CLOSE
from almostsure.paper.small import MOST_PLANS, least_budgets, models, overspends, plans, starting_in, worst_damages
from almostsure.policy.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.shield.shield import Shield

SAFE, LOST = 0.0, -math.inf
PLENTY = 8  # more than any finite budget of the small models
EXAMPLES = ("paper", "corridor", "quicksand", "hazard-map")

# ---------------------------------------------------------------------- Lemma 3


@check(
    "Lemma 3",
    "Decomposition",
    verdict=LOOSE,
    comment="Printed with Q on both sides, which says nothing. Meant, and checked, is Q = return + barrier.",
)
def lemma_3_decomposition(trial: Trial) -> str:
    """The value of a policy is its expected return plus its barrier, which is 0 if it is feasible and −∞ if not."""
    budget, lost = 2, 0
    for mdp in models(trial.rng, 40, states=4, damage=2, ends=True):
        living = np.flatnonzero(~mdp.is_terminal()).tolist()
        table = {(s, k): int(trial.rng.choice(mdp.actions(s))) for s in living for k in range(-1, budget + 1)}
        for s, k in itertools.product(living, range(budget + 1)):
            starts = starting_in(mdp, s)
            for a in mdp.actions(s).tolist():
                direct = _extended_value(mdp, table, s, k, a)
                facts = evaluate(starts, _first(starts, table, s, a, budget), budget=k)
                parts = facts.expected_return + (SAFE if facts.overspends == 0 else LOST)
                trial.expect(direct == parts or abs(direct - parts) < CLOSE, f"Q({s}, {k}, {a}): {direct}, {parts}")
                lost += direct == LOST
    return f"{trial.cases:,} triples (s, k, a), {lost:,} of them −∞: trajectory by trajectory, Q is return plus barrier"


def _extended_value(mdp: MDP, table: Mapping[tuple[int, int], int], s: int, k: int, a: int) -> float:
    """Q by its definition: every trajectory with its probability, −∞ for those that take more than k."""
    value, queue = 0.0, [(1.0, 0.0, s, k, a)]
    while queue:
        chance, gained, state, left, action = queue.pop()
        for o in mdp.outcomes(state, action):
            after, reward, p = left - o.damage, gained + o.reward, chance * o.probability
            if mdp.is_terminal()[o.next_state]:
                value += p * reward if after >= 0 else LOST
            else:
                queue.append((p, reward, o.next_state, after, table[o.next_state, max(after, -1)]))
    return value


def _first(mdp: MDP, table: Mapping[tuple[int, int], int], state: int, action: int, budget: int) -> Policy:
    """The policy that plays ``action`` at ``state`` and follows the table elsewhere; no state is visited twice."""
    plan = {pair: action if pair[0] == state else played for pair, played in table.items()}
    after = {s: played for (s, k), played in plan.items() if k < 0}
    return Policy.from_table(mdp, {pair: x for pair, x in plan.items() if pair[1] >= 0}, budget=budget, overspent=after)


@check(
    "Lemma 3",
    "Bellman equation of the barrier",
    verdict=LOOSE,
    comment="Printed with 𝕀{D̃}, which rewards failure; meant is 𝕀{D̃ = 0}. The equation alone does not determine the "
    "barrier, as −∞ everywhere solves it too: B* is its greatest solution.",
)
def lemma_3_bellman(trial: Trial) -> str:
    """B*(s, k, a) = E[𝕀{no failure} + max over a' of B*(S', K', a')], and B* is the best over all policies."""
    for mdp in models(trial.rng, 40, damage=2):
        found = barrier(mdp, PLENTY)
        trial.expect(np.array_equal(_right_hand_side(mdp, found), found), "B* does not solve its equation")
        lost = np.full_like(found, LOST)
        trial.expect(np.array_equal(_right_hand_side(mdp, lost), lost), "−∞ must solve it as well")
    mdp = example("paper")
    as_printed = _right_hand_side(mdp, barrier(mdp, 2), rewarded=1)
    trial.expect(not np.array_equal(as_printed, barrier(mdp, 2)), "as printed, it must not hold")
    tried = _expect_best_of_policies(trial)
    return f"B* solves it on 40 random models, with damages up to 2; it is the best of {tried:,} policies tried"


def _right_hand_side(mdp: MDP, b: Floats, rewarded: int = 0) -> Floats:
    """The right-hand side of the barrier's equation, outcome by outcome; ``rewarded`` is the signal that counts 0."""
    right = np.zeros_like(b)
    for k, c in itertools.product(range(b.shape[0]), range(mdp.num_choices)):
        for j in range(int(mdp.outcome_ptr[c]), int(mdp.outcome_ptr[c + 1])):
            left = k - int(mdp.damage[j])
            following = mdp.choices(int(mdp.successor[j]))
            best = max(b[left, following.start : following.stop]) if left >= 0 else LOST
            right[k, c] += best if (left < 0) == rewarded else LOST
    return right


def _expect_best_of_policies(trial: Trial) -> int:
    budget, tried = 1, 0
    for mdp in models(trial.rng, 100, states=4):
        every = plans(mdp, budget, trial.rng)
        tried += len(every)
        safe = any(not overspends(mdp, plan, budget) for plan in every)
        best = barrier(mdp, budget)[budget][list(mdp.choices(mdp.initial_state))].max()
        trial.expect(safe == (best == SAFE), "the barrier is not that of the best policy")
    return tried


@check(
    "Equations (9), (10)",
    "Monotonicity of the barrier",
    verdict=LOOSE,
    comment="Printed for every policy π of (s, K); there it is false, as such a policy may be reckless where it has "
    "more left. It holds for policies that do not look at K, and for B*, which is all that is used.",
)
def monotonicity(trial: Trial) -> str:
    """What is safe with k units of budget is safe with more, and what is unsafe with k is unsafe with fewer."""
    for mdp in models(trial.rng, 60, damage=2):
        is_safe = barrier(mdp, PLENTY) == SAFE
        trial.expect(bool((is_safe[1:] >= is_safe[:-1]).all()), "B* is not monotone")
        choices = [int(trial.rng.choice(list(mdp.choices(s)))) for s in range(mdp.num_states)]
        policy = Policy.from_table(mdp, mdp.choice_action[choices].tolist())
        facts, worst = evaluate(mdp, policy, budget=PLENTY), worst_damages(mdp, choices)[mdp.initial_state]
        may = [facts.exceeds(k) > 0 for k in range(PLENTY)]
        trial.expect(may == [worst > k for k in range(PLENTY)], "B_π of a policy that ignores K is not monotone")
    mdp = _bridge()
    policy = Policy.from_table(mdp, {(0, 0): 0, (0, 1): 0, (1, 0): 0, (1, 1): 1, (2, 0): 0}, budget=1)
    with_none, with_one = (evaluate(mdp, policy, budget=k).overspends for k in (0, 1))
    trial.expect((with_none, with_one) == (0, 1), "the counterexample must be one")
    return (
        "true of B* and of policies that ignore K, on 60 random models; false of one that plays safe with 0 left and "
        f"not with 1: it overspends with probability {with_none:g} from k = 0 and {with_one:g} from k = 1"
    )


def _bridge() -> MDP:
    """A step, then a choice between a harmless end and two steps that hurt."""
    rows = [(0, 0, 1, 1, 0, 0), (1, 0, 3, 1, 0, 0), (1, 1, 2, 1, 0, 1), (2, 0, 3, 1, 0, 1)]
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
    return from_transitions(*columns, num_states=4, terminal=[3])


# ---------------------------------------------------------------------- the minimal budget


@check(
    "Definition 4", "Minimal budget", comment="Only which outcomes are possible matters, never how probable they are."
)
def definition_4(trial: Trial) -> str:
    """k*(s, a) is the least k for which the best barrier is 0: the least budget with which a may be played in s."""
    infinite = 0
    for mdp in models(trial.rng, 80, states=5, damage=2):
        k = minimal_budget(mdp).of_choice
        is_safe = barrier(mdp, int(mdp.num_states * 2)) == SAFE
        threshold = np.where(is_safe.any(axis=0), is_safe.argmax(axis=0), INFINITE)
        trial.expect(np.array_equal(k, threshold), f"k* {k.tolist()}, by the barrier {threshold.tolist()}")
        by_search = least_budgets(mdp)
        trial.expect(k.tolist() == by_search, f"k* {k.tolist()}, by search {by_search}")
        infinite += int(np.count_nonzero(k == INFINITE))
    return (
        f"equal to the barrier's threshold and to a search over all policies, on 80 random models ({infinite} times ∞)"
    )


@check(
    "Theorem 1",
    "Feasible policies",
    verdict=LOOSE,
    comment="As printed it is asked at every (s, k), also where the policy never gets to; where no action is allowed "
    "no policy would qualify. It holds along what can happen, which is what we check.",
)
def theorem_1(trial: Trial) -> str:
    """A policy on (s, K) is feasible if, and only if, where it gets to it never plays a choice with k*(s, a) > K."""
    tried, feasible, printed = 0, 0, 0
    for mdp in models(trial.rng, 60, states=4, actions=3):
        budget = int(trial.rng.integers(0, 3))
        minimal = minimal_budget(mdp)
        shield = Shield(minimal)
        for plan in plans(mdp, budget, trial.rng):
            keeps = not overspends(mdp, plan, budget)
            trial.expect(keeps == shield.is_feasible(plan, budget), f"policy {plan}")
            tried, feasible = tried + 1, feasible + keeps
            printed += all(minimal.of(s, a) <= k for (s, k), a in plan.items())
        _expect_exactly_feasible(trial, mdp, shield, budget)
    return (
        f"both ways, on {tried:,} policies of 60 random models ({MOST_PLANS} where there are more): {feasible:,} are "
        f"feasible, of which only {printed:,} satisfy the condition at every (s, k), as it is printed"
    )


def _expect_exactly_feasible(trial: Trial, mdp: MDP, shield: Shield, budget: int) -> None:
    """The same of a randomised policy, by exact probabilities."""
    weights = {
        (s, k): dict(zip(mdp.actions(s).tolist(), trial.rng.dirichlet(np.ones(len(mdp.choices(s)))), strict=True))
        for s in np.flatnonzero(~mdp.is_terminal()).tolist()
        for k in range(budget + 1)
    }
    policy = Policy.from_table(mdp, weights, budget=budget)
    trial.expect(shield.is_feasible(policy) == (evaluate(mdp, policy).overspends == 0), f"random policy {weights}")
    if shield.minimal.smallest_budget() <= budget:
        inside = evaluate(mdp, shield.random_policy(budget)).overspends
        trial.expect(inside == 0, f"random play within the shield overspends with probability {inside:g}")


@check(
    "Theorem 2",
    "Recursion for the minimal budget",
    comment="With damages above 1, too. In the proof the case k* = ∞ is missing; it is easy.",
)
def theorem_2(trial: Trial) -> str:
    """k*(s, a) is the largest damage of a possible outcome plus what the state after it needs: k* = T k*."""
    for mdp in (*models(trial.rng, 100, states=6, damage=3), *(example(name) for name in EXAMPLES)):
        k = minimal_budget(mdp).of_choice
        for c in range(mdp.num_choices):
            outcomes = range(int(mdp.outcome_ptr[c]), int(mdp.outcome_ptr[c + 1]))
            worst = max(_damage_and_after(mdp, k, j) for j in outcomes)
            trial.expect(min(worst, INFINITE) == k[c], f"{mdp.describe_choice(c)}: k* is {k[c]}, the recursion {worst}")
        trial.expect(np.array_equal(budget_operator(mdp, k), k), "T k* differs from k*")
    return f"{trial.cases - 104:,} choices of 100 random models and {len(EXAMPLES)} examples satisfy it"


def _damage_and_after(mdp: MDP, k: Any, outcome: int) -> int:
    following = mdp.choices(int(mdp.successor[outcome]))
    return int(mdp.damage[outcome]) + int(k[following.start : following.stop].min())
