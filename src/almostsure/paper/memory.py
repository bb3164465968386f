"""Sections 2 and 3.1: stationary policies are not enough, and remembering the remaining budget is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible
from almostsure.model.examples import example
from almostsure.model.mdp import MDP
from almostsure.paper.claim import LOOSE, Trial, check
from almostsure.paper.history import augment_history, forget_budget, from_history_policy, to_history_policy
from almostsure.paper.small import histories, models, overspends
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy
from almostsure.policy.augment import augment, augmented_state
from almostsure.policy.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.policy.simulate import simulate
from almostsure.shield.shield import Shield

CLOSE = 1e-9
STATIONARY = 100  # models on which all stationary policies are tried
HISTORIES = 150  # models whose histories are enumerated
Decide = Callable[[tuple[Any, ...], int], Mapping[int, float]]  # history and remaining budget → shares of actions


@check(
    "Assumption",
    "Every policy terminates",
    verdict=LOOSE,
    comment="The paper's own example breaks it: left for ever. What is needed, and true there, is that every feasible "
    "policy ends; the library does not need even that. The terminal state must be free of damage, not only of reward.",
)
def termination(trial: Trial) -> str:
    """The terminal state is reached under any policy."""
    mdp = example("paper")
    always_left = evaluate(mdp, lambda state: "left")
    trial.expect(always_left.ends == 0, "left for ever must never end")
    trial.expect(always_left.endless == 1, "left for ever must hurt for ever")
    for budget in range(4):
        shield = Shield(minimal_budget(mdp))
        trial.expect(evaluate(mdp, shield.random_policy(budget)).ends == 1, "feasible play must end")
    return "left for ever ends with probability 0; whatever keeps a budget ends with probability 1"


@check(
    "Definition 1", "Adequacy", comment="The policy on (s, K) plays each action as often as the other one did there."
)
def definition_1(trial: Trial) -> str:
    """A set of policies is adequate if it attains, feasibly, the return of every feasible history-dependent policy.

    Shown on the paper's example with damage probability 0.6: a policy that counts steps, which no policy on (s, K) can
    do, is matched by one on (s, K) that is equally often at every pair.
    """
    mdp, budget = example("paper", damage_probability=0.6), 3
    for longest in range(1, 8):
        stop = trial.rng.random(longest)

        def decide(history: tuple[Any, ...], remaining: int, stop: Any = stop) -> Mapping[int, float]:
            step = len(history) // 4
            share = 0.0 if remaining == 0 or step >= stop.size else float(stop[step])
            return {0: share, 1: 1 - share}

        _expect_match(trial, mdp, budget, decide)
    return f"{trial.cases} policies that count steps are matched, return by return, with at most {budget} damage"


@check("Proposition 1", "Stationary policies are not adequate")
def proposition_1(trial: Trial) -> str:
    """In the paper's example the best policy plays left Δ times and then right; no stationary policy does.

    Whether a policy is feasible depends only on which actions it may play, so the search over the three supports is
    exhaustive; a random sample of probabilities inside the mixed one is evaluated as well.
    """
    mdp = example("paper")
    for budget in range(7):
        best = solve_policy(mdp, AlmostSure(budget)).value
        trial.expect(abs(best - budget) < CLOSE, f"with a budget of {budget} the best return is {best}")
        for left in (0.0, 1.0, 0.001, *trial.rng.random(5)):
            policy = Policy.from_table(mdp, {"circle": {"left": left, "right": 1 - left}})
            facts = evaluate(mdp, policy, budget=budget)
            right = facts.overspends > 0 if left else facts.overspends == facts.expected_return == 0
            trial.expect(right, f"left with probability {left:g}, budget {budget}: {facts}")
    worse = _models_where_stationary_loses(trial)
    return (
        "the only feasible stationary policy is right, with return 0; the optimum is Δ (Δ = 0 … 6). "
        f"On {worse} of {STATIONARY} random models the best stationary policy earns less than the best on (s, K)"
    )


def _models_where_stationary_loses(trial: Trial) -> int:
    """On random models, all deterministic stationary policies are tried: that none does better is checked."""
    worse = 0
    for mdp in models(trial.rng, STATIONARY, states=6, ends=True):
        try:
            best = solve_policy(mdp, AlmostSure(1)).value
        except Infeasible:
            best = -math.inf
        found = max((_return_of(mdp, actions, 1) for actions in _stationary(mdp)), default=-math.inf)
        trial.expect(found <= best + CLOSE, f"a stationary policy earns {found}, the optimum is {best}")
        worse += found < best - CLOSE
    return worse


def _stationary(mdp: MDP) -> list[tuple[int, ...]]:
    return list(itertools.product(*(mdp.actions(s).tolist() for s in range(mdp.num_states))))


def _return_of(mdp: MDP, actions: tuple[int, ...], budget: int) -> float:
    plan = {(s, k): a for s, a in enumerate(actions) for k in range(budget + 1)}
    if overspends(mdp, plan, budget):
        return -math.inf
    return evaluate(mdp, Policy.from_table(mdp, list(actions))).expected_return


@check(
    "Definition 2",
    "Budget",
    comment="The damages in the budget's definition are indexed right; in Lemma 1's proof not.",
)
def definition_2(trial: Trial) -> str:
    """The budget starts at Δ and every damage lowers it: it is what may still be taken."""
    budget = 3
    for mdp in (example("paper", damage_probability=0.6), example("corridor")):
        policy = solve_policy(mdp, AlmostSure(budget)).policy
        episodes = simulate(mdp, policy, 50, seed=int(trial.rng.integers(2**32)))
        for number in range(len(episodes)):
            path = episodes.trajectory(number)
            left = augment_history(path.history(), budget)[1::5]
            expected = budget - np.concatenate([[0], np.cumsum(path.damages)])
            trial.expect(list(left) == expected.tolist(), f"budgets {left}")
            trial.expect(min(left) >= 0, f"an assured policy overspent: {left}")
    return "K falls by the damage in each step of 100 simulated episodes, and never below 0 under the assured policies"


@check(
    "Definition 3",
    "Augmented MDP",
    verdict=LOOSE,
    comment="S × {Δ, …, 0} is one state short: failure leaves it, and must be remembered. We add one absorbing state.",
)
def definition_3(trial: Trial) -> str:
    """The states are pairs (s, K), and damage is signalled exactly when K would fall below 0."""
    budget = 2
    for mdp in models(trial.rng, 60, damage=2):
        big = augment(mdp, budget)
        trial.expect(big.num_states == (budget + 1) * mdp.num_states + 1, "the number of states")
        for s, k in itertools.product(range(mdp.num_states), range(budget + 1)):
            for a in mdp.actions(s).tolist():
                expected = _augmented_outcomes(mdp, budget, s, k, a)
                found = {
                    (o.next_state, o.reward, o.damage): o.probability for o in big.outcomes(k * mdp.num_states + s, a)
                }
                same = found.keys() == expected.keys() and all(abs(found[x] - expected[x]) < CLOSE for x in found)
                trial.expect(same, f"outcomes of action {a} at ({s}, {k})")
    return f"{trial.cases - 60:,} choices of 60 random augmented models are as defined, outcome by outcome"


def _augmented_outcomes(mdp: MDP, budget: int, s: int, k: int, a: int) -> dict[tuple[int, float, int], float]:
    result: dict[tuple[int, float, int], float] = {}
    for o in mdp.outcomes(s, a):
        key = (augmented_state(mdp, budget, o.next_state, k - o.damage), o.reward, int(k - o.damage < 0))
        result[key] = result.get(key, 0.0) + o.probability
    return result


@check(
    "Lemma 1",
    "The two problems are equivalent",
    comment="The proof's sums start one index late, its augmented history lacks the last budget, and two pairs of "
    "symbols are exchanged: see the list of slips.",
)
def lemma_1(trial: Trial) -> str:
    """Histories, and so policies, of the model and of the augmented model determine each other; probabilities stay.

    A policy is feasible in the one exactly if its image is in the other, and feasible ones have the same return.
    """
    number, budget = 0, 1
    for mdp in models(trial.rng, 40, states=4, damage=2):
        all_of_them = list(histories(mdp, 3))
        images = [augment_history(h, budget) for h in all_of_them]
        number += len(images)
        trial.expect(len(set(images)) == len(all_of_them), "two histories have one image")
        trial.expect([forget_budget(x) for x in images] == all_of_them, "the inverse of g is not its inverse")
        weights = {h: trial.rng.dirichlet(np.ones(mdp.num_actions)) for h in all_of_them}
        big = augment(mdp, budget)
        for history, image in zip(all_of_them, images, strict=True):
            _expect_equally_likely(trial, mdp, big, budget, history, image, weights)
    _expect_values_carry_over(trial)
    return (
        f"{number:,} histories and their images are one to one and equally likely; returns and feasibility carry over"
    )


def _expect_equally_likely(
    trial: Trial, mdp: MDP, big: MDP, budget: int, history: Any, image: Any, weights: Mapping[Any, Any]
) -> None:
    """p(h) under π is p(g(h)) under f(π) = π ∘ g⁻¹, while the budget lasts: afterwards all is one state of failure."""
    if image[-1] < 0 or len(history) == 1:
        return
    here = there = 1.0
    for t in range(len(history) // 4):
        s, a, r, d, after = history[4 * t : 4 * t + 5]
        here *= weights[history[: 4 * t + 1]][a]
        here *= next(o.probability for o in mdp.outcomes(s, a) if (o.next_state, o.reward, o.damage) == (after, r, d))
        _, k, a, r, e, after, left = image[5 * t : 5 * t + 7]
        there *= weights[forget_budget(image[: 5 * t + 2])][a]
        pair, target = augmented_state(mdp, budget, s, k), augmented_state(mdp, budget, after, left)
        there *= next(
            (o.probability for o in big.outcomes(pair, a) if (o.next_state, o.reward, o.damage) == (target, r, e)), 0.0
        )
    trial.expect(abs(here - there) < CLOSE, f"history {history}: {here} and {there}")


def _expect_values_carry_over(trial: Trial) -> None:
    budget = 2
    for mdp in models(trial.rng, 40, states=4, ends=True):
        big, minimal = augment(mdp, budget), minimal_budget(mdp)
        rows = [[int(trial.rng.choice(mdp.actions(s))) for s in range(mdp.num_states)] for _ in range(budget + 1)]
        policy = Policy.from_table(mdp, rows, overspent=rows[0])
        inside, outside = evaluate(mdp, policy), evaluate(big, Policy.from_table(big, [*np.ravel(rows).tolist(), 0]))
        trial.expect(abs(inside.overspends - outside.expected_damage) < CLOSE, "the probability of failure")
        feasible = Shield(minimal).is_feasible(policy)
        trial.expect(feasible == (outside.expected_damage < CLOSE), "feasible in one model only")
        if feasible:
            trial.expect(abs(inside.expected_return - outside.expected_return) < CLOSE, "the return")
            again = from_history_policy(mdp, to_history_policy(policy), budget)
            trial.expect(abs(evaluate(mdp, again).expected_return - inside.expected_return) < CLOSE, "there and back")


@check("Lemma 2", "Stationary policies on (s, K) are adequate")
def lemma_2(trial: Trial) -> str:
    """For every feasible policy of the whole history there is a feasible one of (s, K) with the same return.

    The histories of random models are enumerated: random feasible history policies are matched, and the best return
    over *all* history policies, found by brute force, is the one that is solved for on (s, K).
    """
    infeasible = 0
    for mdp in models(trial.rng, HISTORIES, states=5, damage=2, ends=True):
        shield, budget = Shield(minimal_budget(mdp)), int(trial.rng.integers(0, 3))
        best = _best_of_histories(mdp, (mdp.initial_state,), budget)
        if best == -math.inf:
            infeasible += 1
            trial.expect(shield.minimal.smallest_budget() > budget, "infeasible, but the budget says otherwise")
            continue
        found = solve_policy(mdp, AlmostSure(budget)).value
        trial.expect(abs(found - best) < CLOSE, f"on (s, K) the best return is {found}, over all histories {best}")

        def decide(history: tuple[Any, ...], remaining: int, shield: Shield = shield) -> Mapping[int, float]:
            allowed = shield.allowed(history[-1], remaining)
            return dict(zip(allowed.tolist(), trial.rng.dirichlet(np.ones(allowed.size)).tolist(), strict=True))

        _expect_match(trial, mdp, budget, decide)
    return (
        f"{HISTORIES - infeasible} random history policies are matched, and no history policy beats the best on (s, K)"
    )


def _best_of_histories(mdp: MDP, history: tuple[Any, ...], remaining: int) -> float:
    """The best return over all policies that look at everything; −∞ where each may overspend."""
    state = history[-1]
    if mdp.is_terminal()[state]:
        return 0.0
    best = -math.inf
    for action in mdp.actions(state).tolist():
        value = 0.0
        for o in mdp.outcomes(state, action):
            after = (*history, action, o.reward, o.damage, o.next_state)
            left = remaining - o.damage
            value += o.probability * (o.reward + _best_of_histories(mdp, after, left)) if left >= 0 else -math.inf
        best = max(best, value)
    return best


def _expect_match(trial: Trial, mdp: MDP, budget: int, decide: Decide) -> None:
    """That the policy on (s, K) which is equally often at each pair has the return of a history policy, feasibly."""
    visits: dict[tuple[int, int], dict[int, float]] = {}
    value = _unroll(mdp, (mdp.initial_state,), budget, 1.0, decide, visits)
    table = {pair: _shares(often) for pair, often in visits.items()}
    facts = evaluate(mdp, Policy.from_table(mdp, table, budget=budget))
    same = abs(facts.expected_return - value) < CLOSE and facts.overspends == 0
    trial.expect(same, f"return {value} by histories, {facts.expected_return} on (s, K)")


def _unroll(
    mdp: MDP,
    history: Any,
    remaining: int,
    chance: float,
    decide: Decide,
    visits: dict[tuple[int, int], dict[int, float]],
) -> float:
    """The return from a history on, times its probability; counts how often each action is played at each pair."""
    state = history[-1]
    if mdp.is_terminal()[state]:
        return 0.0
    value = 0.0
    for action, share in decide(history, remaining).items():
        if share == 0:
            continue
        often = visits.setdefault((state, remaining), {})
        often[action] = often.get(action, 0.0) + chance * share
        for o in mdp.outcomes(state, action):
            after, weight = (*history, action, o.reward, o.damage, o.next_state), chance * share * o.probability
            value += weight * o.reward
            value += _unroll(mdp, after, remaining - o.damage, weight, decide, visits)
    return value


def _shares(often: Mapping[int, float]) -> dict[int, float]:
    whole = sum(often.values())
    return {action: count / whole for action, count in often.items()}
