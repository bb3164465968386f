"""``ShieldedEnv``: no episode takes more damage than its budget."""

import copy
import json
import pickle
from decimal import Decimal

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit, TransformAction
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
from almostsure.errors import ArgumentError, Infeasible, ModelError, ModelMismatch, NoSafeAction, UnknownName
from almostsure.gym import DamageTracker, ShieldedEnv, ShieldedVectorEnv, to_gymnasium
from almostsure.learn import OnlineShield
from almostsure.testing import mdps

from .made import shield_of, shielded


@given(mdps(), st.integers(0, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_no_episode_overspends_and_no_mask_is_empty(play, mdp, more, seed):
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


def test_more_budget_allows_more(play):
    mdp = asure.example("hazard-map")
    worst = [play(shielded(mdp, budget), 3000, budget=budget)[1] for budget in (0, 1, 3)]
    assert worst == [0, 1, 3]


def test_forbidden_actions_are_refused():
    env = shielded("paper", 0)
    env.reset(seed=0)
    with pytest.raises(NoSafeAction, match=r"left is not allowed at state 0 'circle' with 0 left; allowed: right") as e:
        env.step(0)
    assert (e.value.state, e.value.remaining) == (0, 0)
    assert env.step(1)[2]  # the episode can continue


def test_forbidden_actions_are_refused_at_every_step():
    """Also actions that become forbidden during the episode."""
    env = shielded("paper", 2)
    env.reset(seed=0)
    assert env.action_masks().all()
    for _ in range(2):
        env.step(0)  # left does 1 damage
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


def test_or_replaced_and_reported():
    env = shielded("paper", 1, forbidden="replace")
    _, info = env.reset(seed=0)
    assert (info["executed_action"], info["replaced"]) == (-1, False)
    info = env.step(0)[4]
    assert (info["executed_action"], info["replaced"], info["interventions"]) == (0, False, 0)
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["interventions"], info["damage"]) == (0, True, 1, 0)
    assert (info["executed_action"], info["replaced"]) == (1, True)  # the action to store in a replay buffer
    assert env.reset()[1]["interventions"] == 0
    assert env.ledger.interventions == 1


def test_without_a_fallback_the_action_with_the_least_minimal_budget_replaces():
    """Also if all actions would be allowed with the remaining budget."""
    mdp = asure.from_transitions([0, 0, 0, 1], [0, 1, 2, 0], [2, 1, 2, 2], [1] * 4, [0] * 4, [9, 2, 1, 1], terminal=[2])
    env = ShieldedEnv(to_gymnasium(mdp), shield_of(mdp), 7, forbidden="replace")
    env.reset(seed=0)
    assert env.step(0)[4]["executed_action"] == 2  # needs 1; action 1 needs 3, and action 0 needs 9


def test_the_best_policy_as_fallback_has_a_larger_return():
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
def test_values_that_are_not_actions_are_never_played(action):
    env = shielded("paper", 1, forbidden="replace")
    env.reset(seed=0)
    with pytest.raises(ArgumentError, match=r"an action must be one of Discrete\(2\)"):
        env.step(action)


@pytest.mark.parametrize("action", [0, np.int64(0), np.array(0), np.array([0]), np.uint8(0)])
def test_actions_of_any_integer_type_are(action):
    env = shielded("paper", 1)
    env.reset(seed=0)
    assert env.step(action)[4]["damage"] == 1


def test_before_the_first_reset_and_after_the_end_only_reset_works():
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
    assert info["action_mask"].tolist() == [1, 1]  # of a nonterminal state
    outer = TimeLimit(shielded("paper", 5), 2)
    for _ in range(3):
        assert outer.reset()[1]["remaining"] == 5
        assert [outer.step(0)[3] for _ in range(2)] == [False, True]
    assert outer.get_wrapper_attr("ledger").episodes == 2  # the third is not over yet


def test_copies_and_pickles_continue_from_the_state_of_the_original():
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


def test_a_budget_that_is_too_small_is_refused_with_the_needed_one():
    with pytest.raises(Infeasible, match=r"a budget of 1 is not enough at the start: state 11 'r2c2' needs 2") as e:
        shielded("quicksand", 1)
    assert e.value.needed == 2
    for budget in (-1, 1.5, "two", float("nan"), 2**31, 2**63):
        with pytest.raises(ArgumentError, match="budget must be"):
            shielded("paper", budget)


def test_a_model_of_another_map_is_noticed_when_an_outcome_differs():
    mdp = asure.from_map("S.G", goal_reward=1.0)
    changed = asure.from_map("S.G", slip=0.1, goal_reward=1.0)
    env = to_gymnasium(asure.from_map("SG."))  # the same size, another map; hidden behind state_of
    env = ShieldedEnv(env, shield_of(mdp), 0, state_of=lambda seen, env: seen)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match=r"terminated in state 1 'r0c1' after .* where the model continues"):
        env.step(1)
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):  # it must be reset after the error
        env.step(1)
    assert changed.num_states == mdp.num_states
    renumbered = TransformAction(to_gymnasium(mdp), lambda action: (action + 2) % 4, Discrete(4))
    env = ShieldedEnv(renumbered, shield_of(mdp), 0)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match=r"from .*state 0 'r0c0', action 'west'\) to state 1 'r0c1'.*impossible"):
        env.step(3)


