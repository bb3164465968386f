"""What tells simulators apart: everything that decides their samples."""

import functools
import threading

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.learn import EnvSampler, FunctionSampler
from almostsure.learn.sampling.identity import identity_of, obstacle_in

RISK = 0.1


def chance(share):
    return lambda state, action, rng: (0, 0.0, int(rng.random() < share))


def default(state, action, rng, share=0.1):
    return 0, 0.0, int(rng.random() < share)


def with_global(state, action, rng):
    return 0, 0.0, int(rng.random() < RISK)


class Simulator:
    def __init__(self, share):
        self.share = share

    def step(self, state, action, rng):
        return 0, 0.0, int(rng.random() < self.share)


def test_equal_things_are_equal():
    for make in (lambda: chance(0.1), lambda: default, lambda: Simulator(0.1).step, lambda: np.arange(5)):
        assert identity_of(make()) == identity_of(make()) is not None


def test_what_decides_samples_is_part_of_it(monkeypatch):
    assert identity_of(chance(0.1)) != identity_of(chance(0.2))  # what it closes over
    assert identity_of(Simulator(0.1).step) != identity_of(Simulator(0.2).step)  # fields
    assert identity_of(functools.partial(default, share=0.1)) != identity_of(functools.partial(default, share=0.2))
    before = identity_of(with_global)
    monkeypatch.setitem(globals(), "RISK", 0.2)
    assert identity_of(with_global) != before
    old = identity_of(default)
    monkeypatch.setattr(default, "__defaults__", (0.2,))
    assert identity_of(default) != old
    models = [asure.example("hazard-map", slip=slip) for slip in (0.1, 0.2)]
    assert len({identity_of(lambda s, a, rng, mdp=mdp: mdp.outcomes(s, a)) for mdp in models}) == 2


def test_what_cannot_be_looked_into_has_no_identity():
    lock, rng = threading.Lock(), np.random.default_rng(0)
    assert identity_of(lambda: lock) is None
    assert identity_of(lambda: rng) is None
    assert FunctionSampler(lambda s, a, r: (lock, 0, 0), 1, 1).identity is None
    assert obstacle_in([lambda: lock]) == "an object of _thread.lock"
    made_by_hand = type(gymnasium.make("CliffWalking-v1").unwrapped)()
    assert obstacle_in(made_by_hand) == "CliffWalkingEnv, which gymnasium.make did not make"
    assert FunctionSampler(lambda s, a, r: (lock, 0, 0), 1, 1, identity="mine").identity == "mine"


def lake(damage=None, encode=None, **options):
    env = gymnasium.make("FrozenLake-v1", **options)

    def put(env, state):
        env.unwrapped.s = state
        return state

    return EnvSampler(env, put, damage, encode=encode).identity


@pytest.mark.parametrize(
    "other",
    [
        {"is_slippery": False},
        {"map_name": "8x8"},
        {"success_rate": 0.5},
        {"damage": lambda *step: 0},
        {"encode": lambda observation: int(observation)},
    ],
)
def test_how_an_environment_was_made_is_part_of_it(other):
    assert lake() == lake() is not None
    assert lake(**other) not in (None, lake())


def test_an_environment_that_nobody_registered_has_none():
    class Own(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

    assert EnvSampler(Own(), lambda env, s: None, "cost").identity is None
