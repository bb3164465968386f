"""Shielded environments with real-valued observations."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit, TransformAction

import almostsure as asure
from almostsure.abstract import Grid
from almostsure.errors import ModelError, ModelMismatch, NoSafeAction
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv, to_gymnasium

from .systems import double_integrator


def torques(**options):
    model = asure.abstract("Pendulum-v1", Grid((-0.4, -1.6), (0.4, 1.6), (80, 80)))
    env = gymnasium.make("Pendulum-v1", **options)
    return model, TransformAction(env, lambda a: np.array([model.actions[a]], np.float32), Discrete(model.num_actions))


@pytest.fixture(scope="module")
def upright():
    return asure.Shield(asure.minimal_budget(torques()[0]))


@pytest.fixture(scope="module")
def cart_pole():
    grid = Grid((-2.4, -1.6, -0.2094, -1.8), (2.4, 1.6, 0.2094, 1.8), (24, 24, 32, 32))
    return asure.Shield(asure.minimal_budget(asure.abstract("CartPole-v1", grid, pattern=6)))


def test_random_play_keeps_the_pendulum_upright(upright):
    _, env = torques(max_episode_steps=300)
    shielded = ShieldedEnv(env, upright, 0)
    observation, info = shielded.reset(seed=0, options={"x_init": 0.1, "y_init": 0.1})
    assert observation.shape == (4,)
    assert info["remaining"] == 0
    assert not any(key.startswith("_") for key in info)
    rng = np.random.default_rng(0)
    for _ in range(300):
        action = rng.choice(np.flatnonzero(shielded.action_masks()))
        observation, *_, info = shielded.step(action)
        assert abs(np.arctan2(observation[1], observation[0])) <= 0.4
        assert info["damage"] == 0


def test_starts_outside_the_safe_cells_are_refused_in_words(upright):
    _, env = torques()
    shielded = ShieldedEnv(env, upright, 0)
    with pytest.raises(NoSafeAction, match=r"a state outside the box with 0 left.*Narrow the start, or widen the box"):
        shielded.reset(seed=0)


def test_cart_pole_never_falls(cart_pole):
    env = ShieldedEnv(gymnasium.make("CartPole-v1"), cart_pole, 0)
    rng = np.random.default_rng(1)
    env.reset(seed=0)
    steps, over = 0, False
    while not over:
        *_, terminated, truncated, _ = env.step(rng.choice(np.flatnonzero(env.action_masks())))
        over, steps = terminated or truncated, steps + 1
    assert steps == 500


def cart_poles(count, steps):
    return gymnasium.make_vec("CartPole-v1", count, vectorization_mode="sync", max_episode_steps=steps)


def test_vectors_of_cart_poles(cart_pole):
    vector = ShieldedVectorEnv(cart_poles(4, 60), cart_pole, 0)
    observations, infos = vector.reset(seed=3)
    assert observations.shape == (4, 5)
    rng = np.random.default_rng(2)
    for _ in range(70):  # across an automatic reset
        masks = vector.action_masks()
        observations, _, terminated, _, infos = vector.step(np.argmax(rng.random(masks.shape) * masks, axis=1))
        assert not terminated.any()
        assert "_begun" not in infos


def test_forbidden_actions_are_refused(cart_pole):
    env = ShieldedEnv(gymnasium.make("CartPole-v1"), cart_pole, 0)
    env.reset(seed=0)
    while env.action_masks()[1]:
        env.step(1)
    with pytest.raises(NoSafeAction, match="right is not allowed at cell"):
        env.step(1)


def test_forbidden_actions_are_replaced_if_asked_for(cart_pole):
    env = ShieldedEnv(gymnasium.make("CartPole-v1"), cart_pole, 0, forbidden="replace")
    env.reset(seed=0)
    replaced = 0
    for _ in range(200):
        *_, terminated, _, info = env.step(1)
        assert not terminated
        replaced += info["replaced"]
    assert replaced > 20


def test_an_environment_of_another_shape_is_refused(cart_pole):
    with pytest.raises(ModelError, match=r"the 4 coordinates of the grid"):
        ShieldedEnv(Two(), cart_pole, 0).reset()


class Two(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}


class Pushed(gymnasium.Wrapper):
    """An environment with a wind that no abstraction knows of, from a step on."""

    def __init__(self, env, step, push):
        super().__init__(env)
        self.left, self.push = step, push

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            state = list(self.unwrapped.state)
            state[1] += self.push
            self.unwrapped.state = tuple(state)
        return super().step(action)


def played(env, steps, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        env.step(rng.choice(np.flatnonzero(env.action_masks())))


def test_an_environment_that_leaves_the_enclosure_is_a_mismatch(cart_pole):
    env = ShieldedEnv(Pushed(gymnasium.make("CartPole-v1"), 20, 1e-4), cart_pole, 0)
    env.reset(seed=0)
    played(env, 20)
    with pytest.raises(
        ModelMismatch,
        match=r"from \[.*\] the action (left|right) led to \[.*\], which is outside the enclosure by 0\.0001 in x1",
    ):
        played(env, 1)
    with pytest.raises(ResetNeeded, match="there is no episode"):
        env.step(0)
    assert env.ledger.episodes == 1  # noted, though an error ended it


def test_what_float32_hides_is_no_mismatch_and_more_is(cart_pole, upright):
    for push, seen in ((1e-11, False), (1e-5, True)):
        env = ShieldedEnv(Pushed(gymnasium.make("CartPole-v1"), 0, push), cart_pole, 0)
        env.reset(seed=1)
        if seen:
            with pytest.raises(ModelMismatch, match=r"outside the enclosure by .*e-06 in x1"):
                played(env, 5)
        else:
            played(env, 50)


def test_a_state_function_of_the_wrapper_is_compared_too(upright):
    _, env = torques()
    for push in (0.0, 0.05):
        shielded = ShieldedEnv(
            Pushed(env, 3, push), upright, 0, state_of=lambda seen, env: tuple(float(x) for x in env.unwrapped.state)
        )
        shielded.reset(seed=0, options={"x_init": 0.1, "y_init": 0.1})
        played(shielded, 3)
        if push:
            with pytest.raises(ModelMismatch, match=r"outside the enclosure by 0\.05 in x1"):
                played(shielded, 1)
        else:
            played(shielded, 20)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_one_environment_of_many_that_leaves_the_enclosure_is_a_mismatch(cart_pole, mode):
    def make(push):
        return lambda: Pushed(gymnasium.make("CartPole-v1", max_episode_steps=15), 40, push)

    vector = ShieldedVectorEnv(
        gymnasium.vector.SyncVectorEnv([make(0.0), make(-0.3), make(0.0)], autoreset_mode=mode), cart_pole, 0
    )
    vector.reset(seed=0)
    rng = np.random.default_rng(0)

    def go():
        masks = vector.action_masks()
        *_, truncated, _ = vector.step(np.argmax(rng.random(masks.shape) * masks, axis=1))
        if mode is AutoresetMode.DISABLED and truncated.any():
            vector.reset(options={"reset_mask": truncated})

    for _ in range(40 + (2 if mode is AutoresetMode.NEXT_STEP else 0)):  # across resets, which are no steps
        go()
    with pytest.raises(ModelMismatch, match=r"which is outside the enclosure by 0\.3 in x1 \(1 of \d steps\)"):
        go()


class Point(gymnasium.Env):
    """Position and velocity on a line, as the abstraction has it; the wall at 0.8 hurts, and a far one ends it."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float64)
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-0.1, 0.1, 2)
        return self.state.copy(), {}

    def step(self, action):
        x, v = self.state
        self.state = np.array([x + 0.2 * v, v + 0.3 * (int(action) - 1)])
        return self.state.copy(), 0.0, False, False, {"damage": int(abs(self.state[0]) > 0.8)}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("budget", [4, 8])
