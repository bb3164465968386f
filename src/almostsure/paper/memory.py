"""Sections 2 and 3.1: stationary policies are not adequate; those on (state, remaining budget) are."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from almostsure.budget import minimal_budget
from almostsure.errors import Infeasible, UnboundedReturn
from almostsure.model import MDP, example
from almostsure.paper.claim import CLOSE, LOOSE, Trial, claim
from almostsure.paper.history import augment_history, forget_budget, from_history_policy, to_history_policy
from almostsure.paper.search import History, follow, overspends, policies, unrolled
from almostsure.plan import AlmostSure, solve_policy
from almostsure.policy import Policy, evaluate, worst_damage
from almostsure.policy.augment import augment
from almostsure.shield import Shield

BUDGET = 2


def best_return(mdp: MDP, budget: int) -> float:
    """The return of the best policy on (s, K): −∞ if none is feasible, +∞ if it is unbounded."""
    try:
        return solve_policy(mdp, AlmostSure(budget)).value
    except Infeasible:
        return -math.inf
    except UnboundedReturn:
        return math.inf


@claim("Assumption", "Every policy terminates", verdict=LOOSE, takes_model=False)
def termination(trial: Trial) -> str:
    """The terminal state is reached under any policy.

    The paper's own example violates it: always left never ends. It suffices that every feasible policy terminates,
    which is true there; the library does not even assume that. The terminal state must be free of damage, not only of
    reward.
    """
    mdp = example("paper")
    always_left = evaluate(mdp, lambda state: "left")
    trial.expect(always_left.ends == 0 and always_left.endless == 1, "always left must never end, with endless damage")
    for budget in range(4):
        inside = Shield(minimal_budget(mdp)).random_policy(budget)
        trial.expect(evaluate(mdp, inside).ends == 1, "feasible play must end")
    return "always left ends with probability 0; every policy that keeps a budget ends with probability 1"


@claim("Proposition 1", "Stationary policies are not adequate")
def proposition_1(trial: Trial) -> str:
    """In the paper's example the best policy plays left Δ times and then right; no stationary policy does.

    Feasibility only depends on which actions a policy may play, so left, right and a mixture are all cases there. On
    other models no stationary policy is better than the best policy on (s, K).
    """
    for mdp in map(unrolled, trial.models):
        best = best_return(mdp, 1)
        plain = ({s: a for (s, _), a in policy.items()} for policy in policies(mdp, 0, trial.rng))
        found = max(_return_of(mdp, actions, 1) for actions in plain)
        trial.expect(found <= best + CLOSE, f"a stationary policy earns {found}, the optimum is {best}")
    mdp = example("paper")
    for budget, left in itertools.product(range(7), (0.0, 1.0, 0.001)):
        trial.close(best_return(mdp, budget), budget, f"the best return with a budget of {budget}")
        facts = evaluate(mdp, Policy.from_table(mdp, {"circle": {"left": left, "right": 1 - left}}), budget=budget)
        right = facts.overspends > 0 if left else facts.overspends == facts.expected_return == 0
        trial.expect(right, f"left with probability {left:g}, budget {budget}: {facts}")
    return (
        "the only feasible stationary policy is right, with return 0; the optimum is Δ (Δ = 0 … 6). Within a few "
        f"steps of {trial.where}, no stationary policy tried beats the best on (s, K)"
    )


def _return_of(mdp: MDP, actions: Mapping[int, int], budget: int) -> float:
    if overspends(mdp, {(s, k): a for s, a in actions.items() for k in range(budget + 1)}, budget):
        return -math.inf
    return evaluate(mdp, Policy.from_table(mdp, actions)).expected_return


@claim("Lemma 1", "The two problems are equivalent")
def lemma_1(trial: Trial) -> str:
    """Policies of the model and of the augmented model determine each other, with feasibility and return.

    The proof's sums start one index late, its augmented history lacks the last budget, and two pairs of symbols
    are exchanged: see the list of errata.
    """
    number = 0
    for mdp in map(unrolled, trial.models):
        histories = _histories(mdp)
        images = [augment_history(history, BUDGET) for history in histories]
        number += len(images)
        trial.expect(len(set(images)) == len(histories), "two histories have one image")
        trial.expect([forget_budget(image) for image in images] == histories, "the inverse of g is not its inverse")
        _expect_values_carry_over(trial, mdp)
    return f"{number:,} histories and their images are one to one; returns and feasibility carry over"


def _histories(mdp: MDP) -> list[History]:
    """All histories that some policy may produce."""
    every = {s: dict.fromkeys(mdp.actions(s).tolist(), 1.0) for s in range(mdp.num_states)}
    return [item[0] for item in follow(mdp, lambda history, remaining: every[history[-1]], BUDGET)]


def _expect_values_carry_over(trial: Trial, mdp: MDP) -> None:
    big = augment(mdp, BUDGET)
    rows = trial.actions(mdp, BUDGET + 1)
    policy = Policy.from_table(mdp, rows, overspent=rows[0])
    image = Policy.from_table(big, [*np.ravel(rows).tolist(), 0])
    inside, outside = evaluate(mdp, policy), evaluate(big, image)
    trial.close(inside.overspends, outside.expected_damage, "the probability of failure")
    feasible = Shield(minimal_budget(mdp)).is_feasible(policy)
    trial.expect(feasible == (worst_damage(big, image) == 0), "feasible in one model only")
    if feasible:
        trial.close(inside.expected_return, outside.expected_return, "the return")
        again = from_history_policy(mdp, to_history_policy(policy), BUDGET)
        trial.close(evaluate(mdp, again).expected_return, inside.expected_return, "there and back")


@claim("Lemma 2", "Stationary policies on (s, K) are adequate")
def lemma_2(trial: Trial) -> str:
    """For every feasible policy of the whole history there is a feasible one on (s, K) with the same return.

    The policy on (s, K) plays each action as often as the history policy does there; and the best return over all
    history policies, by brute force, is that over policies on (s, K). Models are truncated after a few steps, so that
    all of their histories can be enumerated.
    """
    for mdp, budget in itertools.product(map(unrolled, trial.models), range(BUDGET + 1)):
        shield = Shield(minimal_budget(mdp))
        best = sum(p * _best_of_histories(mdp, s, budget) for s, p in mdp.starts.items())
        trial.close(best_return(mdp, budget), best, "the best returns on (s, K) and over all histories")
        trial.expect((best == -math.inf) == (shield.minimal.smallest_budget() > budget), "only one is infeasible")
        if best > -math.inf:
            _expect_match(trial, mdp, shield, budget)
    return f"on {trial.where} with Δ = 0, 1, 2: random history policies are matched, and none beats the best on (s, K)"


def _best_of_histories(mdp: MDP, state: int, remaining: int) -> float:
    """The best return over all history policies, by recursion over histories; −∞ if every policy overspends."""
    if remaining < 0:
        return -math.inf
    if mdp.is_terminal()[state]:
        return 0.0
    return max(
        sum(
            o.probability * (o.reward + _best_of_histories(mdp, o.next_state, remaining - o.damage))
            for o in mdp.outcomes(state, action)
        )
        for action in mdp.actions(state).tolist()
    )


def _expect_match(trial: Trial, mdp: MDP, shield: Shield, budget: int) -> None:
    """Expect the policy on (s, K) with the same visits as a random history policy to have the same return."""

    def decide(history: History, remaining: int) -> Mapping[int, float]:
        allowed = shield.allowed(history[-1], remaining)
        return dict(zip(allowed.tolist(), trial.rng.dirichlet(np.ones(allowed.size)).tolist(), strict=True))

    visits: dict[tuple[int, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    value = 0.0
    for history, remaining, chance, gained in follow(mdp, decide, budget):
        if len(history) > 1:
            state, action, _, damage, _ = history[-5:]
            visits[state, remaining + damage][action] += chance
        value += chance * gained if mdp.is_terminal()[history[-1]] else 0.0
    shares = {pair: _shares(counts) for pair, counts in visits.items()}
    facts = evaluate(mdp, Policy.from_table(mdp, shares, budget=budget))
    trial.close(facts.expected_return, value, "the returns on (s, K) and by histories")
    trial.expect(facts.overspends == 0, "the policy on (s, K) overspends")


def _shares(visits: Mapping[int, float]) -> dict[int, float]:
    total = sum(visits.values())
    return {action: count / total for action, count in visits.items()}
