"""The real libraries: Gymnasium's and Stable-Baselines3's checkers, sb3-contrib's masks, Minari, TensorBoard."""

import json
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics, TimeLimit

import almostsure as asure
from almostsure.errors import CorruptFile, FileError, MissingExtra, NoSafeAction
from almostsure.gym import Ledger, ShieldedEnv, TensorBoardSink, environment_names, read_ledger, ready, to_gymnasium

BUDGET = 2
WRAPPED = pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")


def shielded(name="almostsure/HazardMap-v0", budget=BUDGET, **options):
    env = gymnasium.make(name, max_episode_steps=60)
    mdp = env.unwrapped.mdp
    return ShieldedEnv(env, asure.Shield(asure.minimal_budget(mdp)), budget, **options)


# ---------------------------------------------------------------------- checkers


@WRAPPED
@pytest.mark.parametrize("observe", ["flat", "dict", "rllib"])
@pytest.mark.filterwarnings("ignore:.*Not able to test alternative render modes.*:UserWarning")
def test_gymnasium_checks_a_shielded_environment(observe):
    """The checker samples actions without masks, so forbidden ones are replaced."""
    gymnasium_check(shielded(observe=observe, forbidden="replace"), skip_render_check=True)


@pytest.mark.parametrize("name", environment_names())
def test_stable_baselines_checks_every_environment(name):
    check_env = pytest.importorskip("stable_baselines3.common.env_checker").check_env
    options = {"size": 12} if "Archipelago" in name else {}
    env = gymnasium.make(name, **options)
    mdp = env.unwrapped.mdp
    shield = asure.Shield(asure.minimal_budget(mdp))
    with warnings.catch_warnings(action="error"):
        check_env(env)
        check_env(ShieldedEnv(env, shield, shield.minimal.smallest_budget() + 1, forbidden="replace"))
        check_env(ShieldedEnv(env, shield, 9, forbidden="replace", observe="dict"))


# ---------------------------------------------------------------------- masks through stacks of wrappers


def stacked(**options):
    return RecordEpisodeStatistics(TimeLimit(shielded(**options), 40))


def monitored(**options):
    from stable_baselines3.common.monitor import Monitor

    return Monitor(stacked(**options))


@pytest.mark.parametrize("kind", ["single", "dummy", "subprocess"])
def test_masks_are_found_through_any_stack(kind):
    masking = pytest.importorskip("sb3_contrib.common.maskable.utils")
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor

    if kind == "single":
        env = monitored()
        env.reset(seed=0)
        assert masking.is_masking_supported(env)
        assert masking.get_action_masks(env).shape == (4,)
        return
    copies = [stacked, stacked]
    env = VecMonitor(DummyVecEnv(copies) if kind == "dummy" else SubprocVecEnv(copies, start_method="fork"))
    env.seed(0)
    env.reset()
    assert masking.is_masking_supported(env)
    rng, left = np.random.default_rng(0), np.full(2, BUDGET)
    ended = 0
    for _ in range(150):
        masks = masking.get_action_masks(env)
        assert masks.shape == (2, 4)
        assert masks.any(axis=1).all()
        seen, _, dones, infos = env.step(np.array([rng.choice(np.flatnonzero(row)) for row in masks]))
        for i in range(2):
            left[i] -= infos[i]["damage"]
            assert infos[i]["remaining"] == left[i] >= 0
            if dones[i]:  # the observation is the next episode's first one
                assert infos[i]["terminal_observation"][1] == left[i]
                left[i], ended = BUDGET, ended + 1
        assert np.array_equal(seen[:, 1], left)
    assert ended > 3
    env.close()


def test_evaluation_keeps_the_masks_on():
    MaskablePPO = pytest.importorskip("sb3_contrib").MaskablePPO
    import torch
    from sb3_contrib.common.maskable.evaluation import evaluate_policy

    torch.set_num_threads(1)
    env = monitored()
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu").learn(128)
    test = monitored()
    evaluate_policy(model, test, n_eval_episodes=5, deterministic=False)
    for ledger in (env.get_wrapper_attr("ledger"), test.get_wrapper_attr("ledger")):
        assert ledger.episodes >= 3
        assert ledger.worst <= BUDGET
        assert not ledger.violations
        assert not ledger.interventions


