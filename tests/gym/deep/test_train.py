"""``train_maskable_ppo``: training never overspends, and the deployed policy is proved."""

import json
import runpy
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

import almostsure as asure
from almostsure.errors import ArgumentError, Infeasible, Interrupted, NoSafeAction, PolicyError, WrongWord
from almostsure.gym import ShieldedEnv, read_ledger, to_gymnasium
from almostsure.gym.deep import Settings, load_agent, train_maskable_ppo
from almostsure.gym.deep.training_env import training_env

QUICK = Settings(n_envs=4, n_steps=16, batch_size=32, n_epochs=1, net_arch=(16,))


def frozen_lake():
    return asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))


def shielded(mdp, budget, **more):
    return ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), budget, **more)


# ---------------------------------------------------------------------- on models


def test_training_never_overspends_and_the_policy_is_proved(agent, shield):
    assert agent.damages.size > 20
    assert agent.damages.max() <= 3
    result = agent.evaluate()
    assert result.overspends == 0
    assert result.damage_distribution.size == 4
    assert result.damage_distribution.sum() == pytest.approx(1)
    for deterministic in (True, False):
        policy = agent.policy(deterministic=deterministic)
        assert shield.is_feasible(policy)
        assert policy.budget == 3
    assert agent.policy(deterministic=True).is_deterministic


def test_by_default_the_better_of_greedy_and_sampled_is_deployed(agent):
    values = [agent.evaluate(deterministic=deterministic).expected_return for deterministic in (True, False)]
    assert agent.evaluate().expected_return == max(values)


def test_the_table_agrees_with_sb3s_predict(agent, hazard, shield):
    """sb3's own predict, with masks, plays the actions of the table."""
    policy = agent.policy(deterministic=True)
    for remaining in range(4):
        states = np.flatnonzero((shield.minimal.of_state <= remaining) & ~hazard.is_terminal())
        left = np.full(states.size, remaining)
        played, _ = agent.ppo.predict(
            agent.observe(states, left), deterministic=True, action_masks=shield.mask(states, left)
        )
        assert [policy.act(s, remaining) for s in states.tolist()] == played.tolist()


def test_it_learns_the_corridor():
    """Entering needs a remaining budget of 3; the alternatives are to enter or to go around."""
    mdp = asure.example("corridor")
    for budget, best in ((2, 9), (3, 13)):
        agent = train_maskable_ppo(mdp, budget, total_timesteps=12_000, seed=3)
        assert agent.evaluate().expected_return == pytest.approx(best)
        assert agent.evaluate().overspends == 0


