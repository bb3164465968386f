"""Logs that Minari recorded: a round trip with a real DataCollector, and wrong datasets."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ModelError, UnknownName
from almostsure.learn import learn_from_logs

from ..alike import same

# Minari warns about missing metadata, and leaves its temporary folders to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`eval_env` is set to None:UserWarning"),
    pytest.mark.filterwarnings("ignore:env_spec is None:UserWarning"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),
]

ABOUT = {
    "algorithm_name": "random", "author": "a test", "author_email": "test@example.org", "code_permalink": "none",
    "description": "random play",
}  # fmt: skip


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Records random play; returns the dataset, loaded anew, and the same steps as a table."""
    minari = pytest.importorskip("minari")
    pytest.importorskip("jax")  # what DataCollector needs
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))

    def record(env, episodes, key, *, encode=int, **options):
        collector = minari.DataCollector(env, record_infos=True, **options)
        rng, rows = np.random.default_rng(1), []
        for episode in range(episodes):
            state, info = collector.reset(seed=episode)
            over, step = False, 0
            while not over:
                mask = info.get("action_mask", np.ones(env.action_space.n))
                action = int(rng.choice(np.flatnonzero(mask)))
                after, reward, terminated, truncated, info = collector.step(action)
                row = (encode(state), action, encode(after), reward, info[key], terminated)
                rows.append((episode, step, *row))
                state, over, step = after, terminated or truncated, step + 1
        collector.create_dataset("test-v0", **ABOUT)
        collector.close()
        names = ("episode", "step", "state", "action", "next_state", "reward", "damage", "terminated")
        return minari.load_dataset("test-v0"), dict(zip(names, zip(*rows, strict=True), strict=True))

    return record


class Slippery(gymnasium.Wrapper):
    """FrozenLake whose holes cost 1."""

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        return observation, {**info, "cost": 0.0}

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "cost": float(terminated and reward == 0)}


