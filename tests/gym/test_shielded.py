"""ShieldedEnv: whatever is played, no episode takes more than its budget."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import Autoreset, TimeLimit, TransformAction, TransformObservation
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import ArgumentError, Infeasible, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv, ready, to_gymnasium
from almostsure.gym.observation import show
from almostsure.testing import mdps


def shield_of(mdp):
    return asure.Shield(asure.minimal_budget(mdp))


def shielded(model="hazard-map", budget=3, **options):
    mdp = asure.model.as_model(model)
    return ShieldedEnv(to_gymnasium(mdp), shield_of(mdp), budget, **options)


def play(env, steps, *, seed=0, budget):
    """Random allowed play; checks the budget of every episode; returns how many ended, and the worst damage."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    left, ended, worst = budget, 0, 0
    assert info["remaining"] == budget
    for _ in range(steps):
        mask = env.get_wrapper_attr("action_masks")()
        assert mask.any()
        assert info["action_mask"].dtype == np.int8
        assert np.array_equal(mask, info["action_mask"])
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        left -= info["damage"]
        assert info["remaining"] == left >= 0
        worst = max(worst, budget - left)
        if terminated or truncated:
            ended += 1
            _, info = env.reset()
            left = budget
            assert (info["remaining"], info["damage"]) == (budget, 0)
    return ended, worst


# ---------------------------------------------------------------------- the promise


