"""Shields are refused around environments that they were not made for."""

import gymnasium
import pytest
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import Autoreset

import almostsure as asure
from almostsure.errors import ArgumentError, ModelError, ModelMismatch
from almostsure.gym import ShieldedEnv, ShieldedVectorEnv, ready, to_gymnasium
from almostsure.learn import EnvSampler
from almostsure.model import Steps
from almostsure.shield import HorizonShield

from .made import shield_of, shielded


def test_environments_with_an_autoreset_wrapper_are_refused():
    mdp = asure.example("paper")
    with pytest.raises(ArgumentError, match=r"must see every reset; .*Autoreset\(ShieldedEnv"):
        ShieldedEnv(Autoreset(to_gymnasium(mdp)), shield_of(mdp), 1)
    env = Autoreset(shielded("paper", 1))
    env.reset(seed=0)
    assert [env.step(a)[4]["remaining"] for a in (0, 1, 0, 0)] == [0, 0, 1, 0]


class OftenSticky(gymnasium.wrappers.StickyAction):
    """A subclass of a wrapper that hides actions."""


@pytest.mark.parametrize(
    ("wrap", "what"),
    [
        (lambda env: gymnasium.wrappers.StickyAction(env, 0.5), "which action is played"),
        (lambda env: gymnasium.wrappers.RepeatAction(env, 2), "every step"),
        (lambda env: gymnasium.wrappers.DelayObservation(env, 1), "the present state"),
        (lambda env: OftenSticky(env, 0.5), "which action is played"),
    ],
)
def test_wrappers_that_hide_actions_steps_or_states_are_refused(wrap, what):
    env = wrap(gymnasium.make("CliffWalking-v1"))
    with pytest.raises(ArgumentError, match=f"ShieldedEnv must see {what}; .* inside hides that"):
        ShieldedEnv(env, ready("CliffWalking-v1").shield(), 1)


def test_infos_that_are_a_list_are_refused():
    lakes = gymnasium.make_vec("CliffWalking-v1", num_envs=2, vectorization_mode="sync")
    lakes = gymnasium.wrappers.vector.DictInfoToList(lakes)
    with pytest.raises(ArgumentError, match=r"infos as a dictionary; .* DictInfoToList\(ShieldedVectorEnv\(…\)\)"):
        ShieldedVectorEnv(lakes, ready("CliffWalking-v1").shield(), 1)


def test_single_environments_and_vectors_need_different_wrappers():
    shield, cliff = ready("CliffWalking-v1").shield(), gymnasium.make("CliffWalking-v1")
    with pytest.raises(ArgumentError, match=r"must be a gymnasium Env; got Sync.*. Put ShieldedVectorEnv around"):
        ShieldedEnv(gymnasium.make_vec("CliffWalking-v1", num_envs=2, vectorization_mode="sync"), shield, 1)
    with pytest.raises(ArgumentError, match=r"must be a gymnasium VectorEnv; got .* Put ShieldedEnv around it"):
        ShieldedVectorEnv(cliff, shield, 1)
    with pytest.raises(ArgumentError, match=r"must be a gymnasium Env; got str. Make one with gymnasium.make"):
        ShieldedEnv("CliffWalking-v1", shield, 1)


def test_shields_of_other_environments_are_refused():
    paper = shield_of(asure.example("paper"))
    with pytest.raises(ModelMismatch, match="4 actions and the shield's model 2: the shield is for another"):
        ShieldedEnv(to_gymnasium("corridor"), paper, 1)
    lake = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    with pytest.raises(ModelMismatch, match="64 states and the shield's model 16"):
        ShieldedEnv(gymnasium.make("FrozenLake8x8-v1"), shield_of(lake), 0)
    with pytest.raises(ModelMismatch, match="the shield is for another environment"):
        ShieldedEnv(to_gymnasium(asure.example("paper", damage_probability=0.5)), paper, 1)
    with pytest.raises(ArgumentError, match="or another Guard; got MinimalBudget"):
        ShieldedEnv(to_gymnasium("paper"), paper.minimal, 1)


def test_a_learned_shield_fits_the_environment_that_it_was_learned_from(play):
    """Its model may differ from the environment's, as long as it has all outcomes of the actions that it allows."""
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
    with pytest.raises(ModelMismatch, match="to state 1 with damage 0, and terminates; in the shield's model this is"):
        ShieldedEnv(to_gymnasium(ends), shield_of(stays), 1)


