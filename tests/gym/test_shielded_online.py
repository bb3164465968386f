"""Environments with an online shield."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError, Infeasible, ModelError, NoSafeAction
from almostsure.gym import DamageTracker, ShieldedEnv, to_gymnasium


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


def test_an_online_shield_uses_the_fallback():
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
    """It refuses unknown actions, so it must learn that terminal states are absorbing."""
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


def test_terminated_episodes_of_taxi_move_to_the_end_state():
    """In Taxi, episodes end in states from which others continue."""
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


def test_a_state_cannot_be_both_terminal_and_nonterminal():
    class Ends(gymnasium.Wrapper):
        """Episodes end after every step, in every state, except once."""

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
def test_nor_can_it_in_another_environment_with_the_same_shield(first):
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


def test_an_online_shield_may_start_in_a_terminal_state():
    mdp = asure.from_transitions([0], [0], [1], [1.0], [0.0], [0], terminal=[1], initial={1: 1.0})
    env = ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp, unknown="allow"), 1)
    for _ in range(3):
        env.reset(seed=0)
        assert env.step(0)[2]


@pytest.mark.parametrize("forbidden", ["raise", "replace"])
def test_environments_that_share_a_shield_learn_from_each_other(forbidden):
    """Both have shown masks; the second must not repeat the action that did damage in the first."""
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
    if forbidden == "raise":  # after the new mask was shown
        with pytest.raises(NoSafeAction, match="left is not allowed"):
            second.step(0)


@pytest.mark.parametrize("asks", [False, True])
def test_an_episode_is_truncated_if_others_learned_that_no_action_is_safe(asks):
    """Also if the agent asks for the mask before it steps, as MaskablePPO does."""
    mdp = asure.example("paper")
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = ShieldedEnv(to_gymnasium(mdp), shield, 0)
    seen, _ = env.reset(seed=0)
    for action in (0, 1):
        shield.watch("circle", action, "square", 1)
    if asks:
        assert env.action_masks().all()
    after, reward, terminated, truncated, info = env.step(1)
    assert (after.tolist(), reward, terminated, truncated, info["stuck"]) == (seen.tolist(), 0.0, False, True, True)
    assert env.unwrapped._state == 0  # nothing was played
    assert env.action_masks().any()
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        env.step(1)


def test_environments_of_an_online_shield_must_report_damage():
    cart, options = gymnasium.make("CartPole-v1"), {"num_states": 2, "encode": lambda seen: int(seen[0] > 0)}
    env = ShieldedEnv(cart, asure.OnlineShield(cart, unknown="allow", **options), 1, observe="dict")
    env.reset(seed=0)
    with pytest.raises(ModelError, match=r"must be told the damage .* DamageTracker"):
        env.step(0)


def test_a_careful_online_shield_refuses_unknown_actions(play):
    mdp = asure.example("paper")
    with pytest.raises(Infeasible, match="not enough at the start, as far as is known"):
        ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp), 5)
    known = asure.learn.count_outcomes(mdp, seed=0, samples=50)
    env = ShieldedEnv(to_gymnasium(mdp), asure.OnlineShield(mdp, known=known), 2)
    assert play(env, 50, budget=2)[1] == 2


def test_an_online_shield_can_be_made_from_the_spaces_of_an_environment():
    """Taxi's episodes end where others continue, and it has 300 initial states."""
    taxi = gymnasium.make("Taxi-v4")
    shield = asure.OnlineShield(taxi, unknown="allow")
    env = ShieldedEnv(taxi, shield, 1)
    rng = np.random.default_rng(0)
    for seed in range(6):
        env.reset(seed=seed)
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
            over = terminated or truncated
        assert (info["remaining"] < 0) == bool(info.get("violation"))
    assert shield.space.num_observed == 500
    assert shield.ledger.steps == shield.counts.total > 20