def test_the_same_seed_gives_the_same_agent(hazard):
    first, second, other = (
        train_maskable_ppo(hazard, 2, total_timesteps=256, seed=seed, settings=QUICK).policy(deterministic=False)
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_training_takes_at_most_total_timesteps(hazard):
    for steps in (2, 3, 70, 300, 1_000):
        agent = train_maskable_ppo(hazard, 3, total_timesteps=steps, seed=0)
        assert 0 < agent.ppo.num_timesteps <= steps or steps == 3


def test_act_and_probabilities(agent, shield, hazard):
    start = hazard.initial_state
    shares = agent.probabilities(start, 0)
    assert shares.sum() == pytest.approx(1)
    assert set(np.flatnonzero(shares)) <= set(shield.allowed(start, 0).tolist())
    assert agent.act("r6c0", 3) == np.argmax(agent.probabilities(start, 3))
    assert agent.act(start, 10**6) == agent.act(start, 3)
    assert agent.act(start, 2, np.random.default_rng(0)) in shield.allowed(start, 2)
    deep = int(np.argmax(shield.minimal.of_state))
    with pytest.raises(NoSafeAction, match="no finite budget suffices there"):
        agent.act(deep, 3)


def test_a_network_that_diverged_is_refused(hazard):
    agent = train_maskable_ppo(hazard, 1, total_timesteps=64, seed=0, settings=QUICK)
    import torch

    with torch.no_grad():
        for parameter in agent.ppo.policy.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises((PolicyError, ValueError), match=r"nan|distribution"):
        agent.policy()


def test_the_training_of_an_agent_can_be_compared(agent):
    training = agent.training
    assert training.policy == agent.policy()
    assert training.ends.size == training.damages.size > 0
    assert (np.diff(training.ends) >= 0).all()
    assert "with a damage of at most 3" in repr(agent)


def test_ctrl_c_keeps_the_agent(hazard):
    def press(local: dict, _: dict) -> bool:
        if local["self"].num_timesteps >= 200:
            raise KeyboardInterrupt
        return True

    with pytest.raises(Interrupted, match=r"training was stopped after .* steps; the agent is kept") as caught:
        train_maskable_ppo(hazard, 3, total_timesteps=10_000_000, seed=0, settings=QUICK, callback=press)
    assert caught.value.kept.evaluate().overspends == 0


def test_every_episode_is_in_the_ledger(hazard, tmp_path):
    settings = Settings(n_envs=16, n_steps=32, max_episode_steps=40)
    agent = train_maskable_ppo(
        hazard, 2, total_timesteps=2_000, seed=0, settings=settings, ledger=tmp_path / "run.jsonl"
    )
    ledger = read_ledger(tmp_path / "run.jsonl")
    assert ledger.episodes == agent.damages.size > 20
    assert (ledger.damage, ledger.worst) == (agent.damages.sum(), agent.damages.max())
    assert not ledger.violations
    first = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])
    assert first["kind"] == "episode"
    assert first["ended"] in ("terminated", "truncated")


def test_options_of_sb3_are_passed_on(hazard, tmp_path):
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    class Counts(BaseCallback):
        calls = 0

        def _on_step(self):
            self.calls += 1
            return True

    counts, seen = Counts(), []
    own = {"activation_fn": torch.nn.ReLU, "net_arch": [8]}
    agent = train_maskable_ppo(
        hazard,
        1,
        total_timesteps=128,
        settings=QUICK,
        policy_kwargs=own,
        callback=[counts, lambda local, _: seen.append(local["dones"])],
    )
    assert counts.calls == len(seen) == 32  # steps of 4 environments
    assert isinstance(agent.ppo.policy.mlp_extractor.policy_net[1], torch.nn.ReLU)
    agent.save(tmp_path / "agent")
    assert load_agent(tmp_path / "agent", hazard, policy_kwargs=own).policy() == agent.policy()
    with pytest.raises(WrongWord, match="has no argument gamma: pass discount="):
        Settings(gamma=0.9)
    with pytest.raises(WrongWord, match="no argument steps: pass total_timesteps="):
        train_maskable_ppo("paper", 1, steps=600)
    with pytest.raises(WrongWord, match=r"no argument learning_rate: pass settings=Settings\(learning_rate=…\)"):
        train_maskable_ppo("corridor", 3, total_timesteps=1, learning_rate=1e-3)
    for word in ("gamma", "discount"):
        with pytest.raises(WrongWord, match=rf"no argument {word}: pass settings=Settings\(discount=…\)"):
            train_maskable_ppo(hazard, 3, **{word: 0.9})


def test_inside_an_online_shield():
    mdp = asure.example("paper")
    env = ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp, unknown="allow"), 2)
    agent = train_maskable_ppo(env, total_timesteps=64, settings=QUICK)
    assert agent.budget == 2
    with pytest.raises(ArgumentError, match="cannot be evaluated exactly"):
        agent.evaluate()