def test_another_map_of_the_same_size_is_noticed_at_once():
    lake = asure.from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    other = gymnasium.make("FrozenLake-v1", desc=["SFFF", "FFFF", "FFFF", "FFFG"])
    for guard in (
        shield_of(lake),
        asure.RiskShield(lake, 0, 1.0),
        HorizonShield(asure.minimal_budget(lake, horizon=5)),
        shield_of(asure.product(lake, Steps(5))),
    ):
        with pytest.raises(ModelMismatch, match=r"the environment leads from .*, and continues; .*another map\?"):
            ShieldedEnv(other, guard, 0)


def test_a_shield_learned_with_too_large_a_mu_is_noticed(monkeypatch):
    lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(ArgumentError, match="3 different outcomes, of which no more than 1 can be that probable"):
        asure.learn_minimal_budget(lake, mu=0.9, delta=0.1, seed=0)
    monkeypatch.setattr("almostsure.learn.minimal.DOUBT", 0)
    with pytest.raises(ModelError, match="Otherwise the outcome is rarer than mu: choose a smaller one"):
        asure.learn_minimal_budget(lake, mu=0.9, delta=0.1, seed=0)
    monkeypatch.setattr("almostsure.learn.minimal.WALK", 0)
    learned = asure.learn_minimal_budget(lake, mu=0.9, delta=0.1, seed=0)  # as if it were not slippery
    with pytest.raises(ModelMismatch, match="learning did not observe it"):
        ShieldedEnv(lake, learned.shield, 1)


def test_only_environments_of_models_have_the_end_state_among_their_observations():
    taxi = asure.from_gymnasium("Taxi-v4", lambda s, a, s2, r, terminated: int(r == -10))
    assert (taxi.num_observed, taxi.num_states) == (500, 501)
    larger = gymnasium.Env()
    larger.observation_space, larger.action_space = gymnasium.spaces.Discrete(501), gymnasium.spaces.Discrete(6)
    with pytest.raises(ModelMismatch, match="501 states and the shield's model 500"):
        ShieldedEnv(larger, shield_of(taxi), 0)
    ShieldedEnv(to_gymnasium(taxi), shield_of(taxi), 0)


def test_an_empty_table_of_outcomes_is_not_compared():
    env = gymnasium.make("CliffWalking-v1")
    shield = shield_of(asure.from_gymnasium("CliffWalking-v1"))
    env.unwrapped.P = {state: {} for state in range(48)}
    ShieldedEnv(env, shield, 1)


def test_attributes_that_are_not_models_or_tables_are_not_compared():
    class Other(gymnasium.Wrapper):
        pass

    env = to_gymnasium("paper")
    shield = shield_of(env.mdp)
    env.mdp, env.P = "something else", [[("no", "table")]]
    with pytest.raises(AttributeError, match="'str' object has no attribute"):  # raised by the environment itself
        ShieldedEnv(Other(env), shield, 1).reset()


def test_observations_that_are_not_states_need_state_of():
    with pytest.raises(
        ArgumentError, match=r"must be states of the model; the observation space is Box.* Pass state_of"
    ):
        ShieldedEnv(gymnasium.make("CartPole-v1"), shield_of(asure.example("paper")), 1)
    example = r"state_of=lambda observation, env: tuple\(observation\)"
    with pytest.raises(ArgumentError, match=rf"that returns the state, such as {example}, or learn"):
        ShieldedEnv(gymnasium.make("CartPole-v1"), shield_of(asure.example("paper")), 1)
    nameless = asure.from_transitions([0], [0], [1], [1], [0], [0], terminal=[1], action_names=["left", "right"])
    with pytest.raises(ArgumentError, match=r"the state, by number \(those of the model have no names\), or learn"):
        ShieldedEnv(gymnasium.make("CartPole-v1"), shield_of(nameless), 1)
    shown = gymnasium.spaces.Dict({"at": gymnasium.spaces.Discrete(3), "day": gymnasium.spaces.Discrete(2)})
    named = gymnasium.wrappers.TransformObservation(to_gymnasium("paper"), dict, shown)
    with pytest.raises(ArgumentError, match=r"env: \(observation\['at'\], observation\['day'\]\), or learn"):
        ShieldedEnv(named, shield_of(asure.example("paper")), 1)
    box = gymnasium.spaces.Box
    shown = gymnasium.spaces.Dict(
        {"at": box(0, 3, (2,), int), "map": box(0, 1, (2, 2)), "key": gymnasium.spaces.Discrete(2)}
    )
    named = gymnasium.wrappers.TransformObservation(to_gymnasium("paper"), dict, shown)
    example = r"\(tuple\(observation\['at'\]\), observation\['key'\], tuple\(observation\['map'\]\.flat\)\), or learn"
    with pytest.raises(ArgumentError, match=example):
        ShieldedEnv(named, shield_of(asure.example("paper")), 1)
    names = ["(('at', (0, 0)),)", "(('at', (0, 1)),)"]
    explored = asure.from_transitions([0, 0], [0, 1], [1, 1], [1, 1], [0, 0], [0, 0], terminal=[1], state_names=names)
    with pytest.raises(
        ArgumentError, match=r"loaded from a file, pass .*ByName\(mdp\).* Or pass state_of.* number or name, or"
    ):
        ShieldedEnv(named, shield_of(explored), 1)