@given(mdps(), st.integers(0, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_no_episode_overspends_and_no_mask_is_empty(mdp, more, seed):
    shield = shield_of(mdp)
    needed = shield.minimal.smallest_budget()
    if needed == asure.INFINITE:
        with pytest.raises(Infeasible, match="no budget is enough at the start"):
            ShieldedEnv(to_gymnasium(mdp), shield, 3)
        return
    env = ShieldedEnv(to_gymnasium(mdp, max_episode_steps=15), shield, needed + more)
    play(env, 60, seed=seed, budget=needed + more)


@given(mdps(), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_masks_are_the_shields(mdp, seed):
    shield = shield_of(mdp)
    if shield.minimal.smallest_budget() > 4:
        return
    env = ShieldedEnv(to_gymnasium(mdp), shield, 4)
    (state, left), info = env.reset(seed=seed)
    for _ in range(20):
        assert np.array_equal(env.action_masks(), shield.mask(int(state), int(left)))
        (state, left), _, terminated, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        if terminated:
            break


def test_more_budget_allows_more():
    mdp = asure.example("hazard-map")
    worst = [play(shielded(mdp, budget), 3000, budget=budget)[1] for budget in (0, 1, 3)]
    assert worst == [0, 1, 3]


# ---------------------------------------------------------------------- what the agent sees


@pytest.mark.parametrize(
    ("options", "space", "first"),
    [
        ({}, MultiDiscrete([2, 4]), [0, 3]),
        ({"observe": "none"}, Discrete(2), 0),
        ({"observe": "dict"}, Dict(observation=Discrete(2), remaining=Discrete(4)), {"observation": 0, "remaining": 3}),
        ({"normalised": True}, Box(0, 1, (3,)), [1, 0, 1]),
        (
            {"observe": "dict", "normalised": True},
            Dict(observation=Discrete(2), remaining=Box(0, 1, (1,))),
            {"observation": 0, "remaining": [1]},
        ),
        (
            {"observe": "rllib"},
            Dict(action_mask=Box(0, 1, (2,)), observations=MultiDiscrete([2, 4])),
            {"action_mask": [1, 1], "observations": [0, 3]},
        ),
    ],
)
def test_observations_show_what_remains(options, space, first):
    env = shielded("paper", 3, **options)
    assert env.observation_space == space
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    for key in first if isinstance(first, dict) else [None]:
        assert np.array_equal(seen if key is None else seen[key], first if key is None else first[key])
    seen, *_ = env.step(0)
    assert env.observation_space.contains(seen)


def test_rllib_masks_are_under_its_keys():
    """RLlib's masking modules read obs["action_mask"], floats 0 or 1, and obs["observations"]."""
    env = shielded("paper", 1, observe="rllib")
    env.reset(seed=0)
    seen, *_ = env.step(0)
    assert list(seen) == ["action_mask", "observations"]
    assert (seen["action_mask"].dtype, seen["action_mask"].tolist()) == (np.float32, [0.0, 1.0])


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (Box(-1, 1, (2,), np.float32), np.array([0.5, -0.5], np.float32)),
        (MultiDiscrete([3, 2]), np.array([2, 1])),
        (gymnasium.spaces.MultiBinary(3), np.array([1, 0, 1], np.int8)),
    ],
)
@pytest.mark.parametrize("normalised", [False, True])
def test_arrays_get_one_more_entry(space, seen, normalised):
    env = TransformObservation(to_gymnasium("paper"), lambda state: seen, space)
    mdp = env.unwrapped.mdp
    env = ShieldedEnv(env, shield_of(mdp), 4, normalised=normalised, state_of=lambda seen, env: env.unwrapped._state)
    for observation in (env.reset(seed=0)[0], env.step(0)[0]):
        assert env.observation_space.contains(observation)
    assert observation[-1] == (0.75 if normalised else 3)


def test_what_cannot_be_appended_is_said():
    env = TransformObservation(to_gymnasium("paper"), lambda s: np.zeros((2, 2), np.float32), Box(0, 1, (2, 2)))
    mdp = env.unwrapped.mdp
    with pytest.raises(ArgumentError, match=r"cannot be appended to observations of Box.*observe='dict'"):
        ShieldedEnv(env, shield_of(mdp), 1, state_of=lambda seen, env: 0, observe="flat")
    joined = ShieldedEnv(env, shield_of(mdp), 1, state_of=lambda seen, env: 0)  # by default they go into a dict
    assert set(joined.observation_space.spaces) == {"observation", "remaining"}
    for dtype, budget in ((np.float16, 5000), (np.uint8, 300), (np.bool_, 1)):  # which cannot count that far
        with pytest.raises(ArgumentError, match=r"cannot be appended to observations of Box.*observe='dict'"):
            show(Box(0, 1, (2,), dtype), {"remaining": budget}, "flat", normalised=False, num_actions=2)
    with pytest.raises(UnknownName, match=r"unknown form of observation 'flot'\. Did you mean 'flat'"):
        shielded("paper", observe="flot")


# ---------------------------------------------------------------------- what is forbidden


def test_forbidden_actions_are_refused():
    env = shielded("paper", 0)
    env.reset(seed=0)
    with pytest.raises(NoSafeAction, match=r"left is not allowed at state 0 'circle' with 0 left; allowed: right") as e:
        env.step(0)
    assert (e.value.state, e.value.remaining) == (0, 0)
    assert env.step(1)[2]  # the episode was not harmed by it


def test_forbidden_actions_are_refused_at_every_step():
    """Not only where they are forbidden from the start on: what becomes forbidden is refused too."""
    env = shielded("paper", 2)
    env.reset(seed=0)
    assert env.action_masks().all()
    for _ in range(2):
        env.step(0)  # left hurts by 1
    for _ in range(2):
        with pytest.raises(NoSafeAction, match="left is not allowed at state 0 'circle' with 0 left"):
            env.step(0)
    assert env.ledger.interventions == 0
    env = shielded("hazard-map", 1)
    rng, refused = np.random.default_rng(0), 0
    env.reset(seed=0)
    for _ in range(2000):
        allowed = env.action_masks()
        action = int(rng.integers(4))
        if not allowed[action]:
            refused += 1
            with pytest.raises(NoSafeAction, match="is not allowed"):
                env.step(action)
            action = int(np.flatnonzero(allowed)[0])
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    assert refused > 50


def test_or_replaced_and_said():
    env = shielded("paper", 1, forbidden="replace")
    _, info = env.reset(seed=0)
    assert (info["executed_action"], info["replaced"]) == (-1, False)
    info = env.step(0)[4]
    assert (info["executed_action"], info["replaced"], info["interventions"]) == (0, False, 0)
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["interventions"], info["damage"]) == (0, True, 1, 0)
    assert (info["executed_action"], info["replaced"]) == (1, True)  # what a replay buffer should store
    assert env.reset()[1]["interventions"] == 0
    assert env.ledger.interventions == 1


def test_without_a_fallback_the_most_careful_action_replaces():
    """With more left than anything needs, only the guard can tell which action needs the least."""
    mdp = asure.from_transitions([0, 0, 0, 1], [0, 1, 2, 0], [2, 1, 2, 2], [1] * 4, [0] * 4, [9, 2, 1, 1], terminal=[2])
    env = ShieldedEnv(to_gymnasium(mdp), shield_of(mdp), 7, forbidden="replace")
    env.reset(seed=0)
    assert env.step(0)[4]["executed_action"] == 2  # needs 1; action 1 needs 3, and action 0 needs 9


