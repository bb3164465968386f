"""What ``abstract`` accepts and what it refuses."""

import inspect
import math
import sys

import numpy as np
import pytest

import almostsure as asure
from almostsure.abstract import Grid, Interval, abstract
from almostsure.errors import ArgumentError, ModelError, ModelMismatch, UnknownName

from .systems import double_integrator, outcomes

LINE = Grid([0.0], [1.0], [4])


def still(state, action):
    return state


def test_the_package_is_called_like_the_function():
    assert asure.abstract(still, LINE, [0]).num_cells == 4
    assert abstract(still, LINE, [0]).num_cells == 4
    assert inspect.signature(sys.modules["almostsure.abstract"]) == inspect.signature(abstract)  # editors show it


def test_an_enclosure_of_ones_own():
    model = abstract(None, LINE, [0.1], post=lambda low, high, a: ((low[0] * 0.5,), (high[0] * 0.5 + a,)))
    assert outcomes(model, 3, 0)[0][0] == [1, 2]
    with pytest.raises(ModelError, match=r"post must return a pair \(low, high\) of tuples; got Interval"):
        abstract(None, LINE, [0], post=lambda low, high, a: Interval(low[0], high[0]))
    with pytest.raises(ArgumentError, match="either step or post, and not both"):
        abstract(still, LINE, [0], post=lambda low, high, a: (low, high))


@pytest.mark.parametrize(
    ("step", "match"),
    [
        (lambda s, a: (s[0], s[0]), "step must return 1 coordinate, as the grid has; got 2"),
        (lambda s, a: s[0], "step must return a tuple of 1 coordinate; got Interval"),
        (lambda s, a: [], "step must return at least one next state; got an empty list"),
        (lambda s, a: (np.arcsin(s[0]),), "numpy.arcsin cannot be applied to intervals, at test_abstraction.py, line"),
        (lambda s, a: (math.exp(s[0]),), "function of the math module"),
        (lambda s, a: (1 / (s[0] - 0.5),), "a divisor must not contain 0"),
        (lambda s, a: (s[0].clip(0, 1),), "step must work on interval arrays; AttributeError at test_abstraction.py"),
        (lambda s, a: (s[0] + np.random.default_rng().random(),), "step must be a function of its arguments"),
        (lambda s, a: (s[3],), "step must work on interval arrays; IndexError"),
    ],
)
def test_steps_that_cannot_be_used_are_refused(step, match):
    with pytest.raises(ModelError, match=match):
        abstract(step, LINE, [0])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"grid": None}, "grid must be a Grid; got NoneType"),
        ({"actions": []}, "actions must list at least one action"),
        ({"action_names": ["a", "b"]}, "action_names must have one entry per action, 1; got 2"),
        ({"disturbance": 0.1}, r"disturbance must be a pair \(low, high\)"),
        ({"disturbance": ((0.0, 0.0), (1.0, 1.0))}, "disturbance must have 1 coordinate; got 2 and 2"),
        ({"disturbance": ((0.1,), (-0.1,))}, "disturbance must be finite with low ≤ high; got 0.1 and -0.1 at x0"),
        ({"disturbance": ((0.1,), (np.nan,))}, "disturbance must be finite"),
        ({"observation_error": "float16"}, 'observation_error must be None, "float32" or numbers'),
        ({"observation_error": [-1.0]}, "observation_error must be 1 number, 0 or more"),
        ({"pattern": 0}, "pattern must be a length of at least 1"),
        ({"split": [2, 2]}, r"split must be one number per coordinate, 1; got \[2, 2\]"),
        ({"split": 2}, "split must be one number per coordinate, 1; got 2"),
        ({"split": [0]}, "split must be at least 1; got 0"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments, match):
    with pytest.raises(ArgumentError, match=match):
        abstract(still, **{"grid": LINE, "actions": [0]} | arguments)