def test_state_of_must_be_a_function_of_an_observation_and_an_environment():
    example = r"state_of=lambda observation, env: tuple\(observation\)"
    for wrong in (3, lambda observation: observation, lambda one, two, three: one):
        with pytest.raises(ArgumentError, match=rf"must be a function of \(observation, env\), such as {example}; got"):
            shielded("paper", 1, state_of=wrong)
    with pytest.raises(ModelError, match=r"^state_of failed for the observation .*: ZeroDivisionError"):
        shielded("paper", 1, state_of=lambda observation, env: 1 // 0).reset()


def test_continuous_actions_are_refused_with_a_remedy():
    with pytest.raises(ArgumentError, match=r"discrete actions .* Box.*TransformAction"):
        ShieldedEnv(gymnasium.make("Pendulum-v1"), shield_of(asure.example("paper")), 1)


class FromOne(gymnasium.Env):
    """Actions or states that are not numbered from 0; the first action continues, with damage."""

    def __init__(self, actions=0, states=0):
        self.observation_space = gymnasium.spaces.Discrete(3, start=states)
        self.action_space = gymnasium.spaces.Discrete(2, start=actions)
        self.actions, self.states = actions, states

    def reset(self, *, seed=None, options=None):
        self.at = self.states
        return self.at, {}

    def step(self, action):
        assert self.action_space.contains(action)
        hurts = action == self.actions
        self.at += hurts
        return self.at, 0.0, self.at == self.states + 2, False, {"cost": int(hurts)}


def put(env, state):
    env.unwrapped.at = state
    return state


@pytest.mark.parametrize("start", [1, -2])
def test_actions_that_are_not_numbered_from_0_are_refused_by_all(start):
    env, mdp = FromOne(actions=start), asure.explore(FromOne())
    shift = "action [+] 1" if start == 1 else "action - 2"
    said = rf"^actions must be numbered from 0; .*start={start}\)\. .*TransformAction\(env, lambda action: {shift}, "
    for refuses in (
        lambda: asure.explore(env),
        lambda: EnvSampler(env, put),
        lambda: EnvSampler(env, put, actions=2),
        lambda: asure.OnlineShield(env, actions=2),
        lambda: ShieldedEnv(env, shield_of(mdp), 2),
        lambda: ShieldedVectorEnv(SyncVectorEnv([lambda: env]), shield_of(mdp), 2),
    ):
        with pytest.raises(ArgumentError, match=said):
            refuses()
    renumbered = gymnasium.wrappers.TransformAction(env, lambda action: action + start, gymnasium.spaces.Discrete(2))
    found = asure.explore(renumbered)
    assert [out.damage for action in (0, 1) for out in found.outcomes(0, action)] == [1, 0]


def test_observations_that_are_not_numbered_from_0_are_refused_unless_they_are_translated():
    env, mdp = FromOne(states=1), asure.explore(FromOne())
    shield = asure.OnlineShield(num_states=3, actions=2, unknown="allow")
    for refuses in (
        lambda: EnvSampler(env, put),
        lambda: EnvSampler(env, put, num_states=3),
        lambda: asure.OnlineShield(env),
        lambda: ShieldedEnv(env, shield, 2),
    ):
        with pytest.raises(
            ArgumentError, match=r"observations must be numbered from 0; .*lambda observation: observ.* - 1"
        ):
            refuses()
    assert asure.explore(env).num_states == mdp.num_states == 3  # explore accepts any observation
    assert EnvSampler(env, put, num_states=3, encode=lambda seen: seen - 1).num_states == 3
    ShieldedEnv(env, shield, 2, state_of=lambda seen, env: int(seen) - 1).reset(seed=0)


def test_other_spaces_that_have_a_size_are_not_discrete():
    env = FromOne()
    env.action_space = gymnasium.spaces.MultiBinary(2)
    with pytest.raises(ArgumentError, match="env must be a Gymnasium environment with Discrete actions"):
        asure.explore(env)