def test_the_best_policy_replaces_better():
    mdp = asure.example("hazard-map")
    solution = asure.solve_policy(mdp, asure.AlmostSure(3))
    returns = []
    for fallback in (None, solution, solution.policy):
        env = ShieldedEnv(
            to_gymnasium(mdp, max_episode_steps=60), shield_of(mdp), 3, forbidden="replace", fallback=fallback
        )
        env.reset(seed=0)
        for _ in range(600):
            _, _, terminated, truncated, _ = env.step(1)  # always east
            if terminated or truncated:
                env.reset()
        assert env.ledger.worst <= 3
        assert env.ledger.interventions > 0
        returns.append(env.ledger.episodes)
    assert returns[1] == returns[2] != returns[0]
    with pytest.raises(ModelMismatch, match="the policy belongs to another model"):
        shielded("paper", 1, forbidden="replace", fallback=solution)
    with pytest.raises(UnknownName, match="unknown value of forbidden 'allow'"):
        shielded("paper", 1, forbidden="allow")


@pytest.mark.parametrize("action", [-1, 2, 1.5, "left", None, [0, 1], np.array([0.0])])
def test_what_is_no_action_is_never_played(action):
    env = shielded("paper", 1, forbidden="replace")
    env.reset(seed=0)
    with pytest.raises(ArgumentError, match=r"an action must be one of Discrete\(2\)"):
        env.step(action)


@pytest.mark.parametrize("action", [0, np.int64(0), np.array(0), np.array([0]), np.uint8(0)])
def test_actions_of_any_integer_type_are(action):
    env = shielded("paper", 1)
    env.reset(seed=0)
    assert env.step(action)[4]["damage"] == 1


# ---------------------------------------------------------------------- episodes


def test_before_the_first_reset_and_after_the_end_there_is_nothing_to_do():
    env = shielded("paper", 1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        env.step(1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        env.action_masks()
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="there is no episode"):
        env.step(1)


def test_truncation_is_not_termination():
    inner = ShieldedEnv(to_gymnasium("paper", max_episode_steps=2), shield_of(asure.example("paper")), 5)
    inner.reset(seed=0)
    inner.step(0)
    _, _, terminated, truncated, info = inner.step(0)
    assert (terminated, truncated, info["remaining"]) == (False, True, 3)
    assert info["action_mask"].tolist() == [1, 1]  # of a state in which life goes on
    outer = TimeLimit(shielded("paper", 5), 2)
    for _ in range(3):
        assert outer.reset()[1]["remaining"] == 5
        assert [outer.step(0)[3] for _ in range(2)] == [False, True]
    assert outer.get_wrapper_attr("ledger").episodes == 2  # the third is not over yet


def test_an_environment_that_resets_itself_inside_is_refused():
    mdp = asure.example("paper")
    with pytest.raises(ArgumentError, match=r"must see every reset; .*Autoreset\(ShieldedEnv"):
        ShieldedEnv(Autoreset(to_gymnasium(mdp)), shield_of(mdp), 1)
    env = Autoreset(shielded("paper", 1))
    env.reset(seed=0)
    assert [env.step(a)[4]["remaining"] for a in (0, 1, 0, 0)] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("wrap", "what"),
    [
        (lambda env: gymnasium.wrappers.StickyAction(env, 0.5), "which action is played"),
        (lambda env: gymnasium.wrappers.RepeatAction(env, 2), "every step"),
        (lambda env: gymnasium.wrappers.DelayObservation(env, 1), "the present state"),
    ],
)
def test_what_hides_actions_steps_or_states_is_refused(wrap, what):
    env = wrap(gymnasium.make("CliffWalking-v1"))
    with pytest.raises(ArgumentError, match=f"a shield must see {what}; .* inside hides that"):
        ShieldedEnv(env, ready("CliffWalking-v1").shield(), 1)


def test_copies_and_pickles_go_on_where_the_original_was():
    env = shielded("hazard-map", 3)
    env.reset(seed=5)
    for action in (0, 1, 1):
        env.step(action)
    twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    moves = np.random.default_rng(0)
    for _ in range(20):
        action = int(moves.choice(np.flatnonzero(env.action_masks())))
        results = [e.step(action) for e in (env, *twins)]
        assert {(int(r[0][0]), int(r[0][1]), r[1], r[2]) for r in results} == {
            (int(results[0][0][0]), int(results[0][0][1]), results[0][1], results[0][2])
        }


def test_it_can_be_made_again_from_its_specification():
    env = ShieldedEnv(gymnasium.make("almostsure/Paper-v0"), shield_of(asure.example("paper")), 2)
    again = env.spec.make()
    assert again.get_wrapper_attr("budget") == 2
    assert again.reset(seed=0)[0].tolist() == [0, 2]