@pytest.mark.parametrize(("arguments", "said"), [
    ({"total_timesteps": 1}, "total_timesteps must be at least 2; got 1"),
    ({"total_timesteps": 2.5}, "total_timesteps must be a whole number"),
    ({"seed": -1}, "seed must be at least 0; got -1"),
    ({"device": "moon"}, "device must be 'auto', 'cpu' or one that torch has here; got 'moon'"),
])  # fmt: skip
def test_refused(hazard, arguments, said):
    with pytest.raises(ArgumentError, match=said):
        train_maskable_ppo(hazard, 3, **{"settings": QUICK, "total_timesteps": 64, **arguments})


def test_a_budget_that_is_too_small():
    with pytest.raises(Infeasible, match=r"a budget of 1 is not enough at the start: .* needs 2"):
        train_maskable_ppo("quicksand", 1, total_timesteps=64)
    with pytest.raises(ArgumentError, match=r"settings must be Settings\(…\); got {'n_envs': 2}"):
        train_maskable_ppo("corridor", 3, settings={"n_envs": 2})
    with pytest.raises(ArgumentError, match="budget must be given with a model"):
        train_maskable_ppo("quicksand", total_timesteps=64)


@pytest.mark.parametrize(("numbers", "said"), [
    ({"n_envs": 0}, "n_envs must be at least 1; got 0"),
    ({"batch_size": 1}, "batch_size must be at least 2"),
    ({"discount": 1.5}, r"discount must lie in \(0, 1\]; got 1.5"),
    ({"ent_coef": (-1, 0)}, "ent_coef must be two finite numbers, 0 or more"),
    ({"ent_coef": 0.01}, "ent_coef must be two numbers, of the first and of the last update; got 0.01"),
    ({"net_arch": 64}, r"net_arch must be a tuple of sizes, such as \(64, 64\); got 64"),
    ({"learning_rate": 0.0}, "learning_rate must be positive"),
    ({"net_arch": (0,)}, "net_arch must be at least 1; got 0"),
    ({"exploring_starts": 1.5}, "exploring_starts must lie in 0 … 1"),
])  # fmt: skip
def test_settings_are_checked(numbers, said):
    with pytest.raises(ArgumentError, match=said):
        Settings(**numbers)


def test_settings_survive_text():
    settings = Settings(net_arch=(7, 9), ent_coef=(1, 0.5))
    assert Settings.from_json(settings.to_json()) == settings


def test_the_example_script(tmp_path, monkeypatch, capsys):
    script = Path(__file__).parents[3] / "examples" / "train_maskable_ppo.py"
    arguments = ["--model", "corridor", "--budget", "2", "--steps", "4000", "--save", str(tmp_path / "agent")]
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert "P(damage > 2)    0\n" in printed
    assert f"saved to {tmp_path / 'agent'}" in printed


# ---------------------------------------------------------------------- as sb3 sees the environments of a model


def test_masks_are_found_as_sb3_contrib_looks_for_them(hazard, shield):
    env = training_env(hazard, 0, QUICK).env
    env.seed(3)
    env.reset()
    assert is_masking_supported(env)
    assert np.array_equal(get_action_masks(env), shield.mask(env.states, env.remaining))
    assert env.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False] * 4
    with pytest.raises(AttributeError, match="no method 'render'"):
        env.env_method("render")
    with pytest.raises(AttributeError, match="cannot be changed"):
        env.set_attr("budget", 9)


def test_sb3_contrib_evaluates_with_masks_on(agent, hazard):
    env = training_env(hazard, 3, Settings(n_envs=16)).env
    returns, lengths = evaluate_policy(
        agent.ppo, env, n_eval_episodes=40, deterministic=False, return_episode_rewards=True
    )
    assert len(returns) == len(lengths) >= 40
    assert max(env.record.damages) <= 3


def test_sb3_code_can_train_on_them(hazard):
    env = training_env(hazard, 2, QUICK).env
    MaskablePPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, device="cpu").learn(128)
    assert max(env.record.damages, default=0) <= 2