@pytest.mark.parametrize("kind", ["dummy", "subprocess"])
def test_plain_stable_baselines_trains_on_it(kind):
    """MaskablePPO, its evaluation callback, normalised observations and rewards, with only our wrapper."""
    MaskablePPO = pytest.importorskip("sb3_contrib").MaskablePPO
    import torch
    from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

    torch.set_num_threads(1)

    def normalised():
        return monitored(normalised=True)

    makers = [normalised, normalised]
    train = VecNormalize(DummyVecEnv(makers) if kind == "dummy" else SubprocVecEnv(makers, start_method="fork"))
    test = VecNormalize(DummyVecEnv([normalised]), training=False)
    callback = MaskableEvalCallback(test, n_eval_episodes=2, eval_freq=64, verbose=0)
    model = MaskablePPO("MlpPolicy", train, n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(256, callback=callback)
    assert callback.n_calls == 128
    assert np.isfinite(callback.last_mean_reward)
    for ledger in [*train.get_attr("ledger"), *test.get_attr("ledger")]:
        assert ledger.worst <= BUDGET
        assert (ledger.violations, ledger.interventions) == ([], 0)
    assert sum(ledger.episodes for ledger in test.get_attr("ledger")) >= 2
    train.close()


def test_plain_ppo_without_masks_is_stopped():
    """It plays a forbidden action sooner or later, which must raise."""
    PPO = pytest.importorskip("stable_baselines3").PPO
    model = PPO("MlpPolicy", shielded(budget=1), n_steps=64, batch_size=64, n_epochs=1, seed=0, device="cpu")
    with pytest.raises(NoSafeAction, match="is not allowed"):
        model.learn(4_000)


def test_flattened_observations_train_too():
    env = FlattenObservation(shielded(observe="dict"))
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    assert env.get_wrapper_attr("action_masks")().any()


# ---------------------------------------------------------------------- recording


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_runs_recorded_by_minari_can_be_learned_from(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(shielded("almostsure/HazardMap-v0"), record_infos=True)
    rng, damages = np.random.default_rng(0), []
    for episode in range(3):
        env.reset(seed=episode)
        over, damage = False, 0
        while not over:
            mask = env.get_wrapper_attr("action_masks")()
            *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
            damage, over = damage + info["damage"], terminated or truncated
        damages.append(damage)
    name = "almostsure/hazard-map/shielded-v0"
    env.create_dataset(name, algorithm_name="random", author="tests", author_email="", code_permalink="")
    env.close()
    shield = asure.Shield(asure.minimal_budget(asure.example("hazard-map")))
    episodes = list(minari.load_dataset(name).iterate_episodes())
    assert [int(episode.infos["damage"].sum()) for episode in episodes] == damages
    for episode in episodes:
        states, left = episode.observations[:-1].T
        allowed = shield.mask(states, left)
        assert allowed[np.arange(len(states)), episode.actions].all()
        assert (episode.infos["remaining"] >= 0).all()


# ---------------------------------------------------------------------- ledgers


def test_a_ledger_is_written_and_read_back(tmp_path):
    path = tmp_path / "runs" / "one.jsonl"
    env = ready("CliffWalking-v1").shielded(2, forbidden="replace", ledger=path)
    env = TimeLimit(env, 20)
    rng = np.random.default_rng(0)
    for _ in range(3):
        env.reset(seed=0)
        over = False
        while not over:
            *_, terminated, truncated, _ = env.step(int(rng.integers(4)))
            over = terminated or truncated
    env.reset()  # ends the third for its shield, which does not see the time limit
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["kind"], line["number"], line["budget"], line["ended"]) for line in lines] == [
        ("episode", 1, 2, "reset"), ("episode", 2, 2, "reset"), ("episode", 3, 2, "reset"),
    ]  # fmt: skip
    assert {"steps", "reward", "damage", "interventions", "time", "process"} <= set(lines[0])
    mine, again = env.get_wrapper_attr("ledger"), read_ledger(path)
    for name in ("steps", "episodes", "damage", "worst", "interventions", "violations"):
        assert getattr(mine, name) == getattr(again, name)
    assert str(again) == str(mine)
    assert mine.worst <= 2


def test_a_ledger_records_violations_and_surprises(tmp_path):
    mdp = asure.example("paper")
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = ShieldedEnv(to_gymnasium(mdp), shield, 0, ledger=tmp_path / "ledger.jsonl")
    env.reset(seed=0)
    *_, truncated, info = env.step(0)
    assert truncated
    assert info["violation"]
    assert [json.loads(line)["kind"] for line in (tmp_path / "ledger.jsonl").read_text().splitlines()] == [
        "surprise", "violation", "episode",
    ]  # fmt: skip
    again = read_ledger(tmp_path / "ledger.jsonl")
    assert (again.violations, again.surprises) == (shield.ledger.violations, shield.ledger.surprises)


def test_processes_share_a_ledger_file(tmp_path):
    from gymnasium.vector import AsyncVectorEnv

    path = tmp_path / "shared.jsonl"
    envs = AsyncVectorEnv([lambda: shielded("almostsure/Paper-v0", ledger=path)] * 2)
    envs.reset(seed=0)
    for _ in range(12):
        envs.step(np.array([1, 1]))
    envs.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 12
    assert len({line["process"] for line in lines}) == 2


def test_bad_ledgers_are_refused(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"kind": "episode"}\n')
    with pytest.raises(CorruptFile, match="is damaged or not a ledger: line 1"):
        read_ledger(tmp_path / "bad.jsonl")
    with pytest.raises(FileError, match="cannot read the ledger"):
        read_ledger(tmp_path / "nothing.jsonl")
    (tmp_path / "file").write_text("")
    env = shielded("almostsure/Paper-v0", ledger=tmp_path / "file" / "ledger.jsonl")
    env.reset(seed=0)
    with pytest.raises(FileError, match="cannot append to the ledger"):
        env.step(1)
    with pytest.raises(asure.AlmostSureError, match="ledger must be a Ledger or the path of a file"):
        shielded(ledger=3)
    online = asure.OnlineShield("paper", unknown="allow")
    with pytest.raises(asure.AlmostSureError, match="must be the OnlineShield's own Ledger, a path or None"):
        ShieldedEnv(to_gymnasium("paper"), online, 1, ledger=Ledger())


def test_tensorboard_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[deep\]'"):
        TensorBoardSink(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_ledger_is_written_to_tensorboard(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    ledger = Ledger()
    sink = TensorBoardSink(tmp_path)
    ledger.sinks.append(sink)
    env = shielded("almostsure/Paper-v0", forbidden="replace", ledger=ledger)
    for _ in range(3):
        env.reset(seed=0)
        while not env.step(0)[2]:
            pass
    sink.close()
    events = accumulator.EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})
    events.Reload()
    assert {"almostsure/damage", "almostsure/violations", "almostsure/interventions", "almostsure/return"} <= set(
        events.Tags()["tensors"]
    )
    damages = [float(event.tensor_proto.float_val[0]) for event in events.Tensors("almostsure/damage")]
    assert damages == [BUDGET] * 3