# ---------------------------------------------------------------------- another environment


def test_a_total_that_is_too_small_says_what_is_needed():
    with pytest.raises(Infeasible, match=r"a budget of 1 is not enough at the start: state 11 'r2c2' needs 2") as e:
        shielded("quicksand", 1)
    assert e.value.needed == 2
    for budget in (-1, 1.5, "two", float("nan")):
        with pytest.raises(ArgumentError, match="budget must be"):
            shielded("paper", budget)


def test_shields_of_other_environments_are_refused():
    paper = shield_of(asure.example("paper"))
    with pytest.raises(ModelMismatch, match="4 actions and the shield's model 2: the shield is for another"):
        ShieldedEnv(to_gymnasium("corridor"), paper, 1)
    lake = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    with pytest.raises(ModelMismatch, match="64 states and the shield's model 16"):
        ShieldedEnv(gymnasium.make("FrozenLake8x8-v1"), shield_of(lake), 0)
    with pytest.raises(ModelMismatch, match="a shield for another environment"):
        ShieldedEnv(to_gymnasium(asure.example("paper", damage_probability=0.5)), paper, 1)
    with pytest.raises(ArgumentError, match="or another Guard; got MinimalBudget"):
        ShieldedEnv(to_gymnasium("paper"), paper.minimal, 1)


def test_a_learned_shield_goes_around_the_model_that_it_was_learned_from():
    """It knows at least what may happen where it allows something; that it is another model does not matter."""
    mdp = asure.example("hazard-map")
    learned = asure.OnlineShield(mdp, known=asure.learn.count_outcomes(mdp, seed=0, samples=100), needed=50).freeze()
    assert learned.mdp != mdp
    assert play(ShieldedEnv(to_gymnasium(mdp, max_episode_steps=40), learned, 3), 400, budget=3)[1] <= 3
    certain, maybe = (asure.example("paper", damage_probability=p) for p in (1.0, 0.5))
    ShieldedEnv(to_gymnasium(certain), shield_of(maybe), 1)
    with pytest.raises(ModelMismatch, match=r"leads from .*left.* to state 0 'circle' with damage 0.* impossible"):
        ShieldedEnv(to_gymnasium(maybe), shield_of(certain), 1)
    ends = asure.from_transitions([0], [0], [1], [1.0], [0.0], [0], terminal=[1])
    stays = asure.from_transitions([0, 1], [0, 0], [1, 1], [1.0, 1.0], [0.0, 1.0], [0, 0], num_states=2)
    with pytest.raises(ModelMismatch, match="to state 1 with damage 0, where it ends: the shield's model says"):
        ShieldedEnv(to_gymnasium(ends), shield_of(stays), 1)


def test_another_map_of_the_same_size_is_noticed_at_once():
    lake = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    other = gymnasium.make("FrozenLake-v1", desc=["SFFF", "FFFF", "FFFF", "FFFG"])
    with pytest.raises(ModelMismatch, match=r"the environment leads from .* where it goes on: .*another map\?"):
        ShieldedEnv(other, shield_of(lake), 0)


def test_what_only_looks_like_a_model_is_not_compared():
    class Other(gymnasium.Wrapper):
        pass

    env = to_gymnasium("paper")
    shield = shield_of(env.mdp)
    env.mdp, env.P = "something else", [[("no", "table")]]
    with pytest.raises(AttributeError, match="'str' object has no attribute"):  # the environment's own trouble
        ShieldedEnv(Other(env), shield, 1).reset()


def test_a_stale_model_is_noticed_when_it_shows():
    mdp = asure.from_map("S.G", goal_reward=1.0)
    changed = asure.from_map("S.G", slip=0.1, goal_reward=1.0)
    env = to_gymnasium(asure.from_map("SG."))  # the same size, another map; hidden behind state_of
    env = ShieldedEnv(env, shield_of(mdp), 0, state_of=lambda seen, env: seen)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match=r"ended its episode in state 1 'r0c1' after .* where the model goes on"):
        env.step(1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):  # it fails closed
        env.step(1)
    assert changed.num_states == mdp.num_states
    renumbered = TransformAction(to_gymnasium(mdp), lambda action: (action + 2) % 4, Discrete(4))
    env = ShieldedEnv(renumbered, shield_of(mdp), 0)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match=r"from .*state 0 'r0c0', action 'west'\) to state 1 'r0c1'.*impossible"):
        env.step(3)