@pytest.mark.parametrize("seen", [17, -1, "nowhere", 0.5, None, np.zeros(3)])
def test_observations_that_are_not_states_are_refused(seen):
    env = ShieldedEnv(to_gymnasium("paper"), shield_of(asure.example("paper")), 1, state_of=lambda o, env: seen)
    with pytest.raises(ModelError, match=r"state_of must return a state 0 … 1.* observation np.int64\(0\)"):
        env.reset(seed=0)


def test_states_may_be_named():
    env = to_gymnasium("paper")
    names = ("circle", "square")
    env = ShieldedEnv(env, shield_of(env.mdp), 1, state_of=lambda seen, env: names[seen])
    env.reset(seed=0)
    assert env.step(0)[4]["remaining"] == 0


def test_damage_is_looked_up_in_the_model_if_it_is_unique_there(play):
    def hurts(s, a, s2, r, terminated):
        return int(r == -100)

    cliff = shield_of(asure.from_gymnasium("CliffWalking-v1", hurts))
    env = ShieldedEnv(gymnasium.make("CliffWalking-v1"), cliff, 1)
    env.reset(seed=0)
    assert env.step(1)[4]["damage"] == 1  # over the cliff
    slippery = shield_of(asure.from_gymnasium("CliffWalking-v1", hurts, is_slippery=True))
    env = ShieldedEnv(gymnasium.make("CliffWalking-v1", is_slippery=True), slippery, 2)
    assert play(env, 2000, budget=2)[1] == 2  # damages of well-known environments are built in
    twice = shield_of(asure.from_gymnasium("CliffWalking-v1", lambda *step: 2 * hurts(*step), is_slippery=True))
    env = ShieldedEnv(gymnasium.make("CliffWalking-v1", is_slippery=True), twice, 2)
    env.reset(seed=0)
    with pytest.raises(ModelError, match=r"may do 0, 2, and the environment's info has no 'damage'. .*DamageTracker"):
        play(env, 1000, budget=2)
    env = ShieldedEnv(DamageTracker(gymnasium.make("CliffWalking-v1", is_slippery=True), hurts), slippery, 2)
    assert play(env, 2000, budget=2)[1] == 2


@pytest.mark.parametrize("said", [-1, 0.5, "much", "1", 256, 2**70, np.nan, 1j])
def test_values_that_are_not_damages_are_refused(said):
    class Hurts(gymnasium.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "damage": said}

    mdp = asure.example("paper")
    env = ShieldedEnv(Hurts(to_gymnasium(mdp)), shield_of(mdp), 3)
    env.reset(seed=0)
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .* at choice 0"):
        env.step(0)
    copies = [lambda: to_gymnasium(mdp), lambda: Hurts(to_gymnasium(mdp))]
    for order in (copies, copies[::-1]):
        envs = ShieldedVectorEnv(SyncVectorEnv(order), env.guarded.guard, 3)
        envs.reset(seed=0)
        with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .* at choice 0"):
            envs.step(np.array([0, 0]))


