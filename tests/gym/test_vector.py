"""Vector forms: budgets are reset when episodes begin, in every way in which Gymnasium resets copies."""

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
    BudgetObservation,
    DamageTracker,
    ModelVectorEnv,
    ShieldedEnv,
    ShieldedVectorEnv,
    VectorBudgetObservation,
    VectorDamageTracker,
    to_gymnasium,
)
from almostsure.testing import mdps

MODES = list(AutoresetMode)
BUDGET = 3


def shield_of(mdp):
    return asure.Shield(asure.minimal_budget(mdp))


def river(max_steps=25):
    return to_gymnasium("hazard-map", max_episode_steps=max_steps)


def shielded_river(max_steps=25):
    return ShieldedEnv(river(max_steps), shield_of(asure.example("hazard-map")), BUDGET)


def apart(make, count):
    """Copies whose episodes end at different times."""
    return [partial(make, max_steps) for max_steps in range(19, 19 + 3 * count, 3)]


def hurts(s, a, s2, r, terminated):
    return int(r == -100)


def cliff(max_steps=15):
    return gymnasium.make("CliffWalking-v1", max_episode_steps=max_steps)


def follow(envs, mode, steps, budget, *, actions=None):
    """Play allowed actions, and keep the budget of every copy by hand; returns how many episodes ended."""
    rng = np.random.default_rng(0)
    count = envs.num_envs
    _, infos = envs.reset(seed=1)
    left, over, ended = np.full(count, budget), np.zeros(count, bool), 0
    assert (infos["remaining"] == budget).all()
    for _ in range(steps):
        if mode == AutoresetMode.DISABLED and over.any():
            _, some = envs.reset(options={"reset_mask": over})
            left[over] = budget
            assert (some["remaining"][over] == budget).all()
            if "action_mask" in infos:
                infos["action_mask"][over] = some["action_mask"][over]
            over = np.zeros(count, bool)
        if "action_mask" in infos:
            assert infos["action_mask"].any(axis=1).all()
            played = np.array([rng.choice(np.flatnonzero(row)) for row in infos["action_mask"]])
        else:
            played = rng.integers(0, 4, count)
        _, _, terminated, truncated, infos = envs.step(played)
        fresh = over if mode == AutoresetMode.NEXT_STEP else np.zeros(count, bool)
        done = terminated | truncated
        for i in range(count):
            if fresh[i]:
                left[i] = budget
                assert infos["damage"][i] == 0
            elif mode == AutoresetMode.SAME_STEP and done[i]:
                final = infos["final_info"]
                assert final["remaining"][i] == left[i] - final["damage"][i]
                left[i] = budget
            else:
                left[i] -= infos["damage"][i]
        assert np.array_equal(infos["remaining"], left)
        ended += np.count_nonzero(done)
        over = done if mode != AutoresetMode.SAME_STEP else np.zeros(count, bool)
    envs.close()
    return ended


@pytest.mark.parametrize("mode", MODES)
def test_one_shield_around_many_copies(mode):
    mdp = asure.example("hazard-map")
    envs = ShieldedVectorEnv(SyncVectorEnv(apart(river, 5), autoreset_mode=mode), shield_of(mdp), BUDGET)
    assert follow(envs, mode, 200, BUDGET) > 20
    assert envs.ledger.worst == BUDGET


@pytest.mark.parametrize("mode", MODES)
def test_many_shields_in_a_vector(mode):
    """A copy's own shield sees its resets, however they come about."""
    assert follow(SyncVectorEnv(apart(shielded_river, 3), autoreset_mode=mode), mode, 120, BUDGET) > 8


@pytest.mark.parametrize("mode", MODES)
def test_in_other_processes(mode):
    mdp = asure.example("hazard-map")
    envs = ShieldedVectorEnv(AsyncVectorEnv(apart(river, 2), autoreset_mode=mode), shield_of(mdp), BUDGET)
    assert follow(envs, mode, 60, BUDGET) > 2
    envs = AsyncVectorEnv(apart(shielded_river, 2), autoreset_mode=mode)
    assert follow(envs, mode, 60, BUDGET) > 2


