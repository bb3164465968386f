"""``to_gymnasium``: environments that sample a model."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure.errors import ArgumentError, ModelError, UnknownName
from almostsure.gym import ModelEnv, to_gymnasium
from almostsure.model.build.examples import example
from almostsure.model.build.transitions import from_transitions
from almostsure.testing import mdps
from almostsure.testing.families import garnet


@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes.*:UserWarning")
@pytest.mark.parametrize("model", ["paper", "hazard-map", "archipelago", "quicksand", garnet(20, terminal_rate=0)])
def test_the_checker_of_gymnasium_passes(model):
    env = to_gymnasium(model)
    env.reset(seed=0)
    check_env(env, skip_render_check=True)
    if env.unwrapped.mdp.layout is not None:
        for mode in ("ansi", "rgb_array"):
            check_env(to_gymnasium(model, render_mode=mode))


def play(env, steps, *, seed):
    """A trajectory of random available actions, and the actions."""
    state, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    rows = [(int(state), info["damage"], info["action_mask"].tolist())]
    actions = []
    for _ in range(steps):
        action = int(env.action_space.sample(info["action_mask"]))
        state, reward, terminated, truncated, info = env.step(action)
        rows.append((int(state), reward, terminated, truncated, info["damage"], info["action_mask"].tolist()))
        actions.append(action)
        if terminated:
            break
    return rows, actions


@given(mdps(), st.integers(0, 2**32 - 1))
def test_every_step_is_an_outcome_of_the_model(mdp, seed):
    env = to_gymnasium(mdp)
    (start, *steps), actions = play(env, 20, seed=seed)
    assert start[0] in mdp.initial_states
    assert start[1] == 0
    states = [start[0], *(step[0] for step in steps)]
    terminal = mdp.is_terminal()
    for state, action, step in zip(states, actions, steps, strict=False):
        successor, reward, terminated, truncated, damage, mask = step
        possible = {(t, r, d) for t, _, r, d in mdp.outcomes(state, action)}
        assert (successor, reward, damage) in possible
        assert terminated == terminal[successor]
        assert not truncated
        assert np.flatnonzero(mask).tolist() == mdp.actions(successor).tolist()


@given(mdps(), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_same_seed_gives_the_same_trajectory(mdp, seed):
    env = to_gymnasium(mdp)
    first = play(env, 30, seed=seed)
    assert play(env, 30, seed=seed) == first
    assert play(copy.deepcopy(env), 30, seed=seed) == first
    assert play(pickle.loads(pickle.dumps(env)), 30, seed=seed) == first


def test_copies_continue_from_the_state_of_the_original():
    env = to_gymnasium("hazard-map")
    env.reset(seed=3)
    env.step(1)
    twin = pickle.loads(pickle.dumps(env))
    for action in [1, 3] * 10:
        assert env.step(action)[:2] == twin.step(action)[:2]


def test_frequencies_are_the_models_probabilities():
    mdp = from_transitions([0] * 3, [0] * 3, [0, 1, 0], [0.2, 0.3, 0.5], [0, 0, 1], [0, 0, 2], terminal=[1])
    env = to_gymnasium(mdp)
    env.reset(seed=0)
    seen = np.zeros(3)
    for _ in range(5000):
        state, reward, _, _, info = env.step(0)
        seen[1 if state == 1 else 2 if reward else 0] += 1
        assert info["damage"] == (2 if reward else 0)
        env.reset()
    assert seen / 5000 == pytest.approx([0.2, 0.3, 0.5], abs=0.03)


def test_starts_are_drawn_from_the_initial_distribution():
    mdp = from_transitions([0, 1], [0, 0], [0, 1], [1, 1], [1, 1], [0, 0], initial={0: 0.25, 1: 0.75})
    env = to_gymnasium(mdp)
    env.reset(seed=0)
    assert np.mean([env.reset()[0] for _ in range(2000)]) == pytest.approx(0.75, abs=0.04)


def test_a_start_can_be_chosen():
    env = to_gymnasium("paper")
    assert env.reset(options={"state": "square"})[0] == 1
    with pytest.raises(UnknownName, match=r"unknown state 'sqare'\. Did you mean 'square'\?"):
        env.reset(options={"state": "sqare"})


def test_actions_may_be_named_and_must_be_available():
    env = to_gymnasium("corridor")
    env.reset(seed=0)
    assert env.step("east")[0] == 1
    assert env.step(np.int64(1))[0] == 2
    with pytest.raises(UnknownName, match=r"action 'west' is not available at state 2 'r0c2', which has: east\."):
        env.step("west")
    with pytest.raises(UnknownName, match=r"unknown action 4\. Actions are 0 … 3\."):
        env.step(4)
    assert env.unwrapped.action_masks().tolist() == [False, True, False, False]


def test_before_the_first_reset_nothing_works():
    env = ModelEnv(example("paper"))
    for call in (lambda: env.step(0), env.action_masks):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            call()
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        ModelEnv(example("corridor"), render_mode="ansi").render()


def test_after_the_end_of_an_episode_only_reset_works():
    env = ModelEnv(example("paper"))
    env.reset(seed=0)
    assert env.step("right")[2]
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"the episode is over; call reset\(\)"):
        env.step("left")
    env.reset(options={"state": "square"})
    state, reward, terminated, _, info = env.step("left")  # an initial state that is terminal
    assert (state, reward, terminated, info["damage"]) == (1, 0.0, True, 0)
    env.reset(options={"state": "square"})
    with pytest.raises(UnknownName, match="unknown action 'up'"):
        env.step("up")


def test_episodes_can_be_truncated():
    env = to_gymnasium("paper", max_episode_steps=np.int64(3))
    env.reset(seed=0)
    assert [env.step("left")[3] for _ in range(3)] == [False, False, True]


def test_text_shows_the_agent_and_its_damage():
    env = to_gymnasium("corridor", render_mode="ansi")
    env.reset(seed=0)
    assert env.render().splitlines() == ["@>>>>>3G", ".######.", "........", "start, damage so far 0"]
    for _ in range(6):
        env.step("east")
    assert env.render().splitlines() == ["S>>>>>@G", ".######.", "........", "east, damage so far 3"]


def test_pictures_show_the_agent():
    env = to_gymnasium("corridor", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.shape == (3 * 32 + 22, 8 * 32, 3)
    assert before.dtype == np.uint8
    env.step("east")
    after = env.render()
    changed = np.unique(np.argwhere((before != after).any(axis=2)) // 32, axis=0)
    assert changed.tolist() == [[0, 0], [0, 1]]
    colours = {tuple(after[28 + 32 * row, 28 + 32 * column]) for row, column in ((0, 5), (0, 6), (0, 7), (1, 1))}
    assert len(colours) == 4  # floor, hazard, goal, wall


def test_models_without_a_map_cannot_be_drawn():
    with pytest.raises(ModelError, match="a model must have a layout to be drawn"):
        to_gymnasium("paper", render_mode="ansi")
    with pytest.raises(UnknownName, match=r"unknown render mode 'humna'. Did you mean 'human'\? There are: ansi"):
        to_gymnasium("corridor", render_mode="humna")
    env = ModelEnv(example("corridor"))
    env.reset()
    with pytest.warns(UserWarning, match="needs a render_mode"):
        env.render()


def test_it_runs_in_a_vector_environment():
    envs = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium("hazard-map", max_episode_steps=5)] * 3)
    _, info = envs.reset(seed=0)
    for _ in range(12):
        _, _, _, _, info = envs.step(np.array([1, 1, 2]))
    assert info["damage"].shape == (3,)
    assert info["action_mask"].shape == (3, 4)
    envs.close()


@pytest.mark.parametrize("max_steps", [0, -1, 1.5, float("nan")])
def test_max_episode_steps_must_be_positive(max_steps) -> None:
    with pytest.raises(ArgumentError, match="max_episode_steps must be"):
        to_gymnasium("corridor", max_episode_steps=max_steps)
