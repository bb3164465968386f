"""``check_shielded_env`` finds each of the common mistakes, and accepts environments without mistakes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit, TransformAction

import almostsure as asure
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv, environment_names, ready, to_gymnasium
from almostsure.testing import check_shielded_env

from .gym.made import shield_of


def rivers(wrap=lambda env: env, budget=3, **options):
    """The hazard map; ``wrap`` is applied between the environment and its shield."""
    mdp = asure.example("hazard-map")
    return ShieldedEnv(wrap(to_gymnasium(mdp, max_episode_steps=40)), shield_of(mdp), budget, **options)


@pytest.mark.parametrize("name", environment_names())
def test_environments_of_this_package_pass(name):
    env = gymnasium.make(name, **({"size": 12} if "Archipelago" in name else {}))
    mdp = env.unwrapped.mdp
    shield = shield_of(mdp)
    checked = check_shielded_env(ShieldedEnv(env, shield, shield.minimal.smallest_budget() + 1), episodes=6, steps=60)
    assert checked.episodes == 6
    assert checked.worst <= checked.budget


@pytest.mark.parametrize("forbidden", ["raise", "replace"])
def test_wrappers_around_the_shield_pass(forbidden):
    checked = check_shielded_env(TimeLimit(rivers(forbidden=forbidden), 30))
    assert (checked.budget, checked.worst) == (3, 3)


def test_a_vector_is_refused():
    envs = gymnasium.make_vec("almostsure/HazardMap-v0", num_envs=2)
    shield = shield_of(asure.example("hazard-map"))
    with pytest.raises(ArgumentError, match=r"got ShieldedVectorEnv, a vector of them\. Check a ShieldedEnv around"):
        check_shielded_env(ShieldedVectorEnv(envs, shield, 3))


def test_other_environments_pass():
    check_shielded_env(ready("MiniGrid-LavaGapS5-v0").shielded(0), episodes=3, steps=40)
    check_shielded_env(ready("Taxi-v4").shielded(1), episodes=3, steps=100)


# ---------------------------------------------------------------------- mistakes below the shield


class HurtingReset(gymnasium.Wrapper):
    def reset(self, **options):
        state, info = self.env.reset(**options)
        return state, {**info, "damage": 1}


def test_damage_on_reset():
    with pytest.raises(ModelError, match="damage: a reset must do no damage"):
        check_shielded_env(rivers(HurtingReset))


def test_fractions_of_damage():
    class Half(gymnasium.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "damage": info["damage"] / 2}

    with pytest.raises(ModelError, match=r"non-integer damage: damage must be an integer.*got 0\.5"):
        check_shielded_env(rivers(Half))


def test_states_outside_the_model():
    def somewhere_else(seen, env):
        return 10_000 if seen % 3 == 0 else seen

    with pytest.raises(ModelError, match=r"state outside the model: state_of must return a state 0 … 133"):
        check_shielded_env(rivers(state_of=somewhere_else))


def test_actions_in_another_order():
    def turned(env):
        return TransformAction(env, lambda action: (action + 1) % 4, Discrete(4))

    with pytest.raises(ModelError, match=r"transition outside the model: .*numbers its actions in the same order"):
        check_shielded_env(rivers(turned))


# ---------------------------------------------------------------------- mistakes above the shield, or without it


class Outer(gymnasium.Wrapper):
    """A wrapper with a mistake."""

    def reset(self, **options):
        state, info = self.env.reset(**options)
        return state, self.spoil(info)

    def step(self, action):
        *rest, info = self.env.step(action)
        return *rest, self.spoil(info)

    def spoil(self, info):
        return info


def test_masks_in_another_order():
    class Turned(Outer):
        def action_masks(self):
            return self.env.action_masks()[::-1]

        def spoil(self, info):
            return {**info, "action_mask": info["action_mask"][::-1]}

    with pytest.raises(ModelError, match=r"mask not aligned: action_masks\(\) is .* outside and .* at the shield"):
        check_shielded_env(Turned(rivers()))


@pytest.mark.parametrize(
    ("mask", "what"),
    [
        (np.ones(3, bool), r"mask not aligned: action_masks\(\) must be 4 booleans"),
        (np.ones(4, np.int8), r"mask not aligned: action_masks\(\) must be 4 booleans.*int8"),
        (np.zeros(4, bool), "empty mask: no action is allowed"),
        (np.array([True, False, False, False]), r"mask not aligned: info\['action_mask'\] differs"),
    ],
)
def test_invalid_masks(mask, what):
    class Masks(Outer):
        def action_masks(self):
            return mask

    with pytest.raises(ModelError, match=what):
        check_shielded_env(Masks(rivers()))


class Homemade(gymnasium.Wrapper):
    """A homemade shield around the paper's example, with a switch for each mistake."""

    def __init__(self, mistake=None):
        super().__init__(to_gymnasium("paper", max_episode_steps=8))
        self.mistake, self.left, self.refused = mistake, 2, 0

    def reset(self, **options):
        state, info = self.env.reset(**options)
        if self.mistake != "budget not reset":
            self.left = 2
        return state, self.info(info, 0)

    def step(self, action):
        given = action
        if self.mistake != "forbidden action played" and not self.action_masks()[action]:
            self.refused += 1
            if self.mistake != "refuses only at first" or copied(self):
                raise ValueError("not allowed")
            action = 1
        state, reward, terminated, truncated, info = self.env.step(action)
        self.left -= info["damage"]
        said = {"executed_action": action, "replaced": action != given}
        return state, reward, terminated, truncated, self.info(info, info["damage"]) | said

    def action_masks(self):
        return np.array([self.left > 0 or self.mistake == "overspent", True])

    def info(self, info, damage):
        left = self.left - (self.mistake == "budget not kept" and damage)
        if self.mistake == "damage is not an integer":
            damage = float(damage)
        return {"damage": damage, "remaining": left, "action_mask": self.action_masks()} if self.mistake != "no" else {}


COPIES = []  # one entry per trial of a forbidden action


def copied(env):
    """Whether a forbidden action is tried for the first time."""
    COPIES.append(env)
    return len(COPIES) == 1


def test_a_correct_homemade_shield_passes():
    assert check_shielded_env(Homemade()).worst == 2


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("budget not reset", r"budget not reset: \d remain after reset\(\) \(episode \d+, step 0\), but 2 did"),
        ("budget not kept", r"budget not kept: 2 remained and the step did 1, but info\['remaining'\] is 0"),
        ("overspent", "overspent: an allowed action overspent the budget by 1"),
        ("forbidden action played", "forbidden action played: action 0 is not allowed"),
        ("refuses only at first", "forbidden actions answered in two ways: the forbidden action 0 was replaced"),
        ("damage is not an integer", r"damage is not an integer: info\['damage'\] is [01]\.0"),
        ("no", "no remaining: info must have 'remaining'"),
    ],
)
def test_a_wrong_homemade_shield_is_refused(mistake, message):
    with pytest.raises(ModelError, match=message):
        check_shielded_env(Homemade(mistake))


def test_an_environment_without_masks():
    with pytest.raises(ModelError, match=r"no masks: the environment has no action_masks\(\)"):
        check_shielded_env(gymnasium.make("CliffWalking-v1"))
    with pytest.raises(ModelError, match="the action space must be Discrete"):
        check_shielded_env(gymnasium.make("Pendulum-v1"))
    tracked = DamageTracker(to_gymnasium("paper"), lambda *step: 0)
    with pytest.raises(ModelError, match="no remaining"):
        check_shielded_env(tracked)