@pytest.mark.parametrize("seen", [17, -1, "nowhere", 0.5, None, np.zeros(3)])
def test_observations_that_are_no_states_fail_closed(seen):
    env = ShieldedEnv(to_gymnasium("paper"), shield_of(asure.example("paper")), 1, state_of=lambda o, env: seen)
    with pytest.raises(ModelError, match=r"state_of must return a state 0 … 1.* observation np.int64\(0\)"):
        env.reset(seed=0)


def test_states_may_be_named():
    env = to_gymnasium("paper")
    names = ("circle", "square")
    env = ShieldedEnv(env, shield_of(env.mdp), 1, state_of=lambda seen, env: names[seen])
    env.reset(seed=0)
    assert env.step(0)[4]["remaining"] == 0


def test_observations_without_a_meaning_need_one():
    with pytest.raises(ArgumentError, match=r"observations of Box.* are not states of a model. Pass state_of"):
        ShieldedEnv(gymnasium.make("CartPole-v1"), shield_of(asure.example("paper")), 1)
    with pytest.raises(ArgumentError, match="state_of must be a function"):
        shielded("paper", 1, state_of=3)


def test_continuous_actions_are_refused_with_a_way_out():
    with pytest.raises(ArgumentError, match=r"discrete actions .* Box.*TransformAction"):
        ShieldedEnv(gymnasium.make("Pendulum-v1"), shield_of(asure.example("paper")), 1)


# ---------------------------------------------------------------------- damage


def test_the_model_knows_the_damage_where_it_is_unique():
    def hurts(s, a, s2, r, terminated):
        return int(r == -100)

    cliff = shield_of(asure.from_gymnasium("CliffWalking-v1", hurts))
    env = ShieldedEnv(gymnasium.make("CliffWalking-v1"), cliff, 1)
    env.reset(seed=0)
    assert env.step(1)[4]["damage"] == 1  # over the cliff
    slippery = shield_of(asure.from_gymnasium("CliffWalking-v1", hurts, is_slippery=True))
    env = ShieldedEnv(gymnasium.make("CliffWalking-v1", is_slippery=True), slippery, 2)
    assert play(env, 2000, budget=2)[1] == 2  # what hurts there is well known
    twice = shield_of(asure.from_gymnasium("CliffWalking-v1", lambda *step: 2 * hurts(*step), is_slippery=True))
    env = ShieldedEnv(gymnasium.make("CliffWalking-v1", is_slippery=True), twice, 2)
    env.reset(seed=0)
    with pytest.raises(ModelError, match=r"may do 0, 2, and the environment's info has no 'damage'. .*DamageTracker"):
        play(env, 1000, budget=2)
    env = ShieldedEnv(DamageTracker(gymnasium.make("CliffWalking-v1", is_slippery=True), hurts), slippery, 2)
    assert play(env, 2000, budget=2)[1] == 2


@pytest.mark.parametrize("said", [-1, 0.5, "much", 256, np.nan])
def test_damage_that_is_no_damage_is_refused(said):
    class Hurts(gymnasium.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "damage": said}

    mdp = asure.example("paper")
    env = ShieldedEnv(Hurts(to_gymnasium(mdp)), shield_of(mdp), 3)
    env.reset(seed=0)
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .* at choice 0"):
        env.step(0)


def test_damage_that_the_model_excludes_is_refused():
    mdp = asure.example("paper")
    env = ShieldedEnv(DamageTracker(to_gymnasium(mdp), lambda *step: 2), shield_of(mdp), 3)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match="with damage 2, which the shield's model says is impossible"):
        env.step(0)


def test_a_cost_is_compared_like_damage():
    class Costs(gymnasium.Wrapper):
        cost = 1

        def step(self, action):
            return *self.env.step(action)[:4], {"cost": self.cost}

    mdp = asure.example("paper")
    env = ShieldedEnv(Costs(to_gymnasium(mdp)), shield_of(mdp), 3)
    env.reset(seed=0)
    info = env.step(0)[4]
    assert (info["cost"], info["damage"], info["remaining"]) == (1, 1, 2)
    env.env.cost = 0
    with pytest.raises(ModelMismatch, match="with damage 0, which the shield's model says is impossible"):
        env.step(0)
    many = ShieldedVectorEnv(SyncVectorEnv([lambda: Costs(to_gymnasium(mdp))] * 2), shield_of(mdp), 3)
    many.reset(seed=0)
    assert many.step(np.array([0, 0]))[4]["damage"].tolist() == [1, 1]
    many.env.envs[1].cost = 2
    with pytest.raises(ModelMismatch, match="with damage 2, which the shield's model says is impossible"):
        many.step(np.array([0, 0]))