def test_an_sb3_algorithm_without_masks_is_stopped(hazard):
    from stable_baselines3 import A2C

    env = training_env(hazard, 0, QUICK).env
    with pytest.raises(NoSafeAction, match="where it is masked out"):
        A2C("MlpPolicy", env, n_steps=16, device="cpu", seed=0).learn(5_000)


# ---------------------------------------------------------------------- on environments


def test_on_a_shielded_environment(hazard):
    agent = train_maskable_ppo(shielded(hazard, 3), total_timesteps=512, settings=QUICK, seed=0)
    assert agent.budget == 3
    assert agent.damages.size
    assert agent.damages.max() <= 3
    result = agent.evaluate()
    assert result.overspends == 0


@pytest.mark.parametrize("observe", ["flat", "dict", "rllib"])
@pytest.mark.parametrize("normalised", [False, True])
def test_the_exact_policy_agrees_with_predict_for_every_form_of_observation(observe, normalised):
    mdp = frozen_lake()
    env = shielded(mdp, 1, observe=observe, normalised=normalised)
    agent = train_maskable_ppo(env, total_timesteps=128, settings=QUICK, seed=1)
    policy = agent.policy(deterministic=True)
    observation, info = env.reset(seed=3)
    for _ in range(30):
        action, _ = agent.ppo.predict(observation, deterministic=True, action_masks=env.action_masks())
        state = int(env.unwrapped._state)
        assert int(action) == policy.act(state, info["remaining"])
        observation, _, terminated, _, info = env.step(int(action))
        if terminated:
            observation, info = env.reset()


def test_a_function_is_called_n_envs_times():
    mdp = frozen_lake()
    made = []

    def make():
        made.append(gymnasium.wrappers.TimeLimit(shielded(mdp, 1), 100))
        return made[-1]

    agent = train_maskable_ppo(make, 1, total_timesteps=256, settings=QUICK)
    assert len(made) == 4
    assert agent.ppo.n_envs == 4
    assert agent.evaluate().overspends == 0


def test_frozen_lake():
    """A real environment with the model of its table, which has an end state that the environment does not show."""
    mdp = frozen_lake()
    env = ShieldedEnv(gymnasium.make("FrozenLake-v1"), asure.Shield(asure.minimal_budget(mdp)), 1)
    agent = train_maskable_ppo(env, total_timesteps=512, settings=QUICK)
    assert agent.damages.max() <= 1
    assert agent.evaluate().overspends == 0


def test_observations_that_are_changed_above_the_shield_have_no_exact_table(hazard):
    env = gymnasium.wrappers.FlattenObservation(shielded(hazard, 3, observe="dict"))
    agent = train_maskable_ppo(env, total_timesteps=64, settings=QUICK)
    with pytest.raises(ArgumentError, match=r"the network's inputs .* must be known.* estimate: .*evaluate_policy"):
        agent.policy()


def test_environments_that_are_refused(hazard):
    with pytest.raises(ArgumentError, match=r"must have a shield; got .* Wrap it: almostsure\.gym\.ShieldedEnv"):
        train_maskable_ppo(to_gymnasium(hazard), total_timesteps=64)
    with pytest.raises(ArgumentError, match="budget must be that of the environment, 3, or left out; got 2"):
        train_maskable_ppo(shielded(hazard, 3), 2, total_timesteps=64)
    with pytest.raises(ArgumentError, match="cannot be reset to any state"):
        train_maskable_ppo(shielded(hazard, 3), total_timesteps=64, settings=Settings(exploring_starts=0.5))
    with pytest.raises(ArgumentError, match="features are for models"):
        train_maskable_ppo(shielded(hazard, 3), total_timesteps=64, features=[[1]])
    with pytest.raises(ArgumentError, match="a ShieldedEnv has a ledger of its own"):
        train_maskable_ppo(shielded(hazard, 3), total_timesteps=64, ledger="x")
    with pytest.raises(ArgumentError, match="a function must return a Gymnasium environment"):
        train_maskable_ppo(lambda: 3, total_timesteps=64)
