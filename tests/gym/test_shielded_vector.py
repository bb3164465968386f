"""Vector wrappers: budgets are reset when episodes begin, in every autoreset mode."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import ArgumentError, Infeasible, ModelError, ModelMismatch, NoSafeAction
from almostsure.gym import (
    ModelVectorEnv,
    ShieldedEnv,
    ShieldedVectorEnv,
    VectorBudgetObservation,
    VectorDamageTracker,
    to_gymnasium,
)
from almostsure.testing import mdps

from .made import Says, apart, shield_of

MODES = list(AutoresetMode)


BUDGET = 3


def river(max_steps=25):
    return to_gymnasium("hazard-map", max_episode_steps=max_steps)


def shielded_river(max_steps=25):
    return ShieldedEnv(river(max_steps), shield_of(asure.example("hazard-map")), BUDGET)


@pytest.mark.parametrize("mode", MODES)
def test_one_shield_around_a_vector(mode, follow):
    mdp = asure.example("hazard-map")
    envs = ShieldedVectorEnv(SyncVectorEnv(apart(river, 5), autoreset_mode=mode), shield_of(mdp), BUDGET)
    assert follow(envs, mode, 200, BUDGET) > 20
    assert envs.ledger.worst == BUDGET


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_of_shielded_environments(mode, follow):
    """Each environment's own shield handles its resets in every autoreset mode."""
    assert follow(SyncVectorEnv(apart(shielded_river, 3), autoreset_mode=mode), mode, 120, BUDGET) > 8


@pytest.mark.parametrize("mode", MODES)
def test_in_other_processes(mode, follow):
    mdp = asure.example("hazard-map")
    envs = ShieldedVectorEnv(AsyncVectorEnv(apart(river, 2), autoreset_mode=mode), shield_of(mdp), BUDGET)
    assert follow(envs, mode, 60, BUDGET) > 2
    envs = AsyncVectorEnv(apart(shielded_river, 2), autoreset_mode=mode)
    assert follow(envs, mode, 60, BUDGET) > 2


@pytest.mark.parametrize("observe", ["flat", "dict", "rllib", "none"])
@pytest.mark.parametrize("normalised", [False, True])
def test_single_and_vector_forms_have_the_same_observations(observe, normalised):
    mdp = asure.example("hazard-map")
    shield, options = shield_of(mdp), {"observe": observe, "normalised": normalised}
    many = ShieldedVectorEnv(SyncVectorEnv([river]), shield, BUDGET, **options)
    one = ShieldedEnv(river(), shield, BUDGET, **options)
    assert many.single_observation_space == one.observation_space
    rng = np.random.default_rng(1)
    (seen, _), (alone, _) = many.reset(seed=4), one.reset(seed=4)
    for _ in range(15):
        assert many.observation_space.contains(seen)
        for pair in zip(_leaves(seen), _leaves(alone), strict=True):
            assert np.array_equal(pair[0][0], pair[1])
        assert np.array_equal(many.action_masks()[0], one.action_masks())
        action = int(rng.choice(np.flatnonzero(one.action_masks())))
        (seen, *_), (alone, _, over, _, _) = many.step(np.array([action])), one.step(action)
        if over:
            break


def _leaves(seen):
    return [leaf for part in seen.values() for leaf in _leaves(part)] if isinstance(seen, dict) else [seen]


@given(mdps(), st.integers(0, 2), st.integers(0, 2**31 - 1))
@settings(max_examples=40)
def test_random_models_in_a_vector_never_overspend(mdp, more, seed):
    """Masks agree with the shield and are never empty, and remaining budgets are correct, for random models."""
    shield = shield_of(mdp)
    budget = shield.minimal.smallest_budget() + more
    if budget >= asure.INFINITE:
        with pytest.raises(Infeasible, match="no budget is enough"):
            ShieldedVectorEnv(ModelVectorEnv(mdp, 2), shield, 3)
        return
    envs = ShieldedVectorEnv(ModelVectorEnv(mdp, 5, max_episode_steps=7), shield, budget)
    rng = np.random.default_rng(seed)
    seen, infos = envs.reset(seed=seed)
    left, over = np.full(5, budget), np.zeros(5, bool)
    for _ in range(25):
        masks = infos["action_mask"]
        assert np.array_equal(masks.astype(bool), shield.mask(seen[:, 0], seen[:, 1]))
        seen, _, terminated, truncated, infos = envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
        left = np.where(over, budget, left - infos["damage"])
        assert np.array_equal(infos["remaining"], left)
        assert (left >= 0).all()
        over = terminated | truncated