def test_damage_that_is_true_is_one():
    mdp = asure.example("paper")
    says = DamageTracker(to_gymnasium(mdp), lambda s, a, s2, r, terminated: r > 0)  # NumPy's or Python's
    env = ShieldedEnv(says, shield_of(mdp), 3)
    env.reset(seed=0)
    assert env.step(0)[4]["damage"] == 1

    class Hurts(gymnasium.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "damage": info["damage"] > 0}

    one = ShieldedEnv(Hurts(to_gymnasium(mdp)), shield_of(mdp), 3)
    many = ShieldedVectorEnv(SyncVectorEnv([lambda: Hurts(to_gymnasium(mdp))]), shield_of(mdp), 3)
    for env, action in ((one, 0), (many, np.array([0]))):
        env.reset(seed=0)
        assert env.step(action)[4]["remaining"] == 2


def test_what_should_not_be_is_in_the_ledger():
    """A stale model cannot prevent damage, but the ledger must have it."""

    class Worse(gymnasium.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "damage": 7}

    mdp = asure.example("paper")
    one = ShieldedEnv(Worse(to_gymnasium(mdp)), shield_of(mdp), 2)
    many = ShieldedVectorEnv(
        SyncVectorEnv([lambda: to_gymnasium(mdp), lambda: Worse(to_gymnasium(mdp))]), shield_of(mdp), 2
    )
    for env, action in ((one, 0), (many, np.array([0, 0]))):
        env.reset(seed=0)
        with pytest.raises(ModelMismatch, match="with damage 7"):
            env.step(action)
        (violation,) = env.ledger.violations
        assert (violation.state, violation.action, violation.damage, violation.remaining) == (0, 0, 7, 2)
        assert (env.ledger.worst, env.ledger.episodes) == (7, np.size(action))
        assert "took 7 with 2 left" in str(env.ledger)
        env.reset(seed=0)
        assert env.ledger.episodes == np.size(action)


def test_a_reset_that_hurts_is_refused():
    class Hurts(gymnasium.Wrapper):
        def reset(self, **options):
            state, info = self.env.reset(**options)
            return state, {**info, "damage": 1}

    mdp = asure.example("paper")
    with pytest.raises(ModelError, match="a reset must do no damage"):
        ShieldedEnv(Hurts(to_gymnasium(mdp)), shield_of(mdp), 3).reset()


def test_an_end_that_the_model_has_elsewhere_is_found():
    """In Taxi, an episode ends in a state in which others go on; the model has one more state for the end."""
    mdp = asure.from_gymnasium("Taxi-v4", lambda s, a, s2, r, terminated: int(r == -10))
    solution = asure.solve_policy(mdp, asure.AlmostSure(0))
    env = ShieldedEnv(gymnasium.make("Taxi-v4"), shield_of(mdp), 0, observe="none")
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        terminated = False
        while not terminated:
            state, _, terminated, truncated, _ = env.step(solution.policy.act(int(state), 0))
            assert not truncated


def test_several_ends_are_not_guessed():
    """One of two ends hurts: whoever guesses may miss the damage."""
    mdp = asure.from_transitions([0, 0], [0, 0], [1, 2], [0.5, 0.5], [0, 0], [0, 1], terminal=[1, 2])

    class Hides(gymnasium.ObservationWrapper):
        def observation(self, state):
            return np.int64(0)

    env = ShieldedEnv(Hides(to_gymnasium(mdp)), shield_of(mdp), 1)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match=r"ended its episode in state 0 .* where the model goes on.* pass state_of"):
        env.step(0)


# ---------------------------------------------------------------------- guards that carry more


def road():
    """Cross the road at once, at a risk of 10 %, or walk round it for nothing."""
    rows = [(0, 0, 0, 0.9, 5, 0), (0, 0, 0, 0.1, 5, 1), (0, 1, 1, 1, 0, 0)]
    return asure.from_transitions(*zip(*rows, strict=True), terminal=[1])