@pytest.mark.parametrize("mode", MODES)
def test_trackers(mode):
    envs = VectorDamageTracker(SyncVectorEnv(apart(cliff, 4), autoreset_mode=mode), hurts, budget=9)
    assert follow(envs, mode, 150, 9) > 20


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("observe", ["flat", "dict"])
def test_budgets_in_observations(mode, observe):
    envs = VectorDamageTracker(SyncVectorEnv(apart(cliff, 3), autoreset_mode=mode), hurts)
    envs = VectorBudgetObservation(envs, 2, observe=observe)
    seen, infos = envs.reset(seed=0)
    assert envs.observation_space.contains(seen)
    over = np.zeros(3, bool)
    for _ in range(60):
        if mode == AutoresetMode.DISABLED and over.any():
            before = infos["remaining"].copy()
            _, infos = envs.reset(options={"reset_mask": over})
            assert np.array_equal(infos["remaining"], np.where(over, 2, before))
        seen, _, terminated, truncated, infos = envs.step(np.array([1, 0, 0]))
        over = terminated | truncated
        shown = seen["remaining"] if observe == "dict" else seen[:, 1]
        assert np.array_equal(shown, np.maximum(infos["remaining"], 0))
        assert envs.observation_space.contains(seen)
    if mode == AutoresetMode.SAME_STEP:
        assert infos.get("final_obs") is None or infos["final_obs"].dtype == object


@pytest.mark.parametrize("observe", ["flat", "dict", "rllib", "none"])
@pytest.mark.parametrize("normalised", [False, True])
def test_the_vector_form_shows_what_the_single_one_does(observe, normalised):
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
    """Masks are the shield's and never empty, and what remains is what is left, for hostile models too."""
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


# ---------------------------------------------------------------------- refusals


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


def test_a_column_of_damages_is_not_a_row():
    class Column(gymnasium.vector.VectorWrapper):
        def step(self, actions):
            *rest, infos = self.env.step(actions)
            return *rest, {**infos, "damage": infos["damage"][:, None]}

    envs = ShieldedVectorEnv(Column(ModelVectorEnv("paper", 3)), shield_of(asure.example("paper")), 2)
    envs.reset(seed=0)
    with pytest.raises(ModelError, match=r"infos\['damage'\] must hold one number per environment, shape \[3\]; got"):
        envs.step(np.array([0, 0, 0]))


def test_before_the_first_reset_and_after_an_error_there_is_nothing_to_do():
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
    with pytest.raises(ModelMismatch, match="a shield for another environment"):
        ShieldedVectorEnv(ModelVectorEnv(asure.example("paper", damage_probability=0.5), 2), paper, 1)
    lake = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    other = partial(gymnasium.make, "FrozenLake-v1", desc=["SFFF", "FFFF", "FFFF", "FFFG"])
    with pytest.raises(ModelMismatch, match=r"another map\?"):
        ShieldedVectorEnv(SyncVectorEnv([partial(gymnasium.make, "FrozenLake-v1"), other]), shield_of(lake), 0)
    envs = ShieldedVectorEnv(AsyncVectorEnv([other]), shield_of(lake), 1)  # it cannot be looked into
    envs.reset(seed=0)
    with pytest.raises(ModelMismatch, match="which the shield's model says is impossible"):
        wander(envs)
    envs.close()