def test_vectors_show_masks_and_what_remains(mode, budget):
    model = double_integrator((24, 20), 2, initial=((-0.1, -0.1), (0.1, 0.1)))
    shield = asure.Shield(asure.minimal_budget(model))

    def make():
        return TimeLimit(Point(), 25)

    vector = ShieldedVectorEnv(
        gymnasium.vector.SyncVectorEnv([make] * 5, autoreset_mode=mode), shield, budget, normalised=True
    )
    singles = [ShieldedEnv(make(), shield, budget, normalised=True) for _ in range(5)]
    seen, infos = vector.reset(seed=7)
    ones = [env.reset(seed=7 + at) for at, env in enumerate(singles)]
    spent = np.zeros(5, int)
    for _ in range(24):
        assert np.allclose(seen, [one[0] for one in ones])
        assert seen[:, -1].tolist() == pytest.approx(1 - spent / budget)
        masks = vector.action_masks()
        assert masks.tolist() == [env.action_masks().tolist() for env in singles]
        assert np.array_equal(infos["action_mask"], masks)
        actions = np.argmax(masks * [1, 2, 3], axis=1)  # towards the wall
        seen, _, _, truncated, infos = vector.step(actions)
        ones = [env.step(action) for env, action in zip(singles, actions.tolist(), strict=True)]
        spent += infos["damage"]
        assert infos["remaining"].tolist() == (budget - spent).tolist() == [one[-1]["remaining"] for one in ones]
        assert not truncated.any()
    assert 0 < spent.max() <= budget
    assert not vector.action_masks().all()
    with pytest.raises(NoSafeAction, match=r"is not allowed at cell \d+ \(x in"):
        vector.step(np.argmin(vector.action_masks(), axis=1))


