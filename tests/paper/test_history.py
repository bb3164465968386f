"""Policies as functions of the history, and back: the bijection of Lemma 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure.errors import ArgumentError, PolicyError
from almostsure.paper.history import augment_history, forget_budget, from_history_policy, to_history_policy
from almostsure.policy.augment import augment
from almostsure.policy.policy import Policy
from almostsure.policy.simulation.simulate import simulate
from almostsure.testing import mdps


@given(mdps(max_states=4), st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_bijection_on_trajectories(mdp, budget, random):
    """Lemma 1: a policy on (s, K) and its history policy play the same, step by step."""
    table = Policy.from_function(mdp, lambda s, k: random.choice(mdp.actions(s).tolist()), budget=budget)
    policy = table.with_overspent(lambda s: int(mdp.actions(s)[0]))
    of_history = to_history_policy(policy)
    episodes = simulate(mdp, policy, 5, seed=random.getrandbits(30), max_steps=8)
    for episode in range(5):
        path = episodes.trajectory(episode)
        remaining = budget
        for t in range(path.actions.size):
            history = path.history(t)
            assert np.array_equal(of_history(history), policy.probabilities(int(path.states[t]), remaining))
            assert of_history(history)[path.actions[t]] == 1
            remaining -= int(path.damages[t])
        history = path.history()
        assert forget_budget(augment_history(history, budget)) == history


@given(mdps(max_states=4, max_damage=2), st.integers(0, 3), st.randoms(use_true_random=False))
def test_there_and_back(mdp, budget, random):
    def decide(state: int, remaining: int) -> dict[int, float]:
        actions = mdp.actions(state).tolist()
        return dict.fromkeys(random.sample(actions, random.randint(1, len(actions))), 1.0)

    def spread(state: int, remaining: int) -> dict[int, float]:
        chosen = decide(state, remaining)
        return {a: 1 / len(chosen) for a in chosen}

    policy = Policy.from_function(mdp, spread, budget=budget)
    back = from_history_policy(mdp, to_history_policy(policy), budget)
    asked = [(s, k) for k in range(budget + 1) for s in range(mdp.num_states) if back.shares(s, k).any()]
    assert {(int(s), budget) for s in mdp.initial_states} <= set(asked)
    assert all(np.array_equal(back.shares(s, k), policy.shares(s, k)) for s, k in asked)


@given(mdps(max_states=4, max_damage=3), st.integers(0, 3), st.integers(0, 2**30))
def test_histories_of_the_augmented_model_are_its_trajectories(mdp, budget, seed):
    policy = Policy.from_function(mdp, lambda s: {a: 1 / len(mdp.actions(s)) for a in mdp.actions(s).tolist()})
    bigger = augment(mdp, budget)
    path = simulate(mdp, policy, 1, seed=seed, max_steps=6).trajectory(0)
    history = augment_history(path.history(), budget)
    for at in range(2, len(history), 5):
        state, remaining = history[at - 2 : at]
        action, reward, overspends, after, left = history[at : at + 5]
        outcomes = bigger.outcomes(f"{state} @{remaining}", action)
        wanted = (bigger.state("overspent" if left < 0 else f"{after} @{left}"), reward, overspends)
        assert wanted in {(o.next_state, o.reward, o.damage) for o in outcomes}
        if overspends:
            break


def test_a_policy_with_a_longer_memory_is_refused(paper):
    def every_other(history):
        left = len(history) % 8 == 1
        return np.array([1.0, 0.0]) if left else np.array([0.0, 1.0])

    def twice(history):  # plays left at most twice, even at the same state and budget
        left = len(history) < 9
        return np.array([1.0, 0.0]) if left else np.array([0.0, 1.0])

    assert from_history_policy(paper(), every_other, 3).act(0, 3) == 0
    with pytest.raises(PolicyError, match="must depend on the state and the remaining budget only"):
        from_history_policy(paper(0.5), twice, 3)


def test_malformed_histories(paper):
    policy = to_history_policy(Policy.from_table(paper(), [[1, 0], [0, 0]]))
    with pytest.raises(ArgumentError, match="must have 1, 5, 9, … entries"):
        policy((0, 0, 1))
    with pytest.raises(ArgumentError, match="must have 2, 7, 12, … entries; got 3"):
        forget_budget((0, 1, 0))
    with pytest.raises(PolicyError, match="one probability per action"):
        from_history_policy(paper(), lambda history: np.ones(3) / 3, 1)