def test_a_guard_may_carry_more_than_what_remains():
    mdp = road()
    shield = asure.RiskShield(mdp, budget=1, risk=0.25)
    env = ShieldedEnv(to_gymnasium(mdp, max_episode_steps=30), shield, 1)
    assert env.observation_space == Dict(
        observation=Discrete(2), remaining=Discrete(2), risk=Box(0, 1, (1,), np.float32)
    )
    seen, info = env.reset(seed=0)
    assert (seen["remaining"], float(seen["risk"][0]), info["risk"]) == (1, 0.25, 0.25)
    rng, over, episodes = np.random.default_rng(0), 0, 0
    while episodes < 300:
        mask = env.action_masks()
        assert np.array_equal(
            mask, shield.mask(np.array([seen["observation"]]), [info["remaining"]], [info["risk"]])[0]
        )
        seen, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        over += info.get("violation", False)
        if terminated or truncated:
            episodes += 1
            seen, info = env.reset()
    assert 0 < over < 0.25 * 300 + 3 * np.sqrt(300 * 0.25 * 0.75)
    assert len(env.ledger.violations) == over
    assert {violation.remaining for violation in env.ledger.violations} == {0}


def test_nor_does_a_vector_know_what_is_carried():
    mdp = road()
    shield = asure.RiskShield(mdp, budget=1, risk=0.25)
    copies = SyncVectorEnv([lambda: to_gymnasium(mdp, max_episode_steps=30)] * 20)
    envs = ShieldedVectorEnv(copies, shield, 1, normalised=True)
    assert envs.single_observation_space == Box(0, 1, (4,), np.float32)  # the state one-hot, remaining and risk
    seen, infos = envs.reset(seed=0)
    rng, over = np.random.default_rng(0), 0
    for _ in range(200):
        assert envs.observation_space.contains(seen)
        masks = infos["action_mask"]
        seen, _, _, _, infos = envs.step((rng.random(masks.shape) * masks).argmax(axis=1))
        over += np.count_nonzero(infos.get("violation", False))
    assert 0 < over == len(envs.ledger.violations) < 0.3 * envs.ledger.episodes


# ---------------------------------------------------------------------- learning while it runs


def test_an_online_shield_learns_and_its_violations_are_few():
    mdp = asure.example("hazard-map")
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = ShieldedEnv(to_gymnasium(mdp, max_episode_steps=50), shield, 1)
    rng, ends = np.random.default_rng(0), []
    env.reset(seed=0)
    for _ in range(4000):
        *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
        if terminated or truncated:
            ends.append("violation" if info.get("violation") else "stuck" if info.get("stuck") else "")
            assert (info["remaining"] < 0) == (ends[-1] == "violation")
            env.reset()
    damaging = int(np.count_nonzero(mdp.damage))
    assert 0 < ends.count("violation") == len(shield.ledger.violations) <= damaging
    assert env.ledger is shield.ledger
    assert (shield.ledger.steps, shield.ledger.episodes) == (4000, len(ends))


def test_an_online_shield_takes_advice_too():
    mdp = asure.example("hazard-map")
    best = asure.solve_policy(mdp, asure.AlmostSure(3))
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = ShieldedEnv(to_gymnasium(mdp, max_episode_steps=50), shield, 3, forbidden="replace", fallback=best)
    env.reset(seed=0)
    for _ in range(1000):
        *_, terminated, truncated, _ = env.step(1)
        if terminated or truncated:
            env.reset()
    assert shield.ledger.interventions > 0


def test_an_online_shield_learns_where_episodes_end():
    """It refuses what it does not know, so it must get to know that nothing happens at the end."""
    mdp = asure.example("paper")
    shield = asure.OnlineShield(mdp, unknown="refuse", needed=2)
    for _ in range(2):
        shield.watch("circle", "left", "circle", 1)
        shield.watch("circle", "right", "square", 0)
    with pytest.raises(Infeasible, match="as far as is known"):
        ShieldedEnv(to_gymnasium(mdp), shield, 3)
    for _ in range(2):
        shield.watch("square", "left", "square", 0)
    env = ShieldedEnv(to_gymnasium(mdp), shield, 3)
    env.reset(seed=0)
    assert env.step(1)[2]
    assert shield.allowed("square", 0).tolist() == [0]


def test_an_online_shield_ends_in_the_extra_state():
    """In Taxi, episodes end in states in which others go on."""
    mdp = asure.from_gymnasium("Taxi-v4", lambda s, a, s2, r, terminated: int(r == -10))
    best = asure.solve_policy(mdp, asure.AlmostSure(0)).policy
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = DamageTracker(gymnasium.make("Taxi-v4"), lambda s, a, s2, r, terminated: int(r == -10))
    env = ShieldedEnv(env, shield, 0, observe="none")
    for seed in range(10):
        state, _ = env.reset(seed=seed)
        over = False
        while not over:
            state, _, over, truncated, _ = env.step(best.act(int(state), 0))
            assert not truncated
    assert 500 in shield.counts.next_state
    assert not shield.ledger.violations


