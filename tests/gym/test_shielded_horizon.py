"""Shields for a number of steps and with a stated risk, around environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

import almostsure as asure
from almostsure import RiskShield, from_transitions, minimal_budget
from almostsure.errors import ArgumentError, ModelError
from almostsure.gym import ModelVectorEnv, ShieldedEnv, ShieldedVectorEnv, to_gymnasium
from almostsure.learn import read_ledger
from almostsure.shield import HorizonShield


@pytest.fixture
def pit():
    """Damage can be avoided in every second step; without a horizon no finite budget suffices."""
    rows = [(0, 0, 1, 1, 1, 1), (0, 1, 0, 1, 0, 1), (1, 0, 0, 1, 0, 0), (1, 1, 1, 1, 2, 2)]
    return from_transitions(*zip(*rows, strict=True))


def guards(mdp, steps):
    yield HorizonShield(minimal_budget(mdp, horizon=steps)), 5
    yield RiskShield(mdp, 2, 1.0, horizon=steps), 2


def play(envs, steps, seed=0):
    rng = np.random.default_rng(seed)
    envs.reset(seed=seed)
    for _ in range(steps):
        masks = envs.action_masks()
        yield envs.step(np.array([rng.choice(np.flatnonzero(row)) for row in masks]))


def test_the_limit_of_the_environment_is_the_horizon(pit):
    for shield, budget in guards(pit, 50):
        for env in (to_gymnasium(pit, max_episode_steps=8), TimeLimit(to_gymnasium(pit), 8)):
            shielded = ShieldedEnv(env, shield, budget)
            _, info = shielded.reset(seed=0)
            assert info["steps_left"] == 8
            for step in range(1, 9):
                *_, truncated, info = shielded.step(int(np.flatnonzero(shielded.action_masks())[0]))
                assert truncated == (step == 8)
                assert info["steps_left"] == 8 - step
        short = ShieldedEnv(to_gymnasium(pit, max_episode_steps=80), shield.within(3), budget)
        short.reset(seed=0)
        ends = [short.step(int(np.flatnonzero(short.action_masks())[0]))[3] for _ in range(3)]
        assert ends == [False, False, True]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_vectors_that_reset_themselves_restart_the_horizon(pit, mode):
    for shield, budget in guards(pit, 10):
        envs = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(pit, max_episode_steps=4)] * 3, autoreset_mode=mode)
        shielded = ShieldedVectorEnv(envs, shield, budget)
        seen = []
        for observations, *_, truncated, infos in play(shielded, 14):
            seen.append((infos["steps_left"][0], bool(truncated[0])))
            if isinstance(shield, HorizonShield):
                assert (infos["remaining"] >= 0).all()
                assert observations.shape == (3, 3)
        if mode == AutoresetMode.NEXT_STEP:
            assert seen[:5] == [(3, False), (2, False), (1, False), (0, True), (4, False)]
        else:
            assert seen[:5] == [(3, False), (2, False), (1, False), (4, True), (3, False)]


def test_model_vectors_and_vectors_that_users_reset(pit):
    shield = HorizonShield(minimal_budget(pit, horizon=4))
    shielded = ShieldedVectorEnv(ModelVectorEnv(pit, 5, max_episode_steps=4), shield, 2)
    assert sum(int(truncated.sum()) for _, _, _, truncated, _ in play(shielded, 20)) >= 15
    free = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(pit)] * 2, autoreset_mode=AutoresetMode.DISABLED)
    shielded = ShieldedVectorEnv(free, shield, 2)
    for step, (*_, truncated, infos) in enumerate(play(shielded, 4), 1):
        assert truncated.tolist() == [step == 4] * 2
        assert infos["steps_left"].tolist() == [4 - step] * 2


def test_vectors_with_episodes_beyond_the_horizon_are_refused(pit):
    shield = HorizonShield(minimal_budget(pit, horizon=4))
    with pytest.raises(ArgumentError, match="must end their episodes within the shield's horizon of 4 steps"):
        ShieldedVectorEnv(ModelVectorEnv(pit, 2), shield, 2)
    with pytest.raises(ArgumentError, match="its limit is 9"):
        ShieldedVectorEnv(ModelVectorEnv(pit, 2, max_episode_steps=9), shield, 2)
    late = ModelVectorEnv(pit, 2, max_episode_steps=4)
    shielded = ShieldedVectorEnv(late, shield, 2)
    late.max_episode_steps = 9
    with pytest.raises(ModelError, match="must have ended its episode: no step of the horizon is left"):
        list(play(shielded, 4))


def test_risk_shields_guard_vectors():
    mdp = asure.example("hazard-map")
    shield = RiskShield(mdp, 1, 0.2)
    shielded = ShieldedVectorEnv(ModelVectorEnv(mdp, 6, max_episode_steps=30), shield, 1, observe="dict")
    for observations, *_, infos in play(shielded, 60):
        assert ((infos["risk"] >= 0) & (infos["risk"] <= 1)).all()
        np.testing.assert_allclose(observations["risk"][:, 0], infos["risk"], atol=1e-6)


def test_the_ledger_has_the_stated_risk(tmp_path):
    mdp = asure.example("hazard-map")
    env = ShieldedEnv(to_gymnasium(mdp), RiskShield(mdp, 2, 0.5), 2, ledger=tmp_path / "run.jsonl")
    for seed in range(8):
        _, info = env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(300):
            _, _, ended, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            if ended:
                break
    env.reset()
    overspent = len(env.ledger.violations)
    assert overspent > 0
    said = f"a risk of 50 % per episode was stated: of 8, 4 may overspend on average, and {overspent} did"
    assert said in str(env.ledger)
    assert said in str(read_ledger(tmp_path / "run.jsonl"))
    certain = ShieldedEnv(to_gymnasium(mdp), asure.Shield(minimal_budget(mdp)), 2)
    certain.reset(seed=0)
    assert "was stated" not in str(certain.ledger)