def test_processes_of_stable_baselines_cannot_share_an_online_shield(capfd):
    """Each would have a copy of its own, whose learning would be lost."""
    SubprocVecEnv = pytest.importorskip("stable_baselines3.common.vec_env").SubprocVecEnv
    shield = asure.OnlineShield("paper", unknown="allow")
    makers = [lambda: ShieldedEnv(to_gymnasium("paper"), shield, 1)] * 2
    with pytest.raises(ArgumentError, match="an OnlineShield learns in one process"):
        SubprocVecEnv(makers, start_method="spawn")
    with pytest.raises((EOFError, ConnectionError), match=r"^$|reset|Broken pipe"):  # sb3's errors for a dead worker
        SubprocVecEnv(makers, start_method="fork")
    assert "an OnlineShield learns in one process" in capfd.readouterr().err


class Ledge(gymnasium.Env):
    """From state 1 damage is certain; episodes start at 0, which only resets show."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        if self.state == 1:
            return 2, 0.0, True, False, {"cost": 1}
        self.state = int(action)
        return self.state, 0.0, False, False, {"cost": 0}


def test_a_shield_learns_initial_states_and_can_be_reused(tmp_path):
    shield = asure.OnlineShield(Ledge(), unknown="allow")
    assert shield.starts == {}
    env = ShieldedEnv(Ledge(), shield, budget=0)
    env.reset(seed=0)
    for action in (0, 1, 1):
        env.step(action)
    env.reset()
    ShieldedEnv(Ledge(), shield, budget=1)
    shield.watch(1, 0, 2, 1)
    assert shield.of_state[:3].tolist() == [0, 1, 0]
    shield.save(tmp_path / "ledge.shield")
    again = asure.OnlineShield.load(tmp_path / "ledge.shield", Ledge())
    for one in (shield, again, shield.freeze(), again.freeze()):
        _, info = ShieldedEnv(Ledge(), one, budget=0).reset(seed=1)
        assert info["action_mask"].tolist() == [1, 0]
    assert shield.freeze().minimal.smallest_budget() == 0
    assert shield.freeze().minimal.mdp.initial_states.tolist() == [0]
    assert set(again.starts) == {0}


def test_initial_states_that_need_more_than_the_budget_are_learned_too():
    shield = asure.OnlineShield(num_states=3, actions=1, unknown="allow")
    shield.watch(1, 0, 0, 5)
    shield.watch(0, 0, shield.space.end, 0)
    for start in (0, 1):
        try:
            shield.begin(start, 2)
        except NoSafeAction:
            assert start == 1
    assert shield.starts == {0: 0.5, 1: 0.5}
    assert shield.freeze().minimal.smallest_budget() == 5
    told = asure.OnlineShield(num_states=3, actions=2, initial={0: 0.9, 1: 0.05, 2: 0.05}, unknown="allow")
    told.begin(2, 3)
    assert told.starts == {0: 0.9, 1: 0.05, 2: 0.05}


def test_without_known_initial_states_the_budget_must_suffice_in_some_state():
    with pytest.raises(Infeasible, match="a budget of 3 is not enough at the start, as far as is known"):
        ShieldedEnv(Ledge(), asure.OnlineShield(Ledge()), budget=3)
    from_one = asure.OnlineShield(Ledge(), initial=1, unknown="allow")
    from_one.watch(1, 0, 2, 1)
    from_one.watch(1, 1, 2, 1)
    with pytest.raises(Infeasible, match="a budget of 0 is not enough at the start"):
        ShieldedEnv(Ledge(), from_one, budget=0)


def test_a_start_that_turns_out_to_need_more_is_refused_at_the_reset():
    mdp = asure.from_transitions([0, 0], [0, 1], [1, 1], [1, 1], [0, 0], [1, 2], terminal=[1])
    shield = asure.OnlineShield(mdp, unknown="allow")
    env = ShieldedEnv(to_gymnasium(mdp), shield, 0)
    env.reset(seed=0)
    shield.watch(0, 0, 1, 1)
    shield.watch(0, 1, 1, 2)
    with pytest.raises(NoSafeAction, match=r"with 0 left: it needs 1\. Episodes that begin there need a larger budget"):
        env.reset()