def test_a_start_outside_the_box_is_refused():
    with pytest.raises(ModelMismatch, match=r"initial must lie in the box; x0 starts in \[0, 2\]"):
        abstract(still, LINE, [0], initial=((0.0,), (2.0,)))


def test_negative_damage_is_refused():
    model = abstract(still, LINE, [0], unsafe=lambda s: s[0] - 3)
    with pytest.raises(ModelError, match="damage must be 0 or more; unsafe gives -3"):
        asure.minimal_budget(model)


def test_unknown_systems_name_the_nearest():
    with pytest.raises(UnknownName, match=r"unknown system 'CartPole-v0'\. Did you mean 'CartPole-v1'\?"):
        asure.abstract("CartPole-v0")


def test_a_known_system_is_changed_by_replace():
    with pytest.raises(ArgumentError, match=r"only grid and pattern can be given .* got goal, split for CartPole-v1"):
        asure.abstract("CartPole-v1", goal=lambda s: s[0] > 1, split=[1, 1, 2, 2])
    with pytest.raises(ArgumentError, match=r"got name, observation_error, action_names for CartPole-v1"):
        asure.abstract("CartPole-v1", name="mine", observation_error="float32", action_names=["left", "right"])
    with pytest.raises(ArgumentError, match=r"got actions, disturbance for CartPole-v1"):
        asure.abstract("CartPole-v1", actions=np.array([0, 1]), disturbance=np.zeros((2, 4)))


def test_steps_outside_the_enclosure_are_named_with_their_distance():
    model = double_integrator()
    states, actions = np.array([[0.0, 0.5], [0.1, 0.2]]), np.array([0, 2])
    after = np.stack(model.step(tuple(states.T), np.array([-1, 1])), axis=1)
    model.check_step(states, actions, after)
    after[1, 0] += 0.01
    with pytest.raises(ModelMismatch, match=r"from \[0.1, 0.2\] the action 1 led to .* by 0.01 in x"):
        model.check_step(states, actions, after)
    with pytest.raises(ModelError, match=r"states and next_states must be \[n, 2\] and actions \[n\]"):
        model.check_step(states, actions[:1], after)


def test_words():
    assert repr(double_integrator(pattern=2)) == "<Abstraction: 120 cells, 9 patterns of up to 2 steps, counts damage>"
    assert double_integrator().fingerprint != double_integrator((12, 11)).fingerprint


def test_observations_that_are_only_rounded_are_told_from_other_dynamics():
    exact, rounded = double_integrator(), double_integrator(observation_error="float32")
    rng = np.random.default_rng(0)
    states = rng.uniform(-0.5, 0.5, (50, 2))
    after = np.stack([states[:, 0] + 0.2 * states[:, 1], states[:, 1] + 0.3], axis=1)
    actions = np.full(50, 2)
    seen, seen_after = states.astype(np.float32), after.astype(np.float32)
    rounded.check_step(seen, actions, seen_after, observed=True)
    with pytest.raises(
        ModelMismatch,
        match=r'^these observations are rounded to float32.*: pass observation_error="float32" to abstract\. Here from'
        r" \[.*outside the enclosure by .*e-\d+ in .* \(\d+ of 50 steps\)\.$",
    ):
        exact.check_step(seen, actions, seen_after, observed=True)
    with pytest.raises(ModelMismatch, match=r"pass observed=True to check_step\. Here"):
        rounded.check_step(seen, actions, seen_after)
    with pytest.raises(ModelMismatch, match=r'observed=True to check_step and observation_error="float32" to abstract'):
        exact.check_step(seen, actions, seen_after)
    with pytest.raises(ModelMismatch, match="instead of numbers, or numbers that allow for it"):
        double_integrator(observation_error=(1e-12, 0.0)).check_step(seen, actions, seen_after, observed=True)
    for wrong in (after + 1e-9, seen_after + np.float32(1e-4)):
        with pytest.raises(ModelMismatch, match=r"^from .* are not those of the environment\.$"):
            exact.check_step(seen, actions, wrong, observed=True)
