"""The identity of simulators: everything that determines their samples."""

import functools
import io
import random
import threading
import types

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


class Slots:
    __slots__ = "share"

    def __init__(self, share):
        self.share = share


class PrivateSlots:
    __slots__ = ("__share",)

    def __init__(self, share):
        self.__share = share


class Table(dict):
    def __init__(self, share):
        super().__init__(state=0)
        self.share = share


@pytest.mark.parametrize(
    "make",
    [
        Slots,
        PrivateSlots,
        Table,
        lambda share: types.SimpleNamespace(share=share),
        lambda share: functools.cache(chance(share)),
    ],
)
def test_all_fields_are_part_of_it(make):
    assert identity_of(make(0.1)) == identity_of(make(0.1)) is not None
    assert identity_of(make(0.1)) != identity_of(make(0.2))


def test_everything_that_determines_samples_is_part_of_it(monkeypatch):
    assert identity_of(chance(0.1)) != identity_of(chance(0.2))  # the closure
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


@pytest.mark.parametrize("make", [threading.Lock, np.random.default_rng, random.Random, io.StringIO])
def test_an_object_with_state_in_c_has_no_identity(make):
    thing = make()
    assert identity_of(lambda: thing) is None
    assert obstacle_in([thing]).startswith("an object of ")


def test_a_simulator_that_cannot_be_read_needs_a_name():
    lock = threading.Lock()
    assert FunctionSampler(lambda s, a, r: (lock, 0, 0), 1, 1).identity is None
    assert obstacle_in([lambda: lock]) == "an object of _thread.lock"
    made_by_hand = type(gymnasium.make("CliffWalking-v1").unwrapped)()
    assert obstacle_in(made_by_hand) == "CliffWalkingEnv, which was not made by gymnasium.make"
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


def test_an_environment_that_is_not_registered_has_none():
    class Own(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

    assert EnvSampler(Own(), lambda env, s: None, "cost").identity is None
