"""Sections 3.2 and 3.3 with their appendix: the barrier, feasible policies, and the minimal budget as a fixed point.

Lemma 3, Theorems 1, 2 and 3, Definitions 4, 5 and 7, Proposition 2 and Algorithm 1 are here.  The objects themselves
are in :mod:`almostsure.budget.reference`, as plain as in the paper.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from almostsure.budget import reference
from almostsure.budget.minimal import INFINITE
from almostsure.budget.reference import barrier
from almostsure.budget.solve import minimal_budget
from almostsure.model.build.examples import example
from almostsure.model.build.transitions import from_transitions
from almostsure.model.mdp import MDP, Floats, Ints
from almostsure.paper.claim import LOOSE, Trial, claim
from almostsure.paper.small import MOST_PLANS, least_budgets, overspends, plans, starting_in, stationary, worst_damages
from almostsure.policy.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.shield.shield import Shield

SAFE, LOST = 0.0, -math.inf
PLENTY = 8  # more than any finite budget of the random models
MOST_CHOICES = 7  # of a model all of whose small budgets are tried
EXAMPLES = ("paper", "corridor", "quicksand", "hazard-map")
Table = Mapping[tuple[int, int], int]

# ---------------------------------------------------------------------- Lemma 3: the barrier


@claim(
    "Lemma 3",
    "Decomposition",
    verdict=LOOSE,
    follows=True,
    comment="Printed with Q on both sides, which says nothing. Meant, and checked, is Q = return + barrier.",
)
def lemma_3_decomposition(trial: Trial) -> str:
    """The value of a policy is its expected return plus its barrier, which is 0 if it is feasible and −∞ if not."""
    budget, lost = 2, 0
    for mdp in trial.models(40, states=4, damage=2, ends=True):
        living = np.flatnonzero(~mdp.is_terminal()).tolist()
        table = {(s, k): int(trial.rng.choice(mdp.actions(s))) for s in living for k in range(-1, budget + 1)}
        for s, k in itertools.product(living, range(budget + 1)):
            starts = starting_in(mdp, s)
            for a in mdp.actions(s).tolist():
                direct = _extended_value(mdp, table, s, k, a)
                facts = evaluate(starts, _first(starts, table, s, a, budget), budget=k)
                trial.close(direct, facts.expected_return + (SAFE if facts.overspends == 0 else LOST), f"Q{s, k, a}")
                lost += direct == LOST
    return f"{trial.cases:,} triples (s, k, a), {lost:,} of them −∞: trajectory by trajectory, Q is return plus barrier"


def _extended_value(mdp: MDP, table: Table, s: int, k: int, a: int) -> float:
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


def _first(mdp: MDP, table: Table, state: int, action: int, budget: int) -> Policy:
    """The policy that plays ``action`` at ``state`` and follows the table elsewhere; no state is visited twice."""
    plan = {pair: action if pair[0] == state else played for pair, played in table.items()}
    after = {s: played for (s, k), played in plan.items() if k < 0}
    return Policy.from_table(mdp, {pair: x for pair, x in plan.items() if pair[1] >= 0}, budget=budget, overspent=after)


@claim(
    "Lemma 3",
    "Bellman equation of the barrier",
    verdict=LOOSE,
    comment="Printed with 𝕀{D̃}, which rewards failure; meant is 𝕀{D̃ = 0}. The equation alone does not determine the "
    "barrier, as −∞ everywhere solves it too: B* is its greatest solution.",
)
def lemma_3_bellman(trial: Trial) -> str:
    """B*(s, k, a) = E[𝕀{no failure} + max over a' of B*(S', K', a')], and B* is the best over all policies."""
    tried = 0
    for mdp in trial.models(100, damage=2):
        found = barrier(mdp, PLENTY)
        trial.expect(np.array_equal(_right_hand_side(mdp, found), found), "B* does not solve its equation")
        lost = np.full_like(found, LOST)
        trial.expect(np.array_equal(_right_hand_side(mdp, lost), lost), "−∞ must solve it as well")
        every = plans(mdp, 1, trial.rng)
        tried += len(every)
        safe = any(not overspends(mdp, plan, 1) for plan in every)
        best = found[1][list(mdp.choices(mdp.initial_state))].max()
        trial.expect(not safe or best == SAFE, "a policy is safe where the barrier says that none is")
        trial.expect(safe or best == LOST or len(every) == MOST_PLANS, "no policy is safe where the barrier says so")
    mdp = example("paper")
    as_printed = _right_hand_side(mdp, barrier(mdp, 2), rewarded=1)
    trial.expect(not np.array_equal(as_printed, barrier(mdp, 2)), "as printed, it must not hold")
    return f"B* solves it on {trial.where}; it is the best of {tried:,} policies tried"


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


@claim(
    "Equations (9), (10)",
    "Monotonicity of the barrier",
    verdict=LOOSE,
    comment="Printed for every policy π of (s, K); there it is false, as such a policy may be reckless where it has "
    "more left. It holds for policies that do not look at K, and for B*, which is all that is used.",
)
def monotonicity(trial: Trial) -> str:
    """What is safe with k units of budget is safe with more, and what is unsafe with k is unsafe with fewer."""
    for mdp in trial.models(60, damage=2):
        is_safe = barrier(mdp, PLENTY) == SAFE
        trial.expect(bool((is_safe[1:] >= is_safe[:-1]).all()), "B* is not monotone")
        choices = [int(trial.rng.choice(list(mdp.choices(s)))) for s in range(mdp.num_states)]
        policy = Policy.from_table(mdp, mdp.choice_action[choices].tolist())
        facts, worst = evaluate(mdp, policy, budget=PLENTY), worst_damages(mdp, choices)[mdp.initial_state]
        may = [facts.exceeds(k) > 0 for k in range(PLENTY)]
        trial.expect(may == [worst > k for k in range(PLENTY)], "B_π of a policy that ignores K is not monotone")
    # A step, then a choice between a harmless end and two steps that hurt.
    mdp = from_transitions([0, 1, 1, 2], [0, 0, 1, 0], [1, 3, 2, 3], [1] * 4, [0] * 4, [0, 0, 1, 1], terminal=[3])
    policy = Policy.from_table(mdp, {(0, 0): 0, (0, 1): 0, (1, 0): 0, (1, 1): 1, (2, 0): 0}, budget=1)
    with_none, with_one = (evaluate(mdp, policy, budget=k).overspends for k in (0, 1))
    trial.expect((with_none, with_one) == (0, 1), "the counterexample must be one")
    return (
        f"true of B* and of policies that ignore K, on {trial.where}; false of one that plays safe with 0 left and "
        f"not with 1: it overspends with probability {with_none:g} from k = 0 and {with_one:g} from k = 1"
    )


# ---------------------------------------------------------------------- the minimal budget and feasible policies


@claim(
    "Definition 4", "Minimal budget", comment="Only which outcomes are possible matters, never how probable they are."
)
def definition_4(trial: Trial) -> str:
    """k*(s, a) is the least k for which the best barrier is 0: the least budget with which a may be played in s."""
    infinite = 0
    for mdp in trial.models(80, states=5, damage=2):
        k = minimal_budget(mdp).of_choice.astype(np.int64)
        is_safe = barrier(mdp, mdp.num_states * max(mdp.max_damage, 1)) == SAFE  # no finite k* is larger
        threshold = np.where(is_safe.any(axis=0), is_safe.argmax(axis=0), INFINITE)
        trial.expect(np.array_equal(k, threshold), f"k* {k.tolist()}, by the barrier {threshold.tolist()}")
        policies = stationary(mdp, trial.rng)
        by_search = np.array(least_budgets(mdp, policies))
        every = len(policies) == math.prod(len(mdp.choices(s)) for s in range(mdp.num_states))
        trial.expect(bool((k <= by_search).all()), f"k* {k.tolist()}, a policy needs {by_search.tolist()}")
        trial.expect(not every or np.array_equal(k, by_search), f"k* {k.tolist()}, by search {by_search.tolist()}")
        infinite += int(np.count_nonzero(k == INFINITE))
    return f"equal to the barrier's threshold and to a search over policies, on {trial.where} ({infinite} times ∞)"


@claim(
    "Theorem 1",
    "Feasible policies",
    verdict=LOOSE,
    comment="As printed it is asked at every (s, k), also where the policy never gets to; where no action is allowed "
    "no policy would qualify. It holds along what can happen, which is what we check.",
)
def theorem_1(trial: Trial) -> str:
    """A policy on (s, K) is feasible if, and only if, where it gets to it never plays a choice with k*(s, a) > K."""
    tried, feasible, printed = 0, 0, 0
    for mdp in trial.models(60, states=4, actions=3):
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
        f"both ways, on {tried:,} policies of {trial.where}: {feasible:,} are feasible, of which only {printed:,} "
        "satisfy the condition at every (s, k), as it is printed"
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


@claim(
    "Theorem 2",
    "Recursion for the minimal budget",
    comment="With damages above 1, too. In the proof the case k* = ∞ is missing; it is easy.",
)
def theorem_2(trial: Trial) -> str:
    """k*(s, a) is the largest damage of a possible outcome plus what the state after it needs: k* = T k*."""
    choices = 0
    for mdp in trial.models(100, states=6, damage=3, examples=EXAMPLES):
        k = minimal_budget(mdp).of_choice.astype(np.int64)
        for c, worst in enumerate(_operator(mdp, k)):
            trial.expect(worst == k[c], f"{mdp.describe_choice(c)}: k* is {k[c]}, the recursion {worst}")
        trial.expect(np.array_equal(reference.budget_operator(mdp, k), k), "T k* differs from k*")
        choices += mdp.num_choices
    return f"{choices:,} choices of {trial.where} satisfy it"


# ---------------------------------------------------------------------- the operator, and Algorithm 1


def _operator(mdp: MDP, k: Ints) -> list[int]:
    """T, outcome by outcome."""
    least = [min(k[c] for c in mdp.choices(s)) for s in range(mdp.num_states)]
    bounds = [(int(mdp.outcome_ptr[c]), int(mdp.outcome_ptr[c + 1])) for c in range(mdp.num_choices)]
    after = [min(int(least[t]) + int(d), INFINITE) for t, d in zip(mdp.successor, mdp.damage, strict=True)]
    return [max(after[begin:end]) for begin, end in bounds]


def _random_budgets(trial: Trial, mdp: MDP) -> Ints:
    k = trial.rng.integers(0, 7, mdp.num_choices)
    return np.where(trial.rng.random(k.size) < 0.2, INFINITE, k)


def _below(one: Ints, other: Ints) -> bool:
    return bool((one <= other).all())


@claim(
    "Definition 5",
    "Budget operator",
    comment="That k + c is a fixed point with k is right, also for c = ∞: this is why 'smallest' matters.",
)
def definition_5(trial: Trial) -> str:
    """T takes each choice to the largest damage of a possible outcome plus the least k of the state after it."""
    for mdp in trial.models(150, states=5, damage=2):
        k = _random_budgets(trial, mdp)
        trial.expect(reference.budget_operator(mdp, k).tolist() == _operator(mdp, k), f"T of {k.tolist()}")
        least = minimal_budget(mdp).of_choice.astype(np.int64)
        for constant in (1, 7, INFINITE):
            raised = np.minimum(least + constant, INFINITE)
            fixed = np.array_equal(reference.budget_operator(mdp, raised), raised)
            trial.expect(fixed, f"k* + {constant} must be fixed")
    return f"equal to its definition on {trial.where}, ∞ included; k* + 1, k* + 7 and ∞ are fixed points as well"


@claim("Definition 7", "Order of budgets", comment="In the appendix. It is partial: most pairs cannot be compared.")
def definition_7(trial: Trial) -> str:
    """One budget is below another if it is at every choice: an order in which any two have a meet and a join."""
    comparable = 0
    for mdp in trial.models(200):
        one, other = _random_budgets(trial, mdp), _random_budgets(trial, mdp)
        low, high = np.minimum(one, other), np.maximum(one, other)
        trial.expect(_below(low, one) and _below(one, high) and _below(low, high), "bounds, and transitivity")
        trial.expect((_below(one, other) and _below(other, one)) == np.array_equal(one, other), "antisymmetry")
        comparable += _below(one, other) or _below(other, one)
    return f"an order on random pairs for {trial.where}, {comparable} of which are comparable"


@claim("Proposition 2", "Properties of the operator", comment="In the appendix.")
def proposition_2(trial: Trial) -> str:
    """T preserves the order, and k* is a fixed point of it."""
    for mdp in trial.models(200, states=5, damage=2):
        one, other = _random_budgets(trial, mdp), _random_budgets(trial, mdp)
        low, high = (reference.budget_operator(mdp, k) for k in (np.minimum(one, other), np.maximum(one, other)))
        trial.expect(_below(low, high), "T is not monotone")
        least = minimal_budget(mdp).of_choice
        trial.expect(np.array_equal(reference.budget_operator(mdp, least), least), "k* is not fixed")
    return f"on random pairs of budgets for {trial.where}"


@claim(
    "Algorithm 1",
    "Fixed-point iteration",
    verdict=LOOSE,
    comment="As printed its loop has no end, and where k* = ∞ its iterates have no last value. Ours stops at the first "
    "repetition and calls ∞ what exceeds |S| times the largest damage, which no finite k* does.",
)
def algorithm_1(trial: Trial) -> str:
    """From k = 0 on, apply T: its iterates give the minimal budget."""
    for mdp in trial.models(150, states=6, damage=3):
        found = minimal_budget(mdp).of_choice
        finite, bound = found[found < INFINITE], mdp.num_states * mdp.max_damage
        trial.expect(not finite.size or int(finite.max()) <= bound, f"a finite budget exceeds {bound}")
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


@claim(
    "Theorem 3",
    "Convergence to the minimal budget",
    comment="That the limit is a fixed point is used without saying why; increasing sequences and finite sets suffice.",
)
def theorem_3(trial: Trial) -> str:
    """Algorithm 1's iterates increase and converge to k*, the smallest fixed point."""
    longest = 0
    for mdp in trial.models(100, states=6, damage=2, examples=EXAMPLES[:3]):
        least = minimal_budget(mdp).of_choice
        k, bound = np.zeros(mdp.num_choices, np.int64), mdp.num_states * max(mdp.max_damage, 1)
        sweeps = 0
        while not np.array_equal(np.where(k > bound, INFINITE, k), least) and sweeps <= mdp.num_states * (bound + 1):
            following = reference.budget_operator(mdp, k)
            trial.expect(_below(k, following) and _below(following, least), "iterates must increase, up to k*")
            k, sweeps = following, sweeps + 1
        trial.expect(np.array_equal(np.where(k > bound, INFINITE, k), least), "no convergence to k*")
        longest = max(longest, sweeps)
    where = trial.where
    for mdp in trial.models(15, states=3):  # all small budgets of small models: no fixed point is smaller
        least = minimal_budget(mdp).of_choice
        small = mdp.num_choices if mdp.num_choices <= MOST_CHOICES else 0
        for candidate in itertools.product((0, 1, 2, INFINITE), repeat=small):
            fixed = small and _operator(mdp, np.array(candidate)) == list(candidate)
            trial.expect(not fixed or _below(least, np.array(candidate)), f"fixed point {candidate} is not above k*")
    return f"from below, on {where}, without a stopping rule; at most {longest:,} sweeps"
