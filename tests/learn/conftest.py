"""What the tests of learning share: models as simulators."""

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
