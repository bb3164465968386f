"""Shields of models with an ``encode`` function, around environments."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.gym import ShieldedEnv, ShieldedVectorEnv, to_gymnasium
from almostsure.learn import ByName, EnvSampler


def outcomes(state, action):
    place, tired = state
    return [(0.5, (min(place + 1, 4), tired), 1.0, int(action == "run" and place == 1)), (0.5, (place, True), 0.0, 0)]


def actions(state):
    return [] if state[0] == 4 else ["run", "walk"]


@pytest.fixture
def mdp():
    return asure.from_function(outcomes, initial=(0, False), actions=actions)


def test_a_shield_fits_the_environment_of_its_own_model(mdp):
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)
    rng = np.random.default_rng(0)
    for episode in range(20):
        _, info = env.reset(seed=episode)
        for _ in range(50):
            _, _, terminated, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            assert info["damage"] == 0
            if terminated:
                break


def test_and_a_vector_of_it(mdp):
    env = gymnasium.vector.SyncVectorEnv([lambda: to_gymnasium(mdp)] * 3)
    env = ShieldedVectorEnv(env, asure.Shield(asure.minimal_budget(mdp)), 0)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(60):
        masks = env.action_masks()
        _, _, _, _, infos = env.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in masks]))
        assert (infos["remaining"] >= 0).all()


def test_states_that_are_integers_in_another_order():
    mdp = asure.from_function(
        lambda s, a: [(1.0, 0, 0.0, int(s == 1 and a == 0))], initial=1, actions=lambda s: [0, 1] if s else []
    )
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [0, 1]


def test_states_that_are_integers_with_gaps():
    mdp = asure.from_function(
        lambda s, a: [(1.0, s - 5, 0.0, int(s == 10 and a == 0))], initial=10, actions=lambda s: [0, 1] if s else []
    )
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [0, 1]


class Shop(gymnasium.Env):
    """It may close at any time, with any stock from which other days continue."""

    observation_space = gymnasium.spaces.Dict({"stock": gymnasium.spaces.Discrete(3)})
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = 2
        return {"stock": self.stock}, {}

    def step(self, orders):
        wanted = int(self.np_random.integers(1, 3))
        missing = max(wanted - self.stock, 0)
        self.stock = min(max(self.stock - wanted, 0) + 2 * orders, 2)
        return {"stock": self.stock}, 1.0, bool(self.np_random.random() < 0.2), False, {"cost": missing}


@pytest.fixture(scope="module")
def shop():
    return asure.explore(Shop(), mu=0.1, delta=0.01)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_episode_may_end_where_another_continues(shop, is_loaded, tmp_path):
    shield, state_of = shop.shield, None
    if is_loaded:
        shop.mdp.save(tmp_path / "shop.umb")
        loaded = asure.load(tmp_path / "shop.umb")
        shield, state_of = asure.Shield(asure.minimal_budget(loaded)), ByName(loaded)
    env = ShieldedEnv(Shop(), shield, 1, state_of=state_of)
    env.action_space.seed(0)
    for episode in range(50):
        (_, info), ended = env.reset(seed=episode), False
        while not ended:
            *_, ended, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert env.ledger.episodes == 50
    assert env.ledger.worst <= 1


def test_and_in_a_vector(shop):
    env = ShieldedVectorEnv(gymnasium.vector.SyncVectorEnv([Shop] * 3), shop.shield, 1)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(100):
        env.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in env.action_masks()]))
    assert env.ledger.episodes > 10
    assert env.ledger.worst <= 1


def test_a_wrapper_inside_that_changes_observations_is_named_in_the_error(shop):
    env = ShieldedEnv(gymnasium.wrappers.FlattenObservation(Shop()), shop.shield, 1)
    with pytest.raises(asure.errors.ModelError, match=r"a wrapper inside the shield .* move it outside"):
        env.reset(seed=0)


def test_an_online_shield_may_start_from_an_explored_model(shop, tmp_path):
    shield = asure.OnlineShield(shop.counts, known=shop.counts)
    assert shield.of_choice.tolist() == shop.minimal.of_choice.tolist()
    env = ShieldedEnv(Shop(), shield, 1)
    env.action_space.seed(0)
    for episode in range(50):
        (_, info), ended = env.reset(seed=episode), False
        while not ended:
            *_, ended, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert (env.ledger.episodes, len(shield.ledger.violations)) == (50, 0)
    shield.save(tmp_path / "shop.shield")
    for space in (shop.counts, shop.mdp):
        loaded = asure.OnlineShield.load(tmp_path / "shop.shield", space)
        assert loaded.of_choice.tolist() == shop.minimal.of_choice.tolist()


def test_an_online_shield_of_an_explored_model_knows_its_ends(shop):
    env = ShieldedEnv(Shop(), asure.OnlineShield(shop.mdp, unknown="allow"), 1)
    env.action_space.seed(0)
    for episode in range(50):
        _, over = env.reset(seed=episode), False
        while not over:
            *_, terminated, truncated, _ = env.step(env.action_space.sample(mask=env.action_masks().astype(np.int8)))
            over = terminated or truncated
    assert all(violation.new for violation in env.ledger.violations)


def test_models_may_name_such_ends():
    def outcomes(stock, orders):
        for wanted in (1, 2):
            left = min(max(stock - wanted, 0) + 2 * orders, 2)
            yield 0.4, left, 1.0, max(wanted - stock, 0)
            yield 0.1, f"ended at {left}", 1.0, max(wanted - stock, 0)

    mdp = asure.from_function(outcomes, initial=2, actions=lambda s: [] if isinstance(s, str) else [0, 1])
    shield = asure.Shield(asure.minimal_budget(mdp))
    env = ShieldedEnv(Shop(), shield, 1, state_of=lambda observation, env: str(observation["stock"]))
    env.action_space.seed(0)
    for episode in range(20):
        (_, info), ended = env.reset(seed=episode), False
        while not ended:
            *_, ended, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert env.ledger.episodes == 20
    assert env.ledger.worst <= 1


def test_no_names_are_compared_when_an_episode_ends(mdp, monkeypatch):
    env = ShieldedEnv(to_gymnasium(mdp), asure.Shield(asure.minimal_budget(mdp)), 0)

    def slow(*_):
        raise AssertionError("the search for similar names is slow in large models")

    monkeypatch.setattr("almostsure.errors.nearest", slow)
    (_, info), ended = env.reset(seed=0), False
    while not ended:
        *_, ended, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert env.ledger.episodes == 1


def test_an_end_that_the_model_does_not_have_is_an_error():
    mdp = asure.from_function(
        lambda s, orders: [(0.5, min(max(s - w, 0) + 2 * orders, 2), 1.0, max(w - s, 0)) for w in (1, 2)],
        initial=2,
        actions=[0, 1],
    )
    shield = asure.Shield(asure.minimal_budget(mdp))
    env = ShieldedEnv(Shop(), shield, 0, state_of=lambda observation, env: str(observation["stock"]))
    env.reset(seed=0)

    def play():
        while True:
            env.step(1)

    with pytest.raises(asure.errors.ModelMismatch, match="a state without actions named 'ended at 2'"):
        play()


def test_states_may_be_given_by_observations(shop):
    assert shop.minimal.of({"stock": 0}) == 2
    assert shop.shield.allowed({"stock": 2}, 0).tolist() == [1]
    assert "needs 2" in str(shop.minimal.explain({"stock": 0}))
    with pytest.raises(asure.errors.ModelError, match="was not found when the environment was explored"):
        shop.minimal.of({"stock": 7})
    sampler = EnvSampler(Shop(), lambda env, state: None, num_states=3, encode=lambda shown: shown["stock"])
    space = asure.OnlineShield(sampler).space
    assert space.state({"stock": 1}) == 1
    with pytest.raises(asure.errors.ModelError, match=r"encode failed for the state {}: KeyError"):
        space.state({})


class Lap(gymnasium.Env):
    """Two steps to the goal, where other episodes begin; staying does damage."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, start=0, ends=True):
        self.start, self.ends = start, ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.start
        return self.at, {}

    def step(self, action):
        hurts, self.at = 3 * (self.at == 2), min(self.at + 1, 2)
        return self.at, -1.0, self.ends and self.at == 2, False, {"cost": hurts}


@pytest.mark.parametrize("options", [{"start": 2}, {"ends": False}])
@pytest.mark.parametrize("many", [False, True])
def test_episodes_cannot_start_in_states_that_were_explored_only_as_ends(options, many):
    shield = asure.Shield(asure.minimal_budget(asure.explore(Lap())))
    if many:
        env = ShieldedVectorEnv(gymnasium.vector.SyncVectorEnv([lambda: Lap(**options)] * 2), shield, 0)
    else:
        env = ShieldedEnv(Lap(**options), shield, 0)

    def play():
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros(2, np.int64) if many else 0)

    with pytest.raises(
        asure.errors.ModelMismatch, match="continues from state 2 '2', where all episodes ended when the"
    ):
        play()
    assert env.ledger.worst == 0