class Box(gymnasium.ObservationWrapper):
    """States as pairs of floating-point numbers in a mapping."""

    observation_space = gymnasium.spaces.Dict({"place": gymnasium.spaces.Box(-10, 100, (2,))})

    def observation(self, observation):
        return {"place": np.array([observation // 4, observation % 4], np.float32)}


def lake(**options):
    return Slippery(gymnasium.make("FrozenLake-v1", max_episode_steps=30, **options))


def test_a_round_trip_with_our_environment(recorded):
    mdp = asure.example("quicksand")
    dataset, table = recorded(asure.to_gymnasium(mdp, max_episode_steps=25), 40, "damage")
    assert sum(table["damage"]) > 0
    options = {"mu": 0.1, "delta": 0.1}
    learned = learn_from_logs(dataset, **options)
    assert same(learned, learn_from_logs(table, num_states=mdp.num_states, actions=mdp.num_actions, **options))
    assert learned.samples == dataset.total_steps == len(table["step"])
    assert "shows all" not in learned.statement  # its spaces have the numbers of states and actions
    some = learn_from_logs(list(dataset.iterate_episodes([0, 1])), **options)
    assert some.samples == sum(episode < 2 for episode in table["episode"])


def test_a_round_trip_with_frozen_lake(recorded):
    dataset, table = recorded(lake(), 60, "cost")
    learned = learn_from_logs(dataset, mu=0.3, delta=0.1, max_damage=1)
    assert same(learned, learn_from_logs(table, mu=0.3, delta=0.1, num_states=16, actions=4, max_damage=1))
    assert learned.counts.space.end == 16
    assert learned.counts.damage.max() == 1
    truth = asure.minimal_budget(asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, end: int(end and r == 0)))
    optimistic = learn_from_logs(dataset, mu=0.3, delta=0.1, unknown="allow").minimal
    assert optimistic.of_state[0] <= truth.of_state[0]
    with pytest.raises(UnknownName, match=r"unknown key of infos 'costs'. Did you mean 'cost'"):
        learn_from_logs(dataset, mu=0.3, delta=0.1, columns={"damage": "costs"})
    with pytest.raises(UnknownName, match="For a dataset, only the damage can be named"):
        learn_from_logs(dataset, mu=0.3, delta=0.1, columns={"state": "s"})
    with pytest.raises(
        ModelError, match=r"must be 0 before the first step; infos\['prob'\] of episode 0 has 1.0 there"
    ):
        learn_from_logs(dataset, mu=0.3, delta=0.1, columns={"damage": "prob"})


def test_encoded_observations(recorded):
    def encode(observation):
        return int(observation["place"][0] * 4 + observation["place"][1])

    dataset, table = recorded(Box(lake()), 20, "cost", encode=encode)
    learned = learn_from_logs(dataset, mu=0.3, delta=0.1, encode=encode, num_states=16)
    assert same(learned, learn_from_logs(table, mu=0.3, delta=0.1, num_states=16, actions=4))
    assert "the abstraction that encode makes" in learned.statement
    with pytest.raises(ModelError, match=r"observations must be integers; those of episode 0 are not. Pass encode="):
        learn_from_logs(dataset, mu=0.3, delta=0.1)
    with pytest.raises(ModelError, match="encode failed for the observation of step 0 of episode 0: KeyError"):
        learn_from_logs(dataset, mu=0.3, delta=0.1, encode=lambda observation: observation["spot"])


# ---------------------------------------------------------------------- episodes that are wrong


def episode(**changes):
    parts = {
        "id": 3, "observations": np.array([0, 1, 2]), "actions": np.array([0, 1]), "rewards": np.zeros(2),
        "terminations": np.array([False, True]), "truncations": np.array([False, False]),
        "infos": {"cost": np.array([0, 1, 0]), "deep": {"harm": np.array([0, 0, 4])}},
    }  # fmt: skip
    return SimpleNamespace(**parts | changes)


def learn(**changes):
    columns = changes.pop("columns", None)
    return learn_from_logs([episode(**changes)], mu=0.1, delta=0.1, columns=columns)


def test_episodes_must_have_the_same_infos():
    both = {"cost": np.array([0, 1, 0]), "cumulative_cost": np.array([0, 1, 1])}
    for infos in ([{"cost": both["cost"]}, both], [both, {"cost": both["cost"]}]):
        episodes = [episode(id=number, infos=one) for number, one in enumerate(infos)]
        with pytest.raises(ModelError, match="the same infos about damage; those of episode 1 differ"):
            learn_from_logs(episodes, mu=0.1, delta=0.1)


def test_the_damage_of_a_step_is_in_the_info_after_it():
    assert learn().counts.damage.tolist() == [1, 0]
    assert learn(columns={"damage": "deep/harm"}).counts.damage.tolist() == [0, 4]
    assert learn(infos={"cost": np.array([1, 0])}).counts.damage.tolist() == [1, 0]  # without one for the reset
    assert learn(infos={"cumulative_cost": np.array([0, 2, 3])}).counts.damage.tolist() == [2, 1]
    assert learn(infos={"cost": np.array([np.nan, 2, 1])}).counts.damage.tolist() == [2, 1]


def test_bad_episodes():
    with pytest.raises(UnknownName, match=r"unknown key of infos 'damage'. Did you mean 'damages'"):
        learn(infos={"damages": np.zeros(3)})
    with pytest.raises(UnknownName, match="none; record them with record_infos=True"):
        learn(infos={})
    with pytest.raises(ModelError, match="'damage' and 'cost' could both be the damage, and they differ"):
        learn(infos={"damage": np.zeros(3), "cost": np.array([0, 0, 1])})
    assert learn(infos={"damage": np.zeros(3), "cost": np.zeros(3)}).samples == 2  # as DamageTracker writes it
    with pytest.raises(ModelError, match=r"episode 3 has 2 steps and infos of shape \[4\]"):
        learn(infos={"cost": np.zeros(4)})
    with pytest.raises(ModelError, match=r"damage must be 0 before the first step; infos\['cost'\] of episode 3"):
        learn(infos={"cost": np.array([1, 0, 0])})
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got 0.5 at step 1 of episode 3"):
        learn(infos={"cost": np.array([0, 0, 0.5])})
    with pytest.raises(ModelError, match="must have one observation more than steps; got 2 and 2"):
        learn(observations=np.array([0, 1]))
    with pytest.raises(ModelError, match="actions must be integers; those of episode 3 are of float64"):
        learn(actions=np.array([0.5, 1.0]))
    with pytest.raises(ModelError, match="nothing must follow a row that is flagged terminated; step 1 of episode 3"):
        learn(terminations=np.array([True, True]))
    with pytest.raises(ModelError, match="the rows of an episode must be consecutive; step 0 of episode 3"):
        learn_from_logs([episode(), episode(id=4), episode()], mu=0.1, delta=0.1)
