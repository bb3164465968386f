"""Fixtures of the tests of learning: models as simulators."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.learn import FunctionSampler


def step_of(mdp):
    """The model as a Python simulator."""

    def step(state, action, rng):
        outcomes = mdp.outcomes(state, action)
        chosen = outcomes[rng.choice(len(outcomes), p=[o.probability for o in outcomes])]
        return chosen.next_state, chosen.reward, chosen.damage

    return step


@pytest.fixture
def simulator():
    """Makes a model a FunctionSampler."""

    def make(mdp):
        initial = dict(zip(mdp.initial_states.tolist(), mdp.initial_probabilities.tolist(), strict=True))
        return FunctionSampler(step_of(mdp), mdp.num_states, mdp.actions, initial=initial, max_damage=mdp.max_damage)

    return make


@pytest.fixture
def hazard():
    return asure.example("hazard-map")


def log_of(mdp, steps, seed=0, *, length=30, anywhere=False):
    """A log of uniformly random play, as columns; with ``anywhere``, episodes begin in all states but terminal ones."""
    rng, ends = np.random.default_rng(seed), mdp.is_terminal()
    starts = np.flatnonzero(~ends) if anywhere else mdp.initial_states
    rows, episode = [], -1
    state, t = None, 0
    while len(rows) < steps:
        if state is None:
            state, t, episode = int(rng.choice(starts)), 0, episode + 1
        action = int(rng.choice(mdp.actions(state)))
        outcomes = mdp.outcomes(state, action)
        chosen = outcomes[rng.choice(len(outcomes), p=[o.probability for o in outcomes])]
        terminated = bool(ends[chosen.next_state])
        truncated = not terminated and (t + 1 == length or len(rows) + 1 == steps)
        rows.append((episode, t, state, action, chosen.next_state, chosen.reward, chosen.damage, terminated, truncated))
        state, t = (None if terminated or truncated else chosen.next_state), t + 1
    names = ("episode", "step", "state", "action", "next_state", "reward", "damage", "terminated", "truncated")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.fixture(scope="session")
def make_log():
    """Makes a log of a model."""
    return log_of