def wander(envs):
    """Sooner or later across what was a hole in the model's map."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        envs.step(np.array([rng.choice(np.flatnonzero(row)) for row in envs.action_masks()]))


def test_an_online_shield_goes_around_each_environment():
    mdp = asure.example("hazard-map")
    shield = asure.OnlineShield(mdp, unknown="allow")
    envs = SyncVectorEnv([lambda: ShieldedEnv(river(), shield, 1)] * 3)
    _, infos = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        played = [rng.choice(np.flatnonzero(row)) for row in infos["action_mask"]]
        _, _, _, _, infos = envs.step(np.array(played))
    assert 0 < len(shield.ledger.violations) <= np.count_nonzero(mdp.damage)


def test_or_is_shared_by_a_vector():
    """It learns from all of them, and ends the episode of one that it surprised."""
    mdp = asure.example("hazard-map")
    shield = asure.OnlineShield(mdp, unknown="allow")
    with pytest.raises(ArgumentError, match=r"reset yourself; this one resets by NextStep\. .*AutoresetMode\.DISABLED"):
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


def test_what_others_taught_the_shield_of_a_vector_holds_at_its_next_step():
    shield = asure.OnlineShield("paper", unknown="allow")
    inner = SyncVectorEnv([partial(to_gymnasium, "paper")] * 2, autoreset_mode=AutoresetMode.DISABLED)
    envs = ShieldedVectorEnv(inner, shield, 0)
    envs.reset(seed=0)
    shield.watch("circle", "left", "circle", 1)
    *_, infos = envs.step(np.array([0, 1]))
    assert infos["replaced"].tolist() == [True, False]
    assert infos["executed_action"].tolist() == [1, 1]
    envs.reset(seed=0)
    with pytest.raises(NoSafeAction, match="left is not allowed"):  # now the mask has said so
        envs.step(np.array([0, 1]))


def test_damage_that_is_none_is_refused():
    envs = VectorDamageTracker(SyncVectorEnv([cliff] * 2), lambda *step: 0.5)
    envs.reset(seed=0)
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got 0\.5 in environment 0"):
        envs.step(np.array([0, 0]))
    envs = VectorDamageTracker(SyncVectorEnv([cliff] * 2))
    envs.reset(seed=0)
    with pytest.raises(ModelError, match=r"must say its damage in info\['cost'\]"):
        envs.step(np.array([0, 0]))
    envs = VectorBudgetObservation(SyncVectorEnv([cliff]), 1)
    envs.reset(seed=0)
    with pytest.raises(ModelError, match="Wrap it in DamageTracker first"):
        envs.step(np.array([0]))


def test_a_vector_must_say_when_it_resets():
    envs = ModelVectorEnv("paper", 2)
    envs.metadata = {}
    with pytest.raises(ArgumentError, match=r"must say in metadata\['autoreset_mode'\]"):
        VectorDamageTracker(envs)


class HurtsAtReset(gymnasium.Wrapper):
    """The first reset does not hurt, later ones do."""

    resets = 0

    def reset(self, **options):
        self.resets += 1
        state, info = self.env.reset(**options)
        return state, {**info, "damage": int(self.resets > 1)}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_automatic_reset_that_hurts_is_refused(mode):
    def make():
        return SyncVectorEnv([lambda: HurtsAtReset(to_gymnasium("paper"))] * 2, autoreset_mode=mode)

    mdp = asure.example("paper")
    for envs in (ShieldedVectorEnv(make(), shield_of(mdp), 1), VectorDamageTracker(make(), lambda *step: 0)):
        envs.reset(seed=0)
        if mode == AutoresetMode.NEXT_STEP:
            envs.step(np.array([1, 1]))
        with pytest.raises(ModelError, match="a reset must do no damage"):
            envs.step(np.array([1, 1]))


def test_damage_is_counted_in_whole_numbers_only():
    class Says(gymnasium.Wrapper):
        def step(self, action):
            return *self.env.step(action)[:4], {"damage": 0.5}

    one = BudgetObservation(Says(cliff()), 3)
    many = VectorBudgetObservation(SyncVectorEnv([lambda: Says(cliff())]), 3)
    for envs, action in ((one, 0), (many, np.array([0]))):
        envs.reset(seed=0)
        with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .*0\.5"):
            envs.step(action)


class Scribbles(gymnasium.Env):
    """Writes over the observation that it returned."""

    observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,), np.int64), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.seen = np.zeros(1, np.int64)
        return self.seen, {}

    def step(self, action):
        self.seen += 1
        return self.seen, 0.0, False, False, {}


def test_trackers_remember_observations_that_are_written_over():
    def climbed(s, a, s2, r, terminated):
        return int(s2[0] - s[0])

    one = DamageTracker(Scribbles(), climbed)
    many = VectorDamageTracker(SyncVectorEnv([Scribbles], copy=False), climbed)
    for envs, action in ((one, 0), (many, np.array([0]))):
        envs.reset(seed=0)
        assert [np.sum(envs.step(action)[-1]["damage"]) for _ in range(3)] == [1, 1, 1]


# ---------------------------------------------------------------------- single trackers


class Costs(gymnasium.Wrapper):
    """An environment of Safety-Gymnasium's kind: its steps return six values."""

    cost = 1.0

    def step(self, action):
        state, reward, terminated, truncated, _ = self.env.step(action)
        return state, reward, self.cost, terminated, truncated, {}


def test_costs_of_safety_gymnasium():
    env = BudgetObservation(DamageTracker(Costs(cliff()), budget=5), 5)
    env.reset(seed=0)
    seen, _, _, _, info = env.step(0)
    assert (info["cost"], info["damage"], info["remaining"], seen.tolist()) == (1, 1, 4, [24, 4])
    for cost in (0.3, -1.0, float("nan")):
        env = DamageTracker(Costs(cliff()))
        env.env.cost = cost
        env.reset(seed=0)
        with pytest.raises(ModelError, match="damage must be an integer 0 … 255; got"):
            env.step(0)


