"""A shield that was learned from an environment, or from a log of it, fits that environment without changes."""

from functools import cache

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import LimitReached, ModelError, UnknownName
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv, ready
from almostsure.learn import EnvSampler
from almostsure.learn.learners import ShieldedQ
from almostsure.model import known_damage

TOYS = {
    "FrozenLake-v1": ({}, 0.3),
    "CliffWalking-v1": ({"is_slippery": True}, 0.3),
    "Taxi-v4": ({}, 0.5),
}


class Buggy(gymnasium.Env):
    """A buggy on five fields; the last one is home, the middle one sometimes does damage.  It shows a dictionary."""

    observation_space = gymnasium.spaces.Dict(
        {"field": gymnasium.spaces.Box(0, 4, (1,)), "light": gymnasium.spaces.Discrete(2)}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.at = 0

    def observe(self):
        return {"field": np.array([self.at], np.float32), "light": int(self.at == 2)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(2))
        return self.observe(), {}

    def step(self, action):
        jumps = action == 1 and self.np_random.random() < 0.5
        self.at = min(self.at + 1 + jumps, 4)
        hurt = int(self.at == 2 and self.np_random.random() < 0.5)
        return self.observe(), -1.0 - hurt, self.at == 4, False, {}


def put(env, state):
    env.unwrapped.at = state
    return env.unwrapped.observe()


def encode(observation):
    return int(observation["field"][0])


def buggy_damage(s, a, s2, r, terminated):
    assert set(s) == set(s2) == {"field", "light"}  # observations, everywhere
    return r == -2  # True is damage 1


def make(name):
    if name == "buggy":
        return DamageTracker(Buggy(), buggy_damage)
    return gymnasium.make(name, max_episode_steps=60, **TOYS[name][0])


def play(env, episodes, budget):
    """Random play within the masks; returns the number of steps."""
    rng, steps = np.random.default_rng(1), 0
    for episode in range(episodes):
        _, info = env.reset(seed=episode)
        spent, over = 0, False
        while not over:
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            _, _, terminated, truncated, info = env.step(action)
            spent, over, steps = spent + info["damage"], terminated or truncated, steps + 1
        assert spent <= budget
    return steps


def play_many(make, shield, budget):
    """Play in a vector of two environments, always the first allowed action."""
    envs = ShieldedVectorEnv(gymnasium.vector.SyncVectorEnv([make] * 2), shield, budget)
    envs.reset(seed=0)
    for _ in range(40):
        infos = envs.step(envs.action_masks().argmax(axis=1))[-1]
        assert (infos["remaining"] >= 0).all()


@cache
def learned_from(name):
    """The budget learned by sampling a toy environment or the buggy."""
    if name == "buggy":
        return asure.learn_minimal_budget(buggy_sampler(), mu=0.2, delta=0.05, budget=1, seed=1)
    return asure.learn_minimal_budget(make(name), mu=TOYS[name][1], delta=0.05, budget=1, seed=1)


@cache
def logged_from(name):
    """The budget learned from a log of random play."""
    if name == "buggy":
        return asure.learn_from_logs(log_of(make("buggy"), 3_000), mu=0.2, delta=0.05, encode=encode, actions=2)
    env = DamageTracker(make(name), known_damage(make(name)))
    return asure.learn_from_logs(log_of(env, 40_000), mu=TOYS[name][1], delta=0.05, num_states=16, actions=4)


def train(make, shield, num_envs):
    """A few hundred steps of MaskablePPO in one environment, or in several at once; none overspends a budget of 1."""
    contrib = pytest.importorskip("sb3_contrib")
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")
    safe = [ShieldedEnv(make(), shield, budget=1) for _ in range(num_envs)]
    env = safe[0] if num_envs == 1 else vectors.DummyVecEnv([lambda one=one: one for one in safe])
    kind = "MultiInputPolicy" if isinstance(safe[0].observation_space, gymnasium.spaces.Dict) else "MlpPolicy"
    small = {"n_steps": 96 // num_envs, "batch_size": 96, "n_epochs": 1, "policy_kwargs": {"net_arch": [16]}}
    contrib.MaskablePPO(kind, env, seed=0, device="cpu", **small).learn(192)
    for one in safe:
        assert one.ledger.worst <= 1
    assert sum(one.ledger.episodes for one in safe) > 2


def log_of(env, steps):
    """Random play as a table."""
    rng, rows, episode = np.random.default_rng(1), [], 0
    while len(rows) < steps:
        state, _ = env.reset(seed=episode)
        over, step = False, 0
        while not over:
            action = int(rng.integers(env.action_space.n))
            after, reward, terminated, truncated, info = env.step(action)
            rows.append((episode, step, state, action, after, reward, info["damage"], terminated))
            state, over, step = after, terminated or truncated, step + 1
        episode += 1
    names = ("episode", "step", "state", "action", "next_state", "reward", "damage", "terminated")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


# ---------------------------------------------------------------------- from the environment


@pytest.mark.parametrize("name", TOYS)
def test_a_toy_environment_and_its_learned_shield(name):
    env, learned = make(name), learned_from(name)
    assert learned.mdp.num_observed == env.observation_space.n
    if name.startswith("Taxi"):
        assert learned.mdp.initial_states.size == 300
    assert play(ShieldedEnv(env, learned.shield, budget=1), 20, 1) > 20
    play_many(lambda: make(name), learned.shield, 1)


def test_an_id_is_enough_and_the_result_is_that_of_the_table():
    learned = asure.learn_minimal_budget("FrozenLake-v1", mu=0.3, delta=0.01, seed=1)
    lake = gymnasium.make("FrozenLake-v1")
    truth = asure.minimal_budget(asure.from_gymnasium(lake, known_damage(lake)))
    alive = [state for state in range(16) if not truth.mdp.is_terminal()[state]]
    assert learned.minimal.of_state[alive].tolist() == truth.of_state[alive].tolist()


def test_a_tracker_inside_reports_the_damage():
    env = DamageTracker(gymnasium.make("CliffWalking-v1"), lambda s, a, s2, r, terminated: 2 * (r == -100))
    learned = asure.learn_minimal_budget(env, mu=0.5, delta=0.05, seed=1)
    assert learned.counts.damage.max() == 2


def buggy_sampler(**options):
    return EnvSampler(Buggy(), put, buggy_damage, num_states=5, encode=encode, max_damage=1, **options)


def test_observations_that_are_dictionaries():
    learned = learned_from("buggy")
    assert learned.mdp.initial_states.tolist() == [0, 1]  # its own starts
    assert "256 resets" in learned.statement
    for shield in (learned.shield, logged_from("buggy").shield):
        assert play(ShieldedEnv(make("buggy"), shield, budget=1), 30, 1) > 30
        play_many(lambda: make("buggy"), shield, 1)


SPELLINGS = ("FrozenLake-v1", "gym:FrozenLake-v1", "gymnasium.envs:FrozenLake-v1", "gym:gymnasium.envs:FrozenLake-v1")
TAKERS = {
    "explore": lambda name: asure.explore(name, mu=0.5, delta=0.5, max_states=1),
    "learn_minimal_budget": lambda name: asure.learn_minimal_budget(name, mu=0.3, delta=0.5, seed=1).mdp.num_states,
    "from_gymnasium": lambda name: asure.from_gymnasium(name).fingerprint,
    "OnlineShield": lambda name: asure.OnlineShield(name).space.num_states,
    "ready": lambda name: ready(name).mdp.fingerprint,
    "compare": lambda name: asure.compare(name, 1, "shielded", steps=100, seeds=1).optimum,
}


@pytest.mark.parametrize("taker", TAKERS)
def test_environments_are_named_the_same_way_everywhere(taker):
    def told(name):
        try:
            return TAKERS[taker](name)
        except LimitReached as error:
            return str(error)

    assert len({told(name) for name in SPELLINGS}) == 1
    with pytest.raises(ModelError, match=r"the module nowhere of gym:nowhere:Lake-v0 cannot be imported: .* installed"):
        TAKERS[taker]("gym:nowhere:Lake-v0")
    with pytest.raises(UnknownName, match=r"unknown (ready )?environment 'Boat-v0'"):
        TAKERS[taker]("gym:Boat-v0")


def test_the_error_for_environments_that_cannot_be_sampled_says_what_works():
    with pytest.raises(ModelError, match=r"abstract\('CartPole-v1'\).*EnvSampler\(env, set_state, damage\)"):
        asure.learn_minimal_budget("CartPole-v1", mu=0.1, delta=0.1)
    with pytest.raises(ModelError, match="unknown environment 'NoSuch-v1'"):
        asure.learn_minimal_budget("NoSuch-v1", mu=0.1, delta=0.1)
    with pytest.raises(ModelError, match="fickle passenger"):
        asure.learn_minimal_budget(gymnasium.make("Taxi-v4", fickle_passenger=True), mu=0.1, delta=0.1)


# ---------------------------------------------------------------------- from logs


def test_a_log_and_its_environment():
    env = DamageTracker(make("FrozenLake-v1"), known_damage(make("FrozenLake-v1")))
    learned = logged_from("FrozenLake-v1")
    assert learned.mdp.unknown is not None
    assert play(ShieldedEnv(env, learned.shield, budget=1), 20, 1) > 20
    play_many(lambda: make("FrozenLake-v1"), learned.shield, 1)


class SaysAtSteps(gymnasium.Wrapper):
    """Its steps report the damage of holes, and its resets report nothing."""

    def step(self, action):
        seen, reward, terminated, truncated, info = self.env.step(action)
        return seen, reward, terminated, truncated, {**info, "cost": float(terminated and reward == 0)}


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.filterwarnings("ignore:`eval_env` is set to None:UserWarning")
@pytest.mark.filterwarnings("ignore:env_spec is:UserWarning")
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
def test_minari_with_a_damage_tracker(tmp_path, monkeypatch, says):
    minari = pytest.importorskip("minari")
    pytest.importorskip("jax")  # DataCollector needs it
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    env = DamageTracker(SaysAtSteps(lake)) if says else DamageTracker(lake, known_damage(lake))
    collector = minari.DataCollector(env, record_infos=True)
    log_of(collector, 3_000)
    about = ("algorithm_name", "author", "author_email", "code_permalink", "description")
    collector.create_dataset("lake-v0", **dict.fromkeys(about, "test"))
    collector.close()
    learned = asure.learn_from_logs(minari.load_dataset("lake-v0"), mu=0.9, delta=0.05)
    assert learned.mdp.num_observed == 16
    assert learned.counts.damage.max() == 1
    assert np.array_equal(learned.shield.space.choice_ptr[:17], np.arange(0, 65, 4))
    assert play(ShieldedEnv(env, learned.shield, budget=1), 5, 1) > 5

    def firm_lake():
        return gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=60)

    play_many(firm_lake, learned.shield, 1)
    for num_envs in (1, 3):
        train(firm_lake, learned.shield, num_envs)


# ---------------------------------------------------------------------- learners


def test_a_learned_shield_in_tabular_learners():
    lake = gymnasium.make("FrozenLake-v1")
    learned = learned_from("FrozenLake-v1")
    table = asure.from_gymnasium(lake, known_damage(lake))
    training = ShieldedQ(shield=learned.shield, max_steps=100).train(table, 1, steps=5_000, seed=0)
    assert training.damages.max() <= 1
    result = asure.compare(lake, 1, [ShieldedQ(shield=learned.shield), "unconstrained"], steps=2_000, seeds=1)
    assert result.sampled_episodes is None  # evaluated exactly, as there is a table
    assert result.rows[0]["deployed_overspend"] == 0


@pytest.mark.parametrize(("name", "num_envs"), [*((name, 1) for name in TOYS), ("FrozenLake-v1", 3), ("buggy", 3)])
def test_masked_ppo_trains_in_it(name, num_envs):
    train(lambda: make(name), learned_from(name).shield, num_envs)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("name", ["FrozenLake-v1", "buggy"])
def test_masked_ppo_trains_in_a_shield_from_a_log(name, num_envs):
    train(lambda: make(name), logged_from(name).shield, num_envs)