def test_forbidden_actions():
    mdp = asure.example("paper")
    envs = ShieldedVectorEnv(SyncVectorEnv([partial(to_gymnasium, "paper")] * 2), shield_of(mdp), 1)
    envs.reset(seed=0)
    envs.step(np.array([0, 0]))
    with pytest.raises(NoSafeAction, match="left is not allowed at state 0 'circle' with 0 left"):
        envs.step(np.array([1, 0]))
    for actions in (np.array([0, 2]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([0]), "no"):
        with pytest.raises(ArgumentError, match="an action must be one of MultiDiscrete"):
            envs.step(actions)
    envs = ShieldedVectorEnv(
        SyncVectorEnv([partial(to_gymnasium, "paper")] * 2), shield_of(mdp), 1, forbidden="replace"
    )
    envs.reset(seed=0)
    envs.step(np.array([0, 0]))
    _, _, terminated, _, infos = envs.step(np.array([1, 0]))
    assert terminated.all()
    assert infos["interventions"].tolist() == [0, 1]
    assert infos["replaced"].tolist() == [False, True]
    assert infos["executed_action"].tolist() == [1, 1]


def test_forbidden_actions_are_refused_at_every_step():
    envs = ShieldedVectorEnv(ModelVectorEnv("paper", 2), shield_of(asure.example("paper")), 2)
    envs.reset(seed=0)
    for _ in range(2):
        envs.step(np.array([0, 0]))
    for _ in range(2):
        with pytest.raises(NoSafeAction, match="left is not allowed at state 0 'circle' with 0 left"):
            envs.step(np.array([0, 0]))


class Changed(gymnasium.vector.VectorWrapper):
    """A vector whose infos are changed by a function."""

    def __init__(self, env, change):
        super().__init__(env)
        self.change = change

    def step(self, actions):
        *rest, infos = self.env.step(actions)
        return *rest, self.change(infos)


@pytest.mark.parametrize("form", [lambda d: d[:, None], lambda d: d[:-1], lambda d: int(d[0])])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_damages_must_be_one_number_per_environment(form, mode):
    vector = SyncVectorEnv([partial(to_gymnasium, "paper")] * 3, autoreset_mode=mode)
    vector = Changed(vector, lambda infos: infos | {"damage": form(infos["damage"]), "cost": form(infos["damage"])})
    message = r"infos\['(damage|cost)'\] must hold one number per environment, shape \[3\]; got"
    shielded = ShieldedVectorEnv(vector, shield_of(asure.example("paper")), 2)
    for envs in (shielded, VectorDamageTracker(vector), VectorBudgetObservation(vector, 2)):
        envs.reset(seed=0)
        with pytest.raises(ModelError, match=message):
            envs.step(np.array([0, 0, 0]))
    assert shielded.ledger.episodes == 3


def test_last_observations_of_ended_episodes_must_be_given():
    vector = SyncVectorEnv([partial(to_gymnasium, "paper")] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    vector = Changed(vector, lambda infos: {key: infos[key] for key in infos if "final" not in key})
    for envs in (ShieldedVectorEnv(vector, shield_of(asure.example("paper")), 2), VectorDamageTracker(vector)):
        envs.reset(seed=0)
        with pytest.raises(ModelError, match=r"must give the last observation in infos\['final_obs'\]; it is missing"):
            envs.step(np.array([1, 1, 1]))


@pytest.fixture
def upto_two():
    """One state, in which action 1 does 0, 1 or 2 damage."""
    return asure.from_transitions([0] * 4, [0, 1, 1, 1], [0] * 4, [1, 0.5, 0.25, 0.25], [0] * 4, [0, 0, 1, 2])


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", MODES)
def test_damages_of_different_types_are_not_converted(upto_two, mode, vector):
    """Gymnasium's columns have the type of the first environment that reports damage: 2 would become True."""
    copies = [partial(Says, False, 1), partial(Says, 2, 0.0), partial(Says, np.int8(2)), partial(Says, True, 2.0)]
    inner = vector(copies, autoreset_mode=mode)
    envs = ShieldedVectorEnv(inner, shield_of(upto_two), 3)
    envs.reset(seed=0)
    for _ in range(30):
        *_, truncated, infos = envs.step(envs.action_masks()[:, 1].astype(int))
        assert (3 - infos["remaining"]).tolist() == list(inner.get_attr("true"))
        if mode == AutoresetMode.DISABLED and truncated.any():
            envs.reset(options={"reset_mask": truncated})
    assert max(inner.get_attr("worst")) == envs.ledger.worst == 3
    envs.close()


@pytest.mark.parametrize("mode", MODES)
def test_fractional_damages_are_not_truncated(upto_two, mode):
    online = asure.OnlineShield(num_states=1, actions=2, unknown="allow")
    for shield in (shield_of(upto_two), online) if mode == AutoresetMode.DISABLED else (shield_of(upto_two),):
        envs = ShieldedVectorEnv(
            SyncVectorEnv([partial(Says, 0), partial(Says, 0, 0, 0, 0.5)], autoreset_mode=mode), shield, 3
        )
        envs.reset(seed=0)
        for _ in range(3):
            envs.step(np.array([1, 1]))
        with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got 0\.5 at"):
            envs.step(np.array([1, 1]))  # the last step of the episode


def test_before_the_first_reset_and_after_an_error_only_reset_works():
    mdp = asure.example("paper")
    envs = ShieldedVectorEnv(SyncVectorEnv([partial(to_gymnasium, "paper")] * 2), shield_of(mdp), 1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        envs.step(np.array([1, 1]))
    with pytest.raises(gymnasium.error.ResetNeeded, match="before action_masks"):
        envs.action_masks()
    disabled = SyncVectorEnv([partial(to_gymnasium, "paper")] * 2, autoreset_mode=AutoresetMode.DISABLED)
    envs = ShieldedVectorEnv(disabled, shield_of(mdp), 1)
    envs.reset(seed=0)
    envs.step(np.array([1, 0]))
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode of environment 0 is over"):
        envs.step(np.array([1, 1]))


def test_other_environments_are_refused():
    paper = shield_of(asure.example("paper"))
    with pytest.raises(ModelMismatch, match="the shield is for another environment"):
        ShieldedVectorEnv(SyncVectorEnv([river]), paper, 1)
    with pytest.raises(ModelMismatch, match="the shield is for another environment"):
        ShieldedVectorEnv(ModelVectorEnv(asure.example("paper", damage_probability=0.5), 2), paper, 1)
    lake = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    other = partial(gymnasium.make, "FrozenLake-v1", desc=["SFFF", "FFFF", "FFFF", "FFFG"])
    with pytest.raises(ModelMismatch, match=r"another map\?"):
        ShieldedVectorEnv(SyncVectorEnv([partial(gymnasium.make, "FrozenLake-v1"), other]), shield_of(lake), 0)
    envs = ShieldedVectorEnv(
        AsyncVectorEnv([other]), shield_of(lake), 1
    )  # environments in other processes cannot be compared
    envs.reset(seed=0)
    with pytest.raises(ModelMismatch, match="which the shield's model says is impossible"):
        wander(envs)
    envs.close()


def wander(envs):
    """Random allowed play, long enough to reach a cell that is a hole in the model's map."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        envs.step(np.array([rng.choice(np.flatnonzero(row)) for row in envs.action_masks()]))


def test_an_online_shield_may_wrap_each_environment_of_a_vector():
    mdp = asure.example("hazard-map")
    shield = asure.OnlineShield(mdp, unknown="allow")
    envs = SyncVectorEnv([lambda: ShieldedEnv(river(), shield, 1)] * 3)
    _, infos = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        played = [rng.choice(np.flatnonzero(row)) for row in infos["action_mask"]]
        _, _, _, _, infos = envs.step(np.array(played))
    assert 0 < len(shield.ledger.violations) <= np.count_nonzero(mdp.damage)


def test_or_a_whole_vector():
    """It learns from all environments, and truncates the episode of one with a surprise."""
    mdp = asure.example("hazard-map")
    shield = asure.OnlineShield(mdp, unknown="allow")
    with pytest.raises(ArgumentError, match=r"its autoreset mode is NextStep\. .*AutoresetMode\.DISABLED"):
        ShieldedVectorEnv(SyncVectorEnv([river]), shield, 1)
    inner = SyncVectorEnv(apart(river, 4), autoreset_mode=AutoresetMode.DISABLED)
    envs = ShieldedVectorEnv(inner, shield, 1)
    _, infos = envs.reset(seed=0)
    rng, ended, violations = np.random.default_rng(0), 0, 0
    for _ in range(400):
        masks = envs.action_masks()
        _, _, terminated, truncated, infos = envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
        overspent = infos["remaining"] < 0
        assert not (overspent & ~(terminated | truncated)).any()
        assert np.array_equal(infos.get("violation", np.zeros(4, bool)), overspent)
        over, violations = terminated | truncated, violations + np.count_nonzero(overspent)
        ended += np.count_nonzero(over)
        if over.any():
            envs.reset(options={"reset_mask": over})
    assert 0 < violations == len(shield.ledger.violations) <= np.count_nonzero(mdp.damage)
    assert (shield.ledger.steps, shield.ledger.episodes) == (1600, ended)
    assert envs.ledger is shield.ledger


def test_a_vector_uses_what_its_shield_learned_elsewhere_since_the_last_step():
    shield = asure.OnlineShield("paper", unknown="allow")
    inner = SyncVectorEnv([partial(to_gymnasium, "paper")] * 2, autoreset_mode=AutoresetMode.DISABLED)
    envs = ShieldedVectorEnv(inner, shield, 0)
    envs.reset(seed=0)
    shield.watch("circle", "left", "circle", 1)
    *_, infos = envs.step(np.array([0, 1]))
    assert infos["replaced"].tolist() == [True, False]
    assert infos["executed_action"].tolist() == [1, 1]
    envs.reset(seed=0)
    with pytest.raises(NoSafeAction, match="left is not allowed"):  # after the new mask was shown
        envs.step(np.array([0, 1]))


class HurtsAtReset(gymnasium.Wrapper):
    """Resets do damage, except for the first."""

    resets = 0

    def reset(self, **options):
        self.resets += 1
        state, info = self.env.reset(**options)
        return state, {**info, "damage": int(self.resets > 1)}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_automatic_reset_with_damage_is_refused(mode):
    def make():
        return SyncVectorEnv([lambda: HurtsAtReset(to_gymnasium("paper"))] * 2, autoreset_mode=mode)

    mdp = asure.example("paper")
    for envs in (ShieldedVectorEnv(make(), shield_of(mdp), 1), VectorDamageTracker(make(), lambda *step: 0)):
        envs.reset(seed=0)
        if mode == AutoresetMode.NEXT_STEP:
            envs.step(np.array([1, 1]))
        with pytest.raises(ModelError, match="a reset must do no damage"):
            envs.step(np.array([1, 1]))


def test_float_observations_are_not_rounded_to_states():
    class Blurred(gymnasium.vector.VectorWrapper):
        def reset(self, **options):
            seen, infos = self.env.reset(**options)
            return seen + 0.5, infos

    mdp = asure.example("paper")
    envs = ShieldedVectorEnv(Blurred(SyncVectorEnv([lambda: to_gymnasium(mdp)] * 2)), shield_of(mdp), 1)
    with pytest.raises(ModelError, match=r"0\.5"):
        envs.reset(seed=0)