def test_a_tracker_wants_a_function_a_reset_and_a_budget():
    with pytest.raises(ArgumentError, match="damage must be a function"):
        DamageTracker(cliff(), 3)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        DamageTracker(to_gymnasium("paper"), hurts).step(0)
    with pytest.raises(ArgumentError, match="budget must be a whole number"):
        BudgetObservation(cliff(), -1)
    with pytest.raises(ArgumentError, match="Masks need ShieldedEnv"):
        BudgetObservation(cliff(), 1, observe="rllib")


def test_an_overspent_budget_reads_zero():
    env = BudgetObservation(DamageTracker(cliff(), hurts), 1, normalised=True)
    env.reset(seed=0)
    for left in (0, -1, -2):
        seen, _, _, _, info = env.step(1)  # over the cliff
        assert (info["remaining"], seen[-1]) == (left, 0)
        assert env.observation_space.contains(seen)


# ---------------------------------------------------------------------- models in a vector


def test_many_copies_of_a_model_draw_its_outcomes():
    mdp = asure.example("hazard-map")
    envs = ModelVectorEnv(mdp, 64, max_episode_steps=50)
    states, infos = envs.reset(seed=3)
    rng, over = np.random.default_rng(0), np.zeros(64, bool)
    for _ in range(100):
        actions = rng.integers(0, 4, 64)
        before = states
        states, rewards, terminated, truncated, infos = envs.step(actions)
        for i in range(0, 64, 7):
            if over[i]:
                assert states[i] in mdp.initial_states
                assert rewards[i] == infos["damage"][i] == 0
            else:
                possible = {(t, r, d) for t, _, r, d in mdp.outcomes(int(before[i]), int(actions[i]))}
                assert (states[i], rewards[i], infos["damage"][i]) in possible
        over = terminated | truncated
    assert np.array_equal(ModelVectorEnv(mdp, 64).reset(seed=3)[0], envs.reset(seed=3)[0])


def test_some_copies_of_a_model_can_be_reset():
    mdp = asure.example("hazard-map")
    envs = ShieldedVectorEnv(ModelVectorEnv(mdp, 3), shield_of(mdp), BUDGET)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset all environments before"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    envs.reset(seed=0)
    for _ in range(5):
        before, *_ = envs.step(envs.action_masks().argmax(axis=1))
    seen, infos = envs.reset(options={"reset_mask": np.array([True, False, False])})
    assert seen[0].tolist() == [mdp.initial_states[0], BUDGET]
    assert np.array_equal(seen[1:], before[1:])
    assert infos["_remaining"].tolist() == [True, False, False]
    envs.step(envs.action_masks().argmax(axis=1))
    for mask in ([True, False], [1, 0, 0]):
        with pytest.raises(ArgumentError, match="reset_mask must be 3 booleans"):
            envs.unwrapped.reset(options={"reset_mask": mask})
    states, _ = envs.unwrapped.reset(options={"state": 5})
    assert states.tolist() == [5, 5, 5]


@pytest.mark.parametrize("seed", [[1, 2, 3], np.array([1, 2, 3]), [None, 2, 3], np.int64(7), 7])
def test_seeds_of_every_kind_repeat_what_is_drawn(seed):
    def draws():
        envs = ModelVectorEnv(asure.example("paper", damage_probability=0.5), 3)
        envs.reset(seed=seed)
        assert envs.np_random_seed is not None
        return [envs.step(np.zeros(3, int))[-1]["damage"].tolist() for _ in range(30)]

    assert draws() == draws()
    with pytest.raises(ArgumentError, match="seed must be a whole number, or 3 of them"):
        ModelVectorEnv("paper", 3).reset(seed=[1, 2])


def test_frequencies_in_a_vector():
    mdp = asure.example("paper", damage_probability=0.3)
    envs = ModelVectorEnv(mdp, 2000)
    envs.reset(seed=0)
    damages = [envs.step(np.zeros(2000, int))[-1]["damage"].mean() for _ in range(10)]
    assert np.mean(damages) == pytest.approx(0.3, abs=0.01)
    with pytest.raises(ArgumentError, match="actions must be 2000 ids"):
        envs.step(np.zeros(3, int))
    with pytest.raises(LookupError, match="unknown action"):
        ModelVectorEnvAt("corridor").step(np.array([0]))
    with pytest.raises(ArgumentError, match="must be 1 or more"):
        ModelVectorEnv(mdp, 0)


def ModelVectorEnvAt(name):  # noqa: N802  # in the corridor, where there is one action
    envs = ModelVectorEnv(name, 1)
    envs.reset(seed=0)
    envs.step(np.array([1]))
    return envs