@pytest.mark.parametrize("guard", [asure.Shield, lambda minimal: asure.RiskShield(minimal.mdp, 3, 0.5)])
@pytest.mark.parametrize("said", [1 + 0j, Decimal(1)])
def test_values_that_equal_a_damage_are_refused_even_if_that_damage_was_cached(guard, said):
    mdp = asure.example("paper")
    says = iter([1, said, said])
    env = ShieldedEnv(DamageTracker(to_gymnasium(mdp), lambda *step: 0), guard(asure.minimal_budget(mdp)), 3)
    env.env.step = lambda action: (np.int64(0), 1.0, False, False, {"damage": next(says)})
    env.reset(seed=0)
    env.step(0)
    for _ in range(2):
        env.reset(seed=0)
        with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .* at choice 0"):
            env.step(0)
    run = env.guarded.guard.begin(0, 3)
    with pytest.raises(ModelError, match=r"damage must be an integer 0 … 255; got .* at choice 0"):
        env.guarded.guard.after(run, 0, 0, said)


def test_damage_that_the_model_excludes_is_refused():
    mdp = asure.example("paper")
    env = ShieldedEnv(DamageTracker(to_gymnasium(mdp), lambda *step: 2), shield_of(mdp), 3)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match="with damage 2, which the shield's model says is impossible"):
        env.step(0)


class WalkOrJump(gymnasium.Env):
    """Action 0 walks and action 1 jumps, with damage; both end the episode."""

    observation_space, action_space = Discrete(2), Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 1, 0.0, True, False, {"cost": int(action)}


def test_actions_in_another_order_are_named_in_the_error_and_action_names_helps():
    def model(**names):
        return asure.from_function(
            lambda state, action: [(1, 1, 0, int(action == "jump"))],
            initial=0,
            actions=lambda state: [] if state else ["jump", "walk"],
            **names,
        )

    env = ShieldedEnv(WalkOrJump(), shield_of(model()), 0)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [0, 1]
    with pytest.raises(
        ModelMismatch, match=r"in another order, since in the model action 'jump' does this: .*action_n"
    ):
        env.step(1)
    env = ShieldedEnv(WalkOrJump(), shield_of(model(action_names=["walk", "jump"])), 0)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [1, 0]
    assert env.step(0)[4]["damage"] == 0


def test_a_cost_is_compared_with_the_model_like_damage():
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


@pytest.mark.parametrize("online", [False, True])
def test_the_ledger_counts_the_steps_of_unfinished_episodes(online):
    mdp = asure.example("corridor")
    guard = OnlineShield(mdp, unknown="allow") if online else asure.Shield(asure.minimal_budget(mdp))
    env = ShieldedEnv(to_gymnasium(mdp), guard, 3)
    _, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(100):
        *_, terminated, truncated, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        if terminated or truncated:
            finished, (_, info) = env.ledger.steps, env.reset()
    assert (env.ledger.steps, env.ledger.finished) == (100, finished)
    assert f"\n{100 - finished} steps of unfinished episodes, whose damage" in str(env.ledger)


def test_violations_of_a_wrong_model_are_in_the_ledger():
    """A shield of a wrong model cannot prevent damage, but the ledger must record it."""

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