def test_a_state_cannot_both_end_and_go_on():
    class Ends(gymnasium.Wrapper):
        """Episodes end after every step, wherever they are, but once they do not."""

        calls = 0

        def step(self, action):
            state, reward, _, truncated, info = self.env.step(action)
            Ends.calls += 1
            return state, reward, Ends.calls == 1, truncated, info

    mdp = asure.from_map("S..G")
    env = ShieldedEnv(Ends(to_gymnasium(mdp)), asure.OnlineShield(mdp, unknown="allow"), 1)
    env.reset(seed=0)
    assert env.step(1)[2]
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(ModelError, match="one episode ended in state 1 'r0c1', and another went on from there"):
        env.step(1)


class EndsAtOnce(gymnasium.Wrapper):
    def step(self, action):
        state, reward, _, truncated, info = self.env.step(action)
        return state, reward, True, truncated, info


@pytest.mark.parametrize("first", ["ends", "goes on"])
def test_nor_can_it_for_others_with_the_same_shield(first):
    mdp = asure.from_map("S..G")
    shield = asure.OnlineShield(mdp, unknown="allow")
    ends, goes = (ShieldedEnv(env, shield, 1) for env in (EndsAtOnce(to_gymnasium(mdp)), to_gymnasium(mdp)))
    ends.reset(seed=0)
    goes.reset(seed=0)
    goes.step(1)
    first, second = (ends, goes) if first == "ends" else (goes, ends)
    first.step(1)
    with pytest.raises(ModelError, match="one episode ended in state 1 'r0c1', and another went on from there"):
        second.step(1)


def test_an_online_shield_may_start_at_an_end():
    mdp = asure.from_transitions([0], [0], [1], [1.0], [0.0], [0], terminal=[1], initial={1: 1.0})
    env = ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp, unknown="allow"), 1)
    for _ in range(3):
        env.reset(seed=0)
        assert env.step(0)[2]


@pytest.mark.parametrize("forbidden", ["raise", "replace"])
def test_what_one_environment_learns_holds_for_all_that_share_its_shield(forbidden):
    """Masks were shown to both before; the second must not repeat what has just hurt the first."""
    mdp = asure.example("paper")
    shield = asure.OnlineShield(mdp, unknown="allow")
    first, second = (ShieldedEnv(to_gymnasium(mdp), shield, 0, forbidden=forbidden) for _ in range(2))
    assert all(env.reset(seed=0)[1]["action_mask"].all() for env in (first, second))
    assert first.step(0)[-1]["violation"]
    *_, terminated, _, info = second.step(0)
    assert (terminated, info["remaining"], info["interventions"]) == (True, 0, 1)
    assert len(shield.ledger.violations) == 1
    second.reset(seed=0)
    assert second.action_masks().tolist() == [False, True]
    if forbidden == "raise":  # now it has seen the mask
        with pytest.raises(NoSafeAction, match="left is not allowed"):
            second.step(0)


def test_an_episode_is_broken_off_where_others_learned_that_nothing_is_safe():
    mdp = asure.example("paper")
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = ShieldedEnv(to_gymnasium(mdp), shield, 0)
    seen, _ = env.reset(seed=0)
    for action in (0, 1):
        shield.watch("circle", action, "square", 1)
    after, reward, terminated, truncated, info = env.step(1)
    assert (after.tolist(), reward, terminated, truncated, info["stuck"]) == (seen.tolist(), 0.0, False, True, True)
    assert env.unwrapped._state == 0  # nothing was played
    assert env.action_masks().any()
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(1)


def test_an_online_shield_must_be_told_the_damage():
    cart, options = gymnasium.make("CartPole-v1"), {"num_states": 2, "encode": lambda seen: int(seen[0] > 0)}
    env = ShieldedEnv(cart, asure.OnlineShield(cart, unknown="allow", **options), 1, observe="dict")
    env.reset(seed=0)
    with pytest.raises(ModelError, match=r"must be told the damage .* DamageTracker"):
        env.step(0)


def test_a_careful_online_shield_refuses_what_it_does_not_know():
    mdp = asure.example("paper")
    with pytest.raises(Infeasible, match="not enough at the start, as far as is known"):
        ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp), 5)
    known = asure.learn.count_outcomes(mdp, seed=0, samples=50)
    env = ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp, known=known), 2)
    assert play(env, 50, budget=2)[1] == 2