def test_with_nothing_left_the_proof_says_that_a_step_into_a_cell_across_the_border_does_not_hurt():
    grid = Grid((0.0,), (1.0,), (10,), names=("x",))
    model = asure.abstract(lambda s, a: (a,), grid, [0.1, 0.62, 0.68], unsafe=lambda s: s[0] > 0.65)
    shield = asure.Shield(asure.minimal_budget(model))
    run = shield.begin((0.05,), 0)
    assert shield.allowed(*run).tolist() == [0, 1]
    assert shield.after(run, 1, (0.62,))[:2] == (6, 0)
    many = tuple(np.array([column]) for column in run)
    assert shield.after(many, np.array([1]), np.array([[0.62]]))[1].tolist() == [0]
    with pytest.raises(ModelError, match="does not determine the damage of entering it"):
        shield.after(run, 2, (0.68,))  # which is not allowed
    with pytest.raises(ModelError, match="does not determine the damage of entering it"):
        shield.after(many, np.array([2]), np.array([[0.68]]))
    with pytest.raises(ModelError, match="does not determine the damage of entering it"):
        shield.after(shield.begin((0.05,), 1), 1, (0.62,))


@pytest.mark.parametrize("answer", [(None, 0.0), ("a", "b"), np.zeros((1, 2)), [[0.0], [0.0, 1.0]]])
def test_a_state_of_that_returns_no_numbers_is_named(answer):
    model, env = torques()
    shielded = ShieldedEnv(env, asure.Shield(asure.minimal_budget(model)), 0, state_of=lambda seen, env: answer)
    with pytest.raises(ModelError, match="state_of must return numbers for the observation array"):
        shielded.reset(seed=0)


def test_cells_across_the_border_of_what_is_unsafe_need_an_environment_that_says_its_damage():
    grid = Grid((-0.4, -1.6), (0.4, 1.6), (40, 40))
    model, env = torques()
    leans = asure.abstract(
        model.step, grid, model.actions, unsafe=lambda state: abs(state[0]) > 0.305, state_of=model.state_of,
        initial=((-0.02, -0.02), (0.02, 0.02)),
    )  # fmt: skip
    shield = asure.Shield(asure.minimal_budget(leans))
    assert shield.unclear(0) == 0
    assert shield.unclear(1) > 0
    ShieldedEnv(env, shield, 0)  # where the proof says that they do not
    with pytest.raises(ModelError, match=r"cells are only partly unsafe .*DamageTracker\(env, damage\)"):
        ShieldedEnv(env, shield, 1)
    tracked = DamageTracker(env, lambda seen, action, after, reward, terminated: int(abs(after[1]) > 0.3))
    ShieldedEnv(tracked, shield, 1)


def test_state_of_is_asked_once_per_step(upright):
    asked = []

    def state_of(seen, env):
        asked.append(1)
        return tuple(float(x) for x in env.unwrapped.state)

    _, env = torques(max_episode_steps=30)
    shielded = ShieldedEnv(env, upright, 0, state_of=state_of)
    shielded.reset(seed=0, options={"x_init": 0.1, "y_init": 0.1})
    for _ in range(5):
        shielded.step(int(np.argmax(shielded.action_masks())))
    assert len(asked) == 6


def test_states_of_a_model_are_not_taken_for_cells():
    abstraction = double_integrator((24, 20), 2, initial=((-0.1, -0.1), (0.1, 0.1)))
    shield, cells, actions = asure.Shield(asure.minimal_budget(abstraction)), 480, 3
    state, action = np.repeat(np.arange(cells), actions), np.tile(np.arange(actions), cells)
    ones = np.ones(state.size)
    model = asure.from_transitions(state, action, state, ones, -ones, np.zeros(state.size, np.int64), initial=209)
    assert (shield.space.num_observed, shield.space.num_actions) == (cells, actions)
    env = ShieldedEnv(to_gymnasium(model), shield, 3, observe="none")
    with pytest.raises(ModelError, match="an observation must have the 2 coordinates of the grid"):
        env.reset(seed=0)