def test_an_episode_after_an_error_has_a_new_number(tmp_path):
    mdp = asure.example("paper")
    env = DamageTracker(to_gymnasium(mdp), lambda *step: 2)
    env = ShieldedEnv(env, shield_of(mdp), 3, ledger=tmp_path / "run.jsonl")
    for _ in range(2):
        env.reset(seed=0)
        with pytest.raises(ModelMismatch, match="with damage 2"):
            env.step(0)
    assert [json.loads(line)["number"] for line in (tmp_path / "run.jsonl").read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize("said", ["damage", "cost"])
def test_a_reset_with_damage_is_refused(said):
    class Hurts(gymnasium.Wrapper):
        def reset(self, **options):
            state, info = self.env.reset(**options)
            info.pop("damage", None)
            return state, {**info, said: 1}

    mdp = asure.example("paper")
    with pytest.raises(ModelError, match=rf"a reset must do no damage; info\['{said}'\] is 1"):
        ShieldedEnv(Hurts(to_gymnasium(mdp)), shield_of(mdp), 3).reset()
    copies = SyncVectorEnv([lambda: Hurts(to_gymnasium(mdp))] * 2)
    with pytest.raises(ModelError, match=rf"a reset must do no damage; infos\['{said}'\] of environment 0 is"):
        ShieldedVectorEnv(copies, shield_of(mdp), 3).reset()


def test_terminated_episodes_move_to_the_end_state_of_the_model():
    """In Taxi, episodes end in states from which others continue; the model has a further state for the end."""
    mdp = asure.from_gymnasium("Taxi-v4", lambda s, a, s2, r, terminated: int(r == -10))
    solution = asure.solve_policy(mdp, asure.AlmostSure(0))
    env = ShieldedEnv(gymnasium.make("Taxi-v4"), shield_of(mdp), 0, observe="none")
    for seed in range(5):
        state, _ = env.reset(seed=seed)
        terminated = False
        while not terminated:
            state, _, terminated, truncated, _ = env.step(solution.policy.act(int(state), 0))
            assert not truncated


def test_ambiguous_ends_are_refused():
    """One of two ends does damage, so choosing one of them may miss it."""
    mdp = asure.from_transitions([0, 0], [0, 0], [1, 2], [0.5, 0.5], [0, 0], [0, 1], terminal=[1, 2])

    class Hides(gymnasium.ObservationWrapper):
        def observation(self, state):
            return np.int64(0)

    env = ShieldedEnv(Hides(to_gymnasium(mdp)), shield_of(mdp), 1)
    env.reset(seed=0)
    with pytest.raises(ModelMismatch, match=r"terminated in state 0 .* where the model continues.* pass state_of"):
        env.step(0)


def road():
    """Cross the road at once with a risk of 10 %, or walk around it safely."""
    rows = [(0, 0, 0, 0.9, 5, 0), (0, 0, 0, 0.1, 5, 1), (0, 1, 1, 1, 0, 0)]
    return asure.from_transitions(*zip(*rows, strict=True), terminal=[1])


def test_a_guard_may_carry_more_than_the_remaining_budget():
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


def test_vectors_show_all_carried_quantities():
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


class Moody:
    """A user's guard, which allows less after its first step."""

    carries = ("remaining",)

    def __init__(self, mdp):
        self.space, self.steps = mdp, 0

    def begin(self, state, budget):
        return state, budget

    def allowed(self, state, remaining):
        return np.array([1]) if self.steps else np.array([0, 1])

    def mask(self, states, remaining):
        return np.array([np.isin([0, 1], self.allowed(state, 0)) for state in states])

    def after(self, run, action, next_state, damage=None):
        self.steps += 1
        return next_state, run[1] - damage


def test_the_answers_of_a_guard_that_may_change_are_not_cached():
    env = ShieldedEnv(to_gymnasium("paper"), Moody(asure.example("paper")), 3)
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, True]
    env.step(0)
    env.reset()
    assert env.action_masks().tolist() == [False, True]
    assert shield_of(asure.example("paper")).is_fixed


def test_the_budget_cannot_be_changed_where_that_would_change_nothing():
    paper = asure.example("paper")
    single = ShieldedEnv(to_gymnasium("paper"), shield_of(paper), 2)
    vector = ShieldedVectorEnv(SyncVectorEnv([lambda: to_gymnasium("paper")] * 2), shield_of(paper), 2)
    for env in (single, vector):
        with pytest.raises(AttributeError, match=r"'budget' of .* has no setter"):
            env.budget = 0
        assert env.budget == 2


def test_a_function_is_a_fallback_inside_a_learned_shield():
    learned = asure.learn_minimal_budget("FrozenLake-v1", mu=0.3, delta=0.1, budget=0, seed=0)
    assert learned.mdp.unknown is not None
    env = ShieldedEnv(
        gymnasium.make("FrozenLake-v1"), learned.shield, 0, forbidden="replace", fallback=lambda state, remaining: 3
    )
    env.reset(seed=0)
    env.step(1)
    assert env.ledger.worst == 0
