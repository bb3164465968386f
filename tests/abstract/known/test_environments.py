"""Ready abstractions, against the environments themselves."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import Grid
from almostsure.errors import ArgumentError

POINTS = 2_000
SMALL = {
    "swing-up": Grid((-np.pi, -8.001), (np.pi, 8.001), (100, 80), periodic=(0,)),
    "CartPole-v1": Grid((-2.4, -1.6, -0.2094, -1.8), (2.4, 1.6, 0.2094, 1.8), (24, 24, 32, 32)),
    "MountainCar-v0": Grid((-1.201, -0.0701), (0.601, 0.0701), (150, 100)),
    "Pendulum-v1": Grid((-0.4, -1.6), (0.4, 1.6), (80, 80)),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_true_next_state_lies_in_the_enclosure(name):
    model, pendulum = asure.abstract(name, SMALL[name]), name in ("Pendulum-v1", "swing-up")
    env = gymnasium.make("Pendulum-v1" if pendulum else name).unwrapped
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    states = rng.uniform(model.grid.low, model.grid.high, (POINTS, model.grid.num_coordinates))
    actions = rng.integers(0, model.num_actions, POINTS)
    after, seen = np.empty_like(states), np.empty_like(states)
    for i, (state, action) in enumerate(zip(states, actions.tolist(), strict=True)):
        env.state = np.array(state)
        if name == "CartPole-v1":
            env.steps_beyond_terminated = None
        played = np.array([model.actions[action]], np.float32) if pendulum else action
        observation = env.step(played)[0]
        after[i] = env.state
        seen[i] = observation if model.state_of is None else model.state_of(observation)
    model.check_step(states, actions, after)
    # What is observed lies within what the abstraction allows for.
    if model.observation.rounded:
        assert np.array_equal(seen, after.astype(np.float32).astype(np.float64))
    else:
        seen[:, 0] += 2 * np.pi * np.round((after - seen)[:, 0] / (2 * np.pi))  # which turn is not observed
        assert (np.abs(seen - after) <= model.observation.margin).all()


def test_patterns_of_a_known_system_are_those_that_were_asked_for():
    assert asure.abstract("Pendulum-v1").patterns.longest == 2
    assert asure.abstract("Pendulum-v1", pattern=1).patterns.longest == 1
    with pytest.raises(ArgumentError, match="pattern must be a length of at least 1"):
        asure.abstract("Pendulum-v1", pattern=0)


def test_cart_pole_is_held_in_the_middle():
    upper = asure.minimal_budget(asure.abstract("CartPole-v1", SMALL["CartPole-v1"], pattern=6))
    assert upper.smallest_budget() == 0
    assert 0.2 < upper.safe_share() < 0.25


def test_mountain_car_arrives():
    upper = asure.minimal_budget(asure.abstract("MountainCar-v0", SMALL["MountainCar-v0"]))
    assert 104 <= upper.smallest_budget() <= 145  # a search for the fastest way from −0.6 finds 104


def test_pendulum_stays_upright():
    upper = asure.minimal_budget(asure.abstract("Pendulum-v1", SMALL["Pendulum-v1"]))
    assert upper.smallest_budget() == 0
    assert upper.safe_share() > 0.5


def test_the_pendulum_swings_up_to_where_it_is_held():
    upright = asure.minimal_budget(asure.abstract("Pendulum-v1", SMALL["Pendulum-v1"]))
    goal = upright.abstraction.grid.touching((-0.2001, -0.5001), (0.2001, 0.5001))
    assert (upright.of_state[goal] == 0).all()
    policy = asure.minimal_budget(asure.abstract("swing-up")).policy()
    bound, model = policy.minimal.smallest_budget(), policy.abstraction
    assert 40 < bound <= 51
    assert policy.minimal.safe_share(bound) == 1.0
    env = gymnasium.make("Pendulum-v1").unwrapped
    for seed in range(5):
        seen, _ = env.reset(seed=seed)
        steps, rests, there = 0, None, False
        while not there:
            actions, rests = policy.act([model.state_of(seen)], rests)
            seen, *_ = env.step(np.array([model.actions[int(actions[0])]], np.float32))
            steps, there = steps + 1, bool(model.goal(model.state_of(seen)))
        assert steps <= bound


@pytest.mark.parametrize(("name", "cells", "share"), [("dcdc", (100, 100), 0.85), ("cruise-control", (70, 151), 0.6)])
def test_systems_of_the_literature(name, cells, share):
    full = asure.abstract(name).grid
    upper = asure.minimal_budget(asure.abstract(name, Grid(full.low, full.high, cells)))
    assert upper.safe_share() > share


def test_the_vehicle_arrives():
    upper = asure.minimal_budget(asure.abstract("vehicle"))
    assert upper.of((8.9, 0.5, 0.0)) < 20
    assert upper.of((9.2, 0.2, 0.0)) == 0
    assert upper.smallest_budget() < 400
