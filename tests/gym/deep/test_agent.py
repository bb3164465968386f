"""Files of deep agents: saved, loaded, and refused if damaged."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import almostsure as asure
from almostsure.errors import ArgumentError, CorruptFile, FileError, ModelMismatch
from almostsure.files import checksum
from almostsure.gym import ShieldedEnv, to_gymnasium
from almostsure.gym.deep import Settings, load_agent, train_maskable_ppo


@pytest.fixture
def file(agent, tmp_path):
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    return path


def changed(path, *, arrays=None, drop=(), **strings):
    """The same file with some of its contents changed."""
    with safe_open(path, framework="np") as content:
        tensors = {name: content.get_tensor(name) for name in content.keys()} | (arrays or {})  # noqa: SIM118
        header = content.metadata() | strings
    kept = {name: array for name, array in tensors.items() if name not in drop}
    save_file(kept, path, header | {"sha256": checksum(kept, header)})  # with a valid checksum
    return path


def test_save_then_load_is_the_same_policy(agent, file, hazard):
    again = load_agent(file, hazard)
    for deterministic in (True, False, None):
        assert again.policy(deterministic=deterministic) == agent.policy(deterministic=deterministic)
    assert (again.budget, again.settings) == (agent.budget, agent.settings)
    assert again.evaluate().overspends == 0
    for name in ("ends", "returns", "damages"):
        np.testing.assert_array_equal(getattr(again, name), getattr(agent, name))
    assert agent.ends.size > 1
    assert repr(again) == repr(agent)


def test_the_training_episodes_are_saved(agent, file, hazard):
    episodes = {f"training.{name}": getattr(agent, name) for name in ("ends", "returns", "damages")}
    with pytest.raises(CorruptFile, match=r"does not hold an agent for this source: 'training\.ends'"):
        load_agent(changed(file, drop=episodes), hazard)
    silent = load_agent(changed(file, arrays={name: values[:0] for name, values in episodes.items()}), hazard)
    assert repr(silent).endswith("no completed training episodes>")
    one = load_agent(changed(file, arrays={name: values[:1] for name, values in episodes.items()}), hazard)
    assert f"trained on 1 episode, with a damage of at most {agent.damages[0]}>" in repr(one)
    with pytest.raises(CorruptFile, match="the same number of ends, returns and damages"):
        load_agent(changed(file, arrays={"training.ends": agent.ends}), hazard)
    with pytest.raises(CorruptFile, match="must be one-dimensional arrays of numbers"):
        load_agent(changed(file, arrays={"training.damages": agent.damages[:1].astype(float)}), hazard)


def test_no_pickle_in_it(file):
    assert b"pickle" not in file.read_bytes()
    assert file.read_bytes()[8:9] == b"{"


def test_custom_features_are_saved(hazard, tmp_path):
    own = np.random.default_rng(0).normal(size=(hazard.num_states, 5))
    quick = Settings(n_envs=4, n_steps=16, batch_size=32, n_epochs=1, net_arch=())
    agent = train_maskable_ppo(hazard, 1, total_timesteps=64, features=own, settings=quick)
    agent.save(tmp_path / "own")
    assert load_agent(tmp_path / "own", hazard).policy() == agent.policy()


def test_an_agent_of_an_environment(hazard, tmp_path):
    def make():
        return ShieldedEnv(to_gymnasium(hazard), asure.Shield(asure.minimal_budget(hazard)), 2)

    quick = Settings(n_envs=4, n_steps=16, batch_size=32, n_epochs=1, net_arch=(8,))
    agent = train_maskable_ppo(make(), total_timesteps=64, settings=quick)
    agent.save(tmp_path / "agent")
    assert load_agent(tmp_path / "agent", make()).policy() == agent.policy()
    assert load_agent(tmp_path / "agent", make).policy() == agent.policy()
    with pytest.raises(CorruptFile, match="this source: it was trained in an environment; pass that"):
        load_agent(tmp_path / "agent", hazard)
    train_maskable_ppo(hazard, 2, total_timesteps=64, settings=quick).save(tmp_path / "other")
    with pytest.raises(CorruptFile, match="this source: it was trained on a model; pass that"):
        load_agent(tmp_path / "other", make)


def test_another_network(hazard, tmp_path):
    quick = Settings(n_envs=4, n_steps=16, batch_size=32, n_epochs=1)
    agent = train_maskable_ppo(hazard, 2, total_timesteps=64, settings=quick, policy_kwargs={"net_arch": [8, 8]})
    agent.save(tmp_path / "agent")
    with pytest.raises(CorruptFile, match=r"this source: size mismatch for .*\. Pass the model or environment of the"):
        load_agent(tmp_path / "agent", hazard)


def test_another_model(file):
    with pytest.raises(ModelMismatch, match=r"the deep agent in .* belongs to another model"):
        load_agent(file, "quicksand")


def test_an_agent_inside_an_online_shield_belongs_to_no_model(agent, tmp_path):
    import dataclasses

    online = asure.OnlineShield(agent.shield.mdp)
    with pytest.raises(ArgumentError, match="must have been trained inside a Shield"):
        dataclasses.replace(agent, shield=online).save(tmp_path / "x")
    with pytest.raises(ArgumentError, match="cannot be evaluated exactly"):
        dataclasses.replace(agent, shield=online).evaluate()


@pytest.mark.parametrize(("strings", "said"), [
    ({"settings": "{"}, "does not hold an agent"),
    ({"settings": "[]"}, "does not hold an agent"),
    ({"budget": "many"}, "does not hold an agent"),
    ({"budget": "-1"}, "budget must be at least 0"),
    ({"budget": "30"}, "does not hold an agent"),
    ({"settings": Settings(net_arch=(64, 63)).to_json()}, "does not hold an agent"),
    ({"settings": Settings(net_arch=(10**9,)).to_json()}, "need much more memory than its arrays"),
    ({"settings": Settings(n_envs=10**6, n_steps=10**6).to_json()}, "need much more memory than its arrays"),
    ({"format": "almostsure policy"}, "is not a deep agent file"),
])  # fmt: skip
def test_inconsistent_files(file, hazard, strings, said):
    with pytest.raises(CorruptFile, match=said):
        load_agent(changed(file, **strings), hazard)


def test_damaged_files(file, hazard, tmp_path):
    with pytest.raises(CorruptFile, match="a parameter is not finite"):
        load_agent(changed(file, arrays={"action_net.bias": np.full(4, np.nan, np.float32)}), hazard)
    with pytest.raises(CorruptFile, match="Missing key"):
        load_agent(changed(file, drop=["action_net.bias"]), hazard)
    with pytest.raises(CorruptFile, match="does not hold an agent"):
        load_agent(changed(file, arrays={"features": np.zeros((3, 3), np.float32)}), hazard)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CorruptFile, match="damaged"):
        load_agent(file, hazard)
    with pytest.raises(FileError, match="cannot read"):
        load_agent(tmp_path / "nothing", hazard)
