"""Damage rules: parsed, never executed as code."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import (
    NormalizeReward,
    RecordEpisodeStatistics,
    TimeLimit,
    TransformObservation,
    TransformReward,
)
from hypothesis import given
from hypothesis import strategies as st

from almostsure.errors import AlmostSureError, ModelError, UnknownName
from almostsure.model.build.damage import DamageRule, damage_of, known_damage
from almostsure.model.build.tables import from_gymnasium


class Logger(gymnasium.Wrapper):
    def step(self, action):
        return self.env.step(action)


@pytest.mark.parametrize(
    ("text", "outcome", "damage"),
    [
        ("reward<=-100", (0, 0, 1, -100.0, False), 1),
        ("reward<=-100", (0, 0, 1, -99.0, False), 0),
        ("reward < -1e2", (0, 0, 1, -101.0, False), 1),
        ("terminated and reward<=0", (0, 0, 1, 0.0, True), 1),
        ("terminated and reward<=0", (0, 0, 1, 1.0, True), 0),
        ("terminated and reward<=0", (0, 0, 1, 0.0, False), 0),
        ("not terminated", (0, 0, 1, 0.0, False), 1),
        ("3 if next_state==7, 2 if state!=0", (1, 0, 7, 0.0, False), 5),
        ("0 if terminated", (0, 0, 1, 0.0, True), 0),
        ("action>=2", (0, 2, 1, 0.0, False), 1),
    ],
)
def test_rules(text, outcome, damage):
    rule = DamageRule(text)
    assert rule(*outcome) == damage
    assert rule(*(np.array(x)[()] for x in outcome)) == damage  # NumPy's numbers, as in the tables of environments


@pytest.mark.parametrize(
    "text",
    ["", ",", "reward", "reward<", "reward<=ten", "reward=1", "1 if", "reward<0 or terminated", "reward<0;terminated",
     "__import__('os').system('true')", "reward<0 and", "reward<1.2.3", "reward<-", "lambda: 1",
     "9" * 5000 + " if terminated"],
)  # fmt: skip
def test_invalid_rules_are_refused(text):
    with pytest.raises(ModelError, match="a damage rule must read like"):
        DamageRule(text)


def test_unknown_quantities_suggest_the_nearest():
    with pytest.raises(UnknownName, match=r"unknown quantity 'rewad'\. Did you mean 'reward'\?"):
        DamageRule("rewad<0")


@pytest.mark.parametrize(
    ("sign", "below", "equal", "above"),
    [("<", 1, 0, 0), ("<=", 1, 1, 0), ("==", 0, 1, 0), ("!=", 1, 0, 1), (">=", 0, 1, 1), (">", 0, 0, 1)],
)
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_comparisons_of_each_number(sign, below, equal, above, at):
    name = ("state", "action", "next_state", "reward")[at]
    rule, turned = DamageRule(f"7 if {name} {sign} +5"), DamageRule(f"not {name}{sign}5.0 and not terminated")
    for value, holds in ((4, below), (5, equal), (6, above)):
        outcome = [value if i == at else 5 for i in range(4)]
        assert rule(*outcome, True) == 7 * holds
        assert (turned(*outcome, False), turned(*outcome, True)) == (1 - holds, 0)


def test_errors_show_the_invalid_part_and_the_rule():
    with pytest.raises(ModelError, match=r"'2 if reward<0, 5 if terminated'; got 'rewards'\.$"):
        DamageRule("rewards")
    with pytest.raises(ModelError, match=r"got 'rewards' of 'terminated, 3 if rewards'\.$"):
        DamageRule("terminated, 3 if rewards")


def test_damage_has_a_range():
    assert DamageRule("255 if terminated")(0, 0, 0, 0.0, True) == 255
    with pytest.raises(ModelError, match=r"a damage must be 0 … 255; got 256 in the rule"):
        DamageRule("256 if terminated")


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_an_error_of_ours(text):
    try:
        rule = DamageRule(text)
    except AlmostSureError:
        return
    assert rule(0, 0, 0, 0.0, True) >= 0


def test_a_rule_is_shown_as_it_was_written():
    assert repr(DamageRule("2 if reward<0")) == "DamageRule('2 if reward<0')"


def test_known_environments_need_no_rule():
    assert damage_of(gymnasium.make("Taxi-v4"), None).text == "reward<=-10"
    assert damage_of(gymnasium.make("FrozenLake-v1"), "terminated").text == "terminated"
    with pytest.raises(ModelError, match=r"Blackjack-v1 does not define damage\. Pass damage=, a rule such as"):
        damage_of(gymnasium.make("Blackjack-v1"), None)


def test_the_known_damage_is_not_read_from_what_a_wrapper_may_have_changed():
    cliff, lake = gymnasium.make("CliffWalking-v1"), gymnasium.make("FrozenLake-v1")
    fall = (36, 1, 36, -100.0, False)
    for env in (TimeLimit(RecordEpisodeStatistics(cliff), 5), TransformObservation(cliff, lambda s: s, None)):
        assert known_damage(env)(*fall) == 1
    for env in (TransformReward(cliff, lambda r: r / 100), NormalizeReward(cliff), Logger(cliff)):
        name = type(env).__name__
        with pytest.raises(ModelError, match=rf"CliffWalkingEnv is determined by its rewards, which {name} may change"):
            known_damage(env)(*fall)
    mirrored = TransformObservation(lake, lambda s: 15 - s, None)
    with pytest.raises(ModelError, match=r"by its observations, which TransformObservation may .*\(DamageTracker\(env"):
        known_damage(mirrored)(4, 1, 5, 0.0, True)
    assert known_damage(TransformReward(lake, lambda r: -r))(4, 1, 5, 0.0, True) == 1
    assert from_gymnasium(TransformReward(cliff, lambda r: 0.0)) == from_gymnasium(cliff)  # by the table


def test_a_class_of_the_same_name_is_another_environment():
    class TaxiEnv(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    assert known_damage(TaxiEnv()) is None


@pytest.mark.parametrize("damage", [None, "terminated and reward<=0", DamageRule("terminated and reward<=0")])
def test_from_gymnasium_accepts_rules(damage):
    by_function = from_gymnasium("FrozenLake-v1", lambda s, a, s2, r, terminated: int(terminated and r == 0))
    assert from_gymnasium("FrozenLake-v1", damage) == by_function


def test_a_rule_about_next_states_finds_them_in_an_environment():
    mdp = from_gymnasium("CliffWalking-v1", DamageRule("2 if reward<=-100, 1 if next_state==13"))
    hurts = {int(d): set(mdp.successor[mdp.damage == d].tolist()) for d in np.unique(mdp.damage)}
    assert hurts[1] == {13}
    assert hurts[2] == {36}  # the start, where one falls back to
    assert hurts.keys() == {0, 1, 2}
