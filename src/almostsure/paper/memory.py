"""Sections 2 and 3.1: stationary policies are not enough, and remembering the remaining budget is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible
from almostsure.model.build.examples import example
from almostsure.model.mdp import MDP
from almostsure.paper.claim import CLOSE, LOOSE, Trial, claim
from almostsure.paper.history import augment_history, forget_budget, from_history_policy, to_history_policy
from almostsure.paper.small import histories, overspends, stationary
from almostsure.plan.constraints import AlmostSure
from almostsure.plan.solve import solve_policy
from almostsure.policy.augment import augment, augmented_state
from almostsure.policy.evaluate import evaluate
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.simulate import simulate
from almostsure.shield.shield import Shield

MOST_HISTORIES = 5_000
History = tuple[Any, ...]
Decide = Callable[[History, int], Mapping[int, float]]  # history and remaining budget → shares of actions


@claim(
    "Assumption",
    "Every policy terminates",
    verdict=LOOSE,
    takes_model=False,
    comment="The paper's own example breaks it: left for ever. What is needed, and true there, is that every feasible "
    "policy ends; the library does not need even that. The terminal state must be free of damage, not only of reward.",
)
def termination(trial: Trial) -> str:
    """The terminal state is reached under any policy."""
    mdp = example("paper")
    always_left = evaluate(mdp, lambda state: "left")
    trial.expect(always_left.ends == 0 and always_left.endless == 1, "left for ever must hurt for ever, without an end")
    for budget in range(4):
        inside = Shield(minimal_budget(mdp)).random_policy(budget)
        trial.expect(evaluate(mdp, inside).ends == 1, "feasible play must end")
    return "left for ever ends with probability 0; every policy that keeps a budget ends with probability 1"


@claim(
    "Definition 1",
    "Adequacy",
    takes_model=False,
    comment="The policy on (s, K) plays each action as often as the other one did there.",
)
def definition_1(trial: Trial) -> str:
    """A set of policies is adequate if it attains, feasibly, the return of every feasible history-dependent policy.

    Shown on the paper's example with damage probability 0.6: a policy that counts steps, which no policy on (s, K) can
    do, is matched by one on (s, K) that is equally often at every pair.
    """
    mdp, budget = example("paper", damage_probability=0.6), 3
    for longest in range(1, 8):
        stop = trial.rng.random(longest)

        def decide(history: History, remaining: int, stop: Any = stop) -> Mapping[int, float]:
            step = len(history) // 4
            share = 0.0 if remaining == 0 or step >= stop.size else float(stop[step])
            return {0: share, 1: 1 - share}

        _expect_match(trial, mdp, budget, decide)
    return f"{trial.cases} policies that count steps are matched, return by return, with at most {budget} damage"


@claim("Proposition 1", "Stationary policies are not adequate", follows=True)
def proposition_1(trial: Trial) -> str:
    """In the paper's example the best policy plays left Δ times and then right; no stationary policy does.

    Whether a policy is feasible depends only on which actions it may play, so the search over the three supports is
    exhaustive; a random sample of probabilities inside the mixed one is evaluated as well.  On other models all
    deterministic stationary policies are tried: none does better than the best policy on (s, K).
    """
    worse = 0
    for mdp in trial.models(100, states=6, ends=True):
        best = _best(mdp, 1)
        found = max((_return_of(mdp, choices, 1) for choices in stationary(mdp, trial.rng)), default=-math.inf)
        trial.expect(found <= best + CLOSE, f"a stationary policy earns {found}, the optimum is {best}")
        worse += found < best - CLOSE
    said = f"On {worse} of {trial.where} the best stationary policy earns less than the best on (s, K)"
    if trial.mdp is not None:
        return f"the best stationary policy earns {'less than' if worse else 'as much as'} the best on (s, K)"
    mdp = example("paper")
    for budget in range(7):
        trial.close(_best(mdp, budget), budget, f"the best return with a budget of {budget}")
        for left in (0.0, 1.0, 0.001, *trial.rng.random(5)):
            policy = Policy.from_table(mdp, {"circle": {"left": left, "right": 1 - left}})
            facts = evaluate(mdp, policy, budget=budget)
            right = facts.overspends > 0 if left else facts.overspends == facts.expected_return == 0
            trial.expect(right, f"left with probability {left:g}, budget {budget}: {facts}")
    return f"the only feasible stationary policy is right, with return 0; the optimum is Δ (Δ = 0 … 6). {said}"


def _best(mdp: MDP, budget: int) -> float:
    try:
        return solve_policy(mdp, AlmostSure(budget)).value
    except Infeasible:
        return -math.inf


def _return_of(mdp: MDP, choices: tuple[int, ...], budget: int) -> float:
    actions = mdp.choice_action[list(choices)].tolist()
    plan = {(s, k): a for s, a in enumerate(actions) for k in range(budget + 1)}
    return (
        -math.inf if overspends(mdp, plan, budget) else evaluate(mdp, Policy.from_table(mdp, actions)).expected_return
    )


@claim(
    "Definition 2",
    "Budget",
    comment="The damages in the budget's definition are indexed right; in Lemma 1's proof they are not.",
)
def definition_2(trial: Trial) -> str:
    """The budget starts at Δ and every damage lowers it: it is what may still be taken."""
    for mdp in trial.models(20, states=6, damage=2, examples=("paper", "corridor")):
        minimal = minimal_budget(mdp)
        budget = min(minimal.smallest_budget(), 5) + 2
        if minimal.smallest_budget() > budget:
            continue
        policy = Shield(minimal).random_policy(budget)
        episodes = simulate(mdp, policy, 20, seed=int(trial.rng.integers(2**32)), max_steps=200)
        for number in range(len(episodes)):
            path = episodes.trajectory(number)
            left = augment_history(path.history(), budget)[1::5]
            expected = budget - np.concatenate([[0], np.cumsum(path.damages)])
            trial.expect(list(left) == expected.tolist() and min(left) >= 0, f"remaining budgets {left}")
    return f"K falls by the damage of each step, and never below 0, in {trial.cases} feasible episodes of {trial.where}"


@claim(
    "Definition 3",
    "Augmented MDP",
    verdict=LOOSE,
    comment="S × {Δ, …, 0} is one state short: failure leaves it, and must be remembered. We add one absorbing state.",
)
def definition_3(trial: Trial) -> str:
    """The states are pairs (s, K), and damage is signalled exactly when K would fall below 0."""
    budget = 2
    for mdp in trial.models(60, damage=2):
        big = augment(mdp, budget)
        trial.expect(big.num_states == (budget + 1) * mdp.num_states + 1, "the number of states")
        for s, k in itertools.product(range(mdp.num_states), range(budget + 1)):
            for a in mdp.actions(s).tolist():
                expected: dict[Any, float] = {}
                for o in mdp.outcomes(s, a):
                    target = augmented_state(mdp, budget, o.next_state, k - o.damage)
                    key = (target, o.reward, int(k < o.damage))
                    expected[key] = expected.get(key, 0.0) + o.probability
                pair = big.outcomes(k * mdp.num_states + s, a)
                found = {(o.next_state, o.reward, o.damage): o.probability for o in pair}
                same = found.keys() == expected.keys() and all(abs(found[x] - expected[x]) < CLOSE for x in found)
                trial.expect(same, f"outcomes of action {a} at ({s}, {k})")
    return f"every choice of the augmented models is as defined, outcome by outcome, on {trial.where}"


@claim(
    "Lemma 1",
    "The two problems are equivalent",
    comment="The proof's sums start one index late, its augmented history lacks the last budget, and two pairs of "
    "symbols are exchanged: see the list of errata.",
)
def lemma_1(trial: Trial) -> str:
    """Histories, and so policies, of the model and of the augmented model determine each other; probabilities stay.

    A policy is feasible in the one exactly if its image is in the other, and feasible ones have the same return.
    """
    number, budget = 0, 1
    for mdp in trial.models(40, states=4, damage=2):
        all_of_them = list(itertools.islice(histories(mdp, 3), MOST_HISTORIES))
        images = [augment_history(h, budget) for h in all_of_them]
        number += len(images)
        trial.expect(len(set(images)) == len(all_of_them), "two histories have one image")
        trial.expect([forget_budget(x) for x in images] == all_of_them, "the inverse of g is not its inverse")
        big, weights = augment(mdp, budget), {h: trial.rng.dirichlet(np.ones(mdp.num_actions)) for h in all_of_them}
        for history, image in zip(all_of_them, images, strict=True):
            if image[-1] >= 0:  # afterwards all is one state of failure
                here = _probability(mdp, history, 4, lambda s, _: s, lambda h: h, weights)
                there = _probability(big, image, 5, _pair(mdp, budget), forget_budget, weights)
                trial.close(here, there, f"probabilities of the history {history}")
        _expect_values_carry_over(trial, mdp)
    return (
        f"{number:,} histories and their images are one to one and equally likely; returns and feasibility carry over"
    )


def _pair(mdp: MDP, budget: int) -> Callable[[int, int], int]:
    return lambda state, remaining: augmented_state(mdp, budget, state, remaining)


def _probability(mdp: MDP, history: History, width: int, state: Any, model_history: Any, weights: Any) -> float:
    """p(h) under π in the model (width 4), or of its image under f(π) = π ∘ g⁻¹ in the augmented one (width 5)."""
    result, of_state = 1.0, width - 3
    for at in range(0, len(history) - of_state, width):
        here, after = history[at : at + of_state], history[at + width : at + width + of_state]
        a, r, d = history[at + of_state : at + width]
        result *= weights[model_history(history[: at + of_state])][a]
        target = (state(after[0], after[-1]), r, d)
        outcomes = mdp.outcomes(state(here[0], here[-1]), a)
        result *= sum(o.probability for o in outcomes if (o.next_state, o.reward, o.damage) == target)
    return result


def _expect_values_carry_over(trial: Trial, mdp: MDP) -> None:
    budget = 2
    big = augment(mdp, budget)
    rows = [[int(trial.rng.choice(mdp.actions(s))) for s in range(mdp.num_states)] for _ in range(budget + 1)]
    policy = Policy.from_table(mdp, rows, overspent=rows[0])
    inside, outside = evaluate(mdp, policy), evaluate(big, Policy.from_table(big, [*np.ravel(rows).tolist(), 0]))
    trial.close(inside.overspends, outside.expected_damage, "the probability of failure")
    feasible = Shield(minimal_budget(mdp)).is_feasible(policy)
    trial.expect(feasible == (outside.expected_damage < CLOSE), "feasible in one model only")
    if feasible and math.isfinite(inside.expected_return):
        trial.close(inside.expected_return, outside.expected_return, "the return")
        again = from_history_policy(mdp, to_history_policy(policy), budget)
        trial.close(evaluate(mdp, again).expected_return, inside.expected_return, "there and back")


@claim("Lemma 2", "Stationary policies on (s, K) are adequate", follows=True)
def lemma_2(trial: Trial) -> str:
    """For every feasible policy of the whole history there is a feasible one of (s, K) with the same return.

    The histories of random models are enumerated: random feasible history policies are matched, and the best return
    over *all* history policies, found by brute force, is the one that is solved for on (s, K).
    """
    matched = 0
    for mdp in trial.models(150, states=5, damage=2, ends=True):
        shield, budget = Shield(minimal_budget(mdp)), int(trial.rng.integers(0, 3))
        best = _best_of_histories(mdp, (mdp.initial_state,), budget)
        trial.close(_best(mdp, budget), best, "the best returns on (s, K) and over all histories")
        trial.expect((best == -math.inf) == (shield.minimal.smallest_budget() > budget), "only one is infeasible")
        if best == -math.inf:
            continue

        def decide(history: History, remaining: int, shield: Shield = shield) -> Mapping[int, float]:
            allowed = shield.allowed(history[-1], remaining)
            return dict(zip(allowed.tolist(), trial.rng.dirichlet(np.ones(allowed.size)).tolist(), strict=True))

        _expect_match(trial, mdp, budget, decide)
        matched += 1
    return f"{matched} random history policies are matched, and no history policy beats the best on (s, K)"


def _best_of_histories(mdp: MDP, history: History, remaining: int) -> float:
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
    value = 0.0
    queue: list[tuple[History, int, float]] = [((mdp.initial_state,), budget, 1.0)]
    while queue:
        history, remaining, chance = queue.pop()
        if mdp.is_terminal()[history[-1]]:
            continue
        often = visits.setdefault((history[-1], remaining), {})
        for action, share in decide(history, remaining).items():
            if share > 0:
                often[action] = often.get(action, 0.0) + chance * share
                for o in mdp.outcomes(history[-1], action):
                    weight = chance * share * o.probability
                    value += weight * o.reward
                    after = (*history, action, o.reward, o.damage, o.next_state)
                    queue.append((after, remaining - o.damage, weight))
    facts = evaluate(mdp, Policy.from_table(mdp, {at: _shares(often) for at, often in visits.items()}, budget=budget))
    same = abs(facts.expected_return - value) < CLOSE and facts.overspends == 0
    trial.expect(same, f"return {value} by histories, {facts.expected_return} on (s, K)")


def _shares(often: Mapping[int, float]) -> dict[int, float]:
    whole = sum(often.values())
    return {action: count / whole for action, count in often.items()}
