"""Conditions, goals, scales, intervals, parameters, and sums with rounding errors."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from almostsure import (
    MDP,
    AlmostSure,
    check_minimal_budget,
    minimal_budget,
    simulate,
    solve_policy,
)
from almostsure.errors import (
    ArgumentError,
    ModelError,
    UnknownName,
)
from almostsure.model.files import load
from almostsure.model.storm.read import from_prism
from almostsure.model.storm.write import to_storm
from almostsure.model.umb.foreign import as_scale

from .programs import (
    RACE,
    jani,
    steps,
)


@pytest.mark.parametrize("p", [0.06, 0.12, 1e-5, "1/3", 0.94])
def test_rounded_probabilities_are_accepted(tmp_path, p):
    path = tmp_path / "coin.prism"
    path.write_text(
        "mdp const double p; module m s : [0..2] init 0; [go] s=0 -> p : (s'=1) + 1-p : (s'=2); "
        'endmodule label "bad" = s=1;'
    )
    mdp = from_prism(path, damage="bad", constants={"p": p})
    assert minimal_budget(mdp).smallest_budget() == 1


def test_sums_and_ranges_are_still_checked(tmp_path):
    path = tmp_path / "coin.prism"
    path.write_text(
        "mdp module m s : [0..2] init 0; [] s=0 -> 0.06 : (s'=1) + 0.94 : (s'=7); endmodule label \"b\" = s=1;"
    )
    with pytest.raises(ModelError, match="out-of-bounds"):
        from_prism(path, damage="b")
    path.write_text(
        "mdp module m s : [0..2] init 0; [] s=0 -> 0.06 : (s'=1) + 0.95 : (s'=2); endmodule label \"b\" = s=1;"
    )
    with pytest.raises(ModelError, match="do not sum to one"):
        from_prism(path, damage="b")


def test_deadlocks_are_terminal(tmp_path):
    """A crash counts once, although Storm adds a self-loop to the deadlock."""
    path = tmp_path / "crash.prism"
    path.write_text(
        "mdp module m s : [0..2] init 0; [drive] s=0 -> 0.5 : (s'=1) + 0.5 : (s'=2); [rest] s=1 -> true; endmodule "
        'label "crashed" = s=2; rewards "hurt" s=2 : 1; endrewards'
    )
    mdp = from_prism(path, damage="crashed", reward="hurt")
    assert minimal_budget(mdp).smallest_budget() == 1
    assert mdp.is_terminal().sum() == 2


@pytest.mark.parametrize(
    ("rewards", "goal", "got"),
    [
        ("last>0 : last;", None, r"last for \(last > 0\)"),
        ("last>0 : last;", "s>0", "10"),
        ("[go] true : 1; true : s=2 ? 3 : 0;", None, r"\(\(s = 2\) \? 3 : 0\) for true"),
        ("late : 0; late : X*s;", None, r"\(2 \* s\) for \(s >= 2\)"),
    ],
)
def test_damage_of_states_that_are_never_left_is_refused(
    tmp_path: Path, rewards: str, goal: str | None, got: str
) -> None:
    """Storm drops state rewards of deadlocks, so a budget of 0 would look safe."""
    path = tmp_path / "crash.prism"
    path.write_text(
        "mdp const int X = 2; formula late = s>=X; module m s : [0..2] init 0; last : [0..10] init 0; "
        "[go] s=0 -> 0.9 : (s'=1) + 0.1 : (s'=2)&(last'=10); "
        f"{'[rest] s>0 -> true;' if goal else ''} endmodule "
        f'rewards "other" true : 1; endrewards rewards "severity" {rewards} endrewards'
    )
    where = r"at state \d 's=2, last=10' of .*crash\.prism\. For damage on arrival"
    for name in ("severity", "reward:severity"):
        with pytest.raises(
            ModelError, match=rf"damage 'severity' counts .* must be 0 where runs end; got {got} {where}"
        ):
            from_prism(path, damage=name, goal=goal)
    assert minimal_budget(from_prism(path, damage="last=10", goal=goal, reward="severity")).smallest_budget() == 1
    path.write_text(path.read_text().replace('"severity"', '"severity" s=0 : 4; endrewards rewards "unused"'))
    assert minimal_budget(from_prism(path, damage="severity", goal=goal)).smallest_budget() == 4


def test_state_rewards_that_storm_cannot_read_again_are_refused_at_deadlocks_only(tmp_path: Path) -> None:
    path = tmp_path / "operators.prism"
    program = (
        "mdp module m F : [0..2] init 0; [] F<2 -> (F'=F+1); [] F=2 -> true; endmodule rewards F=1 : 1; endrewards"
    )
    path.write_text(program)
    assert minimal_budget(from_prism(path, damage="default")).smallest_budget() == 1
    path.write_text(program.replace("[] F=2 -> true;", ""))
    with pytest.raises(ModelError, match=r"must be 0 where runs end; got 1 for \(F = 1\) at state 2"):
        from_prism(path, damage="default")


def test_damage_of_locations_is_refused_where_deadlocks_have_some(tmp_path: Path) -> None:
    model = jani(2, 2)
    rewarded = {"ref": "hurt", "value": 5}
    model["automata"][0]["locations"][1]["transient-values"].append(rewarded)
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(model))
    assert from_prism(path, damage="hurt").max_damage == 5
    del model["automata"][0]["edges"][1]
    path.write_text(json.dumps(model))
    with pytest.raises(ModelError, match="must be 0 where runs end; got the reward of a location at state 1"):
        from_prism(path, damage="hurt")
    before, after = model["automata"][0]["locations"]
    before["transient-values"] = [after["transient-values"].pop()]
    path.write_text(json.dumps(model))
    assert from_prism(path, damage="hurt").max_damage == 7


@pytest.mark.parametrize(
    ("damage", "way"), [("hurt>1", "pass its name alone"), ("enters:end", "let a lasting variable remember it")]
)
def test_conditions_on_what_steps_assign_are_refused(tmp_path: Path, damage: str, way: str) -> None:
    model = jani(2, 2)
    model["automata"][0]["edges"][0]["destinations"][0]["assignments"].append({"ref": "end", "value": True})
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(model))
    with pytest.raises(ModelError, match=f"states do not show what steps assign to it. To count that, {way}"):
        from_prism(path, damage=damage)
    assert from_prism(path, damage="hurt").max_damage == 2


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"N": 2**63}, "'N' must be a whole number of less than 64 bits"),
        ({"N": 2.5}, "'N' must be a whole number"),
        ({"N": True}, "'N' must be a number"),
        ({"p": float("nan")}, "'p' must be finite"),
        ("N=3,N=4", "given once"),
    ],
)
def test_constants_have_types(tmp_path, constants, message):
    path = tmp_path / "typed.prism"
    path.write_text(
        "mdp const int N; const double p; module m s : [0..9] init 0; [] s<N -> p : (s'=N) + 1-p : true; endmodule "
        'label "b" = s=3;'
    )
    if isinstance(constants, dict):
        constants = {"N": 3, "p": 1} | constants
    with pytest.raises(ModelError, match=message):
        from_prism(path, damage="b", constants=constants)
    assert from_prism(path, damage="b", constants={"N": 3.0, "p": 1}).num_states == 2


def test_conditions_are_damage_and_goals(race: Path) -> None:
    mdp = from_prism(race, damage="hot & x>0", goal="x=N", cost="steps")
    assert {row[2] for row in steps(mdp, "hot=false, x=0") if row[-1]} == {"hot=true, x=1"}
    ends = mdp.is_terminal()
    assert ends.tolist() == ["x=3" in name for name in mdp.state_names or ()]
    assert (mdp.reward[~ends[mdp.choice_states()[mdp.outcome_choices()]]] == -1).all()
    assert minimal_budget(mdp).smallest_budget() == 3  # the damage of the step into the goal counts
    assert from_prism(race, damage="hot", goal="done") == from_prism(race, damage="hot & true", goal='"done"')
    assert from_prism(race, damage="late & hot").damage.sum() == from_prism(race, damage="x>=2 & hot").damage.sum()


def test_entering_counts_once(race: Path) -> None:
    stays = from_prism(race, damage="x>=1", goal="done")
    enters = from_prism(race, damage="enters:x>=1", goal="done")
    assert minimal_budget(stays).smallest_budget() == 3
    assert minimal_budget(enters).smallest_budget() == 1
    assert from_prism(race, damage="enters:label:done") == from_prism(race, damage='enters:"done"')
    with pytest.raises(ModelError, match=r"must name a label or a condition after 'enters:'; 'heat' is a reward"):
        from_prism(race, damage="enters:reward:heat")
    with pytest.raises(ModelError, match=r"after 'enters:'; 'go' is an action\."):
        from_prism(race, damage="enters:action:go")


def load_again(mdp: MDP, folder: Path) -> MDP:
    mdp.save(folder / "again.umb")
    return load(folder / "again.umb")


def test_a_scale_rounds_up_exactly(race: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"got 400 at .*the unit of damage: at least 1\.57 here"):
        from_prism(race, damage="heat", goal="done")
    assert from_prism(race, damage="heat", goal="done", scale=1.57).max_damage == 255
    mdp = from_prism(race, damage="heat", goal="done", scale=2)
    assert set(mdp.damage.tolist()) == {0, 1, 200, 201}
    race.write_text(RACE.replace(": 400", ": 1.1"))
    assert set(from_prism(race, damage="heat", goal="done", scale=0.1).damage.tolist()) == {0, 3, 11, 14}
    assert {as_scale(tenth) for tenth in (0.1, "0.1", "1/10", Fraction(1, 10))} == {Fraction(1, 10)}
    third = from_prism(race, damage="heat", goal="done", scale="1/3")
    assert third.show_damage(2) == "2 (in the unit of the file: 2/3)"
    assert "the start needs a budget of 14 (in the unit of the file: 14/3)" in repr(minimal_budget(third))
    assert load_again(third, tmp_path).show_damage(3) == "3 (in the unit of the file: 1)"
    for scale in (0, -1, "x", True, float("nan")):
        with pytest.raises(ArgumentError, match=r"scale must be a positive number, such as 0.1 or '1/3'; got"):
            from_prism(race, damage="heat", scale=scale)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"damage": "y=3"}, r"unknown variable 'y'.*race.prism has labels 'done'.*variables .*'x'"),
        ({"damage": "hott"}, r"unknown damage 'hott'. Did you mean 'hot'\?"),
        ({"damage": "hot", "goal": "dome"}, r"unknown goal 'dome'. Did you mean 'done'\?"),
        ({"damage": "hot", "goal": '"dome" & hot'}, r"unknown label 'dome'. Did you mean 'done'\?"),
        ({"damage": "hot", "goal": "go"}, r"unknown goal 'go'"),
        (
            {"damage": "done & x=1"},
            r"'done & x=1' must be a condition .*inside a condition, labels need double quotes: .done.",
        ),
        ({"damage": "hot>=1"}, r"'hot>=1' must be a condition .*, a boolean variable alone,"),
        ({"damage": "x==3"}, r"'x==3' must be a condition such as 'x=3 & y>0'; write = to compare"),
        ({"damage": "x="}, r"'x=' must be a condition such as 'x=3 & y>0'; write = to compare"),
        ({"damage": "x=1 && hot"}, r"boolean variable alone, & and \| to combine"),
        (
            {"damage": "x=1 and hot"},
            r"'x=1 and hot' must be a condition .*boolean variable alone, & and \| to combine",
        ),
        ({"damage": "not hot"}, r"'not hot' must be a condition .*and ! for not"),
        ({"damage": "hot", "goal": "x=1 OR hot"}, r"'x=1 OR hot' must be a condition .*; write = to compare"),
        ({"damage": "x+1"}, r"'x\+1' must be a condition such as .*; its value is a number, not true or false"),
        ({"damage": "x=1 x=2"}, r"'x=1 x=2' must be a condition such as 'x=3 & y>0'; .*to combine two conditions"),
        ({"damage": "P>=1 [F hot]"}, r"unknown variable 'P'"),
        ({"damage": "hot", "goal": "x=0 & hot"}, r"goal 'x=0 & hot' must .*; it holds in no state of .*race.prism"),
    ],
)
def test_bad_conditions(race: Path, roles: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_prism(race, **roles)


def test_a_goal_that_cannot_be_reached_names_the_state(tmp_path: Path) -> None:
    path = tmp_path / "apart.drn"
    path.write_text(
        "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n@model\n"
        "state 0 init\n\taction 0\n\t\t0 : 1\nstate 1 end\n\taction 0\n\t\t1 : 1\n"
    )
    with pytest.raises(
        ModelError, match=r"goal 'end' must be reachable .*; it cannot be reached from state 0 of .*apart.drn"
    ):
        from_prism(path, damage="init", goal="end")


def test_properties_of_jani_name_goals(tmp_path: Path) -> None:
    path = tmp_path / "step.jani"
    model = jani(1, 1)
    asks = {"op": "filter", "fun": "max", "states": {"op": "initial"}}
    model["properties"] = [
        {"name": name, "expression": {**asks, "values": {"op": "Pmax", "exp": {"op": op, "exp": "end"}}}}
        for name, op in (("arrive", "F"), ("remain", "G"))
    ]
    path.write_text(json.dumps(model))
    mdp = from_prism(path, damage="hurt", goal="arrive")
    assert mdp == from_prism(path, damage="hurt", goal="end")
    with pytest.raises(ModelError, match=r"'remain' must be a condition .*the property must be about reaching states"):
        from_prism(path, damage="hurt", goal="remain")
    with pytest.raises(
        UnknownName, match=r"unknown goal 'arive'. Did you mean 'arrive'\?.*properties 'arrive', 'remain'"
    ):
        from_prism(path, damage="hurt", goal="arive")


def test_variables_of_a_jani_automaton_keep_their_names(tmp_path: Path) -> None:
    path = tmp_path / "local.jani"
    model = jani(0, 0)
    bounded = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 3}
    automaton = model["automata"][0]
    automaton["variables"] = [{"name": "x", "type": bounded, "initial-value": 0}]
    automaton["edges"][0]["destinations"][0]["assignments"].append({"ref": "x", "value": 2})
    path.write_text(json.dumps(model))
    assert from_prism(path, damage="x=2") == from_prism(path, damage="A_x=2") == from_prism(path, damage="end")


def test_synchronised_commands_whose_products_round(tmp_path: Path) -> None:
    modules = " ".join(
        f"module m{i} x{i} : [0..2] init 0; [go] x{i}=0 -> {p} : (x{i}'=1) + {1 - p:.2f} : (x{i}'=2); endmodule"
        for i, p in enumerate((0.06, 0.1, 0.07))
    )
    path = tmp_path / "three.prism"
    path.write_text(f"mdp {modules}")
    mdp = from_prism(path, damage="x0=1 & x1=1 & x2=1")
    assert mdp.num_states == 9
    assert minimal_budget(mdp).smallest_budget() == 1
    assert "OutOf" not in mdp.state_name(0)
    path.write_text(f"mdp {modules}".replace("0.93", "0.94"))
    with pytest.raises(ModelError, match=r"do not some? to one|do not sum to one"):
        from_prism(path, damage="x0=1")
    path.write_text(f"mdp {modules}".replace("x2'=2", "x2'=7"))
    with pytest.raises(ModelError, match=r"out-of-bounds"):
        from_prism(path, damage="x0=1")


def test_intervals(tmp_path: Path) -> None:
    path = tmp_path / "interval.drn"
    text = (
        "@type: MDP\n@value_type: double-interval\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n"
        "@model\nstate 0 init\n\taction 0\n\t\t0 : [0.1, 0.6]\n\t\t1 : [0.4, 1]\n"
        "state 1 end\n\taction 0\n\t\t1 : [1, 1]\n"
    )
    path.write_text(text)
    mdp = from_prism(path, damage="init", goal="end")
    assert mdp.origin.uncertain == "its probabilities are intervals"
    assert not mdp.origin.is_bound
    path.write_text(text.replace("[0.1, 0.6]", "[0, 0.6]"))
    mdp = from_prism(path, damage="init", goal="end")
    assert mdp.origin.is_bound
    assert "no finite budget suffices at the start if all intervals are positive" in repr(minimal_budget(mdp))
    hurt = minimal_budget(from_prism(path, damage="end", goal="end"))
    assert "the start needs a budget of at most 1" in repr(hurt)
    assert hurt.explain().headline.startswith("0 needs at most 1: nature can force 1 damage")
    assert hurt.explain().headline.endswith(", if all intervals are positive.")
    for export in (lambda: mdp.save(tmp_path / "out.drn"), lambda: to_storm(mdp)):
        with pytest.raises(ModelError, match=r"a model for Storm needs the probabilities .* upper bounds and sound"):
            export()
    assert not (tmp_path / "out.drn").exists()
    mdp.save(tmp_path / "interval.umb")
    import stormpy

    assert "IMDP" in str(stormpy.build_model_from_umb(str(tmp_path / "interval.umb")))
    assert load(tmp_path / "interval.umb").origin.uncertain == mdp.origin.uncertain  # type: ignore[union-attr]


def test_intervals_in_prism(race: Path) -> None:
    wanted = minimal_budget(from_prism(race, damage="hot", goal="done")).of_state
    for low in ("0.2", "0"):
        race.write_text(RACE.replace("-> 0.5 :", f"-> [{low},0.7] :").replace("+ 0.5 :", "+ [0.3,0.8] :"))
        mdp = from_prism(race, damage="hot", goal="done")
        assert minimal_budget(mdp).of_state.tolist() == wanted.tolist()
        check_minimal_budget(mdp, minimal_budget(mdp))
        for refused in (lambda: solve_policy(mdp, AlmostSure(3)), lambda: simulate(mdp, None, 3)):  # noqa: B023
            with pytest.raises(ModelError, match=r"not known: its probabilities are intervals"):
                refused()


INTERVALS = "mdp const double p=0.9; module m x:[0..2] init 0; [go] x=0 -> {} : (x'=1) + {} : (x'=2); endmodule"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("[0.9,0.7]", "[0.1,0.9]", r"got \[0.9, 0.7\] for \(x' = 1\) of the command \[go\] \(x = 0\)"),
        ("[p,1-p]", "[0.1,0.9]", r"got \[0.9, 0.1\] for \(x' = 1\)"),
        ("[0.5,0.0]", "[0.5,1]", r"got \[0.5, 0\] for \(x' = 1\)"),
        ("[0.5,1]", "[0.5,1.5]", r"got \[0.5, 1.5\] for \(x' = 2\)"),
        ("[p,0.7+x]", "[0.1,0.9]", r"got \[0, 0\] for the step to state 1 'x=1' at state 0 'x=0', action 'go'"),
        ("[x-0.5,0.7]", "[0.1,0.9]", r"got \[-0.5, 0.7\] for the step to state 1 'x=1'"),
        ("[0.6,0.7]", "[0.7,0.9]", r"their sums at state 0 'x=0', action 'go' lie within \[1.3, 1.6\]"),
        ("[0.1,0.2]", "[0.1,0.2]", r"their sums at state 0 'x=0', action 'go' lie within \[0.2, 0.4\]"),
    ],
)
def test_intervals_without_a_distribution_are_refused(tmp_path: Path, first: str, second: str, message: str) -> None:
    path = tmp_path / "iv.prism"
    path.write_text(INTERVALS.format(first, second))
    with pytest.raises(ModelError, match=rf"iv.prism: .*interval.*{message}"):
        from_prism(path, damage="x=1")


@pytest.mark.parametrize("reversed_at", [0, 1])
def test_a_reversed_interval_is_found_among_others_to_the_same_state(tmp_path: Path, reversed_at: int) -> None:
    path = tmp_path / "iv.prism"
    pair = ["[0.9,0.7+x] : (x'=1)", "[0.1,0.2] : (x'=1)"]
    path.write_text(INTERVALS.format(" + ".join([*pair[reversed_at:], *pair[:reversed_at], "[0.1,0.2]"]), "[0.1,0.9]"))
    with pytest.raises(ModelError, match=r"got \[0, 0\] for the step to state 1"):
        from_prism(path, damage="x=1")


@pytest.mark.parametrize("interval", ["[0.9, 0.7]", "[0.5, 1.5]"])
def test_bad_intervals_in_drn_files(tmp_path: Path, interval: str) -> None:
    path = tmp_path / "iv.drn"
    path.write_text(
        "@type: MDP\n@value_type: double-interval\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n"
        f"@model\nstate 0 init\n\taction 0\n\t\t0 : [0.1, 1]\n\t\t1 : {interval}\n"
        "state 1 end\n\taction 0\n\t\t1 : [1, 1]\n"
    )
    with pytest.raises(ModelError, match=rf"iv.drn: .*got {re.escape(interval)} for the step to state 1 .*state 0"):
        from_prism(path, damage="end")


@pytest.mark.parametrize("low", ["0.2", "0"])
def test_conditions_on_numbers_hold_where_probabilities_are_intervals(tmp_path: Path, low: str) -> None:
    path = tmp_path / "iv.prism"
    path.write_text(
        f"mdp const int N=2; module m x:[0..2] init 0; [go] x=0 -> [{low},1]:(x'=1)+[{low},0.5]:(x'=N); endmodule "
        'label "bad"=x=2; label "end"=x>0;'
    )
    wanted = minimal_budget(from_prism(path, damage="bad", goal="end")).of_state.tolist()
    mdp = from_prism(path, damage="x=N", goal="x>0")
    assert minimal_budget(mdp).of_state.tolist() == wanted
    assert mdp.labels["x=N"].tolist() == mdp.labels["bad"].tolist()
    assert mdp.labels["x>0"].tolist() == mdp.labels["end"].tolist()
    drn = tmp_path / "iv.drn"
    drn.write_text(
        "@type: MDP\n@value_type: double-interval\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n"
        f"@model\nstate 0 init\n\taction 0\n\t\t0 : [{low}, 0.6]\n\t\t1 : [0.4, 1]\n"
        "state 1 end\n\taction 0\n\t\t1 : [1, 1]\n"
    )
    assert from_prism(drn, damage='!"init"', goal="end").labels['!"init"'].tolist() == [False, True]


@pytest.mark.parametrize("letter", "CFGIPRSUXNT")
def test_constants_that_are_named_like_operators_of_storm(tmp_path: Path, letter: str) -> None:
    path = tmp_path / "walk.prism"
    path.write_text(
        f"mdp const int K; const int {letter}=K+1; module m x:[0..5] init 0; [go] x<{letter} -> (x'=x+1); endmodule"
    )
    mdp = from_prism(path, damage=f"x={letter}", goal=f"{letter}<=x", constants="K=2")
    assert mdp.labels[f"x={letter}"].tolist() == [False, False, False, True]
    path.write_text("mdp module m U:[0..2] init 0; [go] U<2 -> (U'=U+1); endmodule")
    with pytest.raises(ModelError, match=r"Storm reads U as an operator. Rename it, or pass a label that the model"):
        from_prism(path, damage="U=1")


def test_constants_of_a_jani_file_that_are_named_like_operators(tmp_path: Path) -> None:
    path, whole = tmp_path / "walk.jani", {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 5}
    more = {"ref": "x", "value": {"op": "+", "left": "x", "right": 1}}
    edge = {
        "location": "l",
        "guard": {"exp": {"op": "<", "left": "x", "right": "P"}},
        "destinations": [{"location": "l", "assignments": [more]}],
    }
    automaton = {"name": "a", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": [edge]}
    model = {
        "jani-version": 1,
        "name": "walk",
        "type": "mdp",
        "constants": [{"name": "P", "type": "int", "value": 3}, {"name": "F", "type": "int"}],
        "variables": [{"name": "x", "type": whole, "initial-value": 0}],
        "automata": [automaton],
        "system": {"elements": [{"automaton": "a"}]},
        "properties": [],
    }
    path.write_text(json.dumps(model))
    mdp = from_prism(path, damage="x=F", goal="x=P", constants="F=2")
    assert mdp.labels["x=P"].tolist() == [False, False, False, True]
    assert mdp.labels["x=F"].tolist() == [False, False, True, False]


def test_names_are_listed_once_and_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "walk.prism"
    path.write_text(
        "mdp const int N=3; formula far = x>1; module m x:[0..5] init 0; [go] x<N -> (x'=x+1); endmodule "
        'label "end" = far;'
    )
    with pytest.raises(UnknownName, match=r"variables 'x'; constants 'N'; formulas 'far'; no properties\.$"):
        from_prism(path, damage="nothing")


def test_the_error_for_rates_suggests_no_option_of_storm(tmp_path: Path) -> None:
    path = tmp_path / "queue.prism"
    path.write_text("ctmc module m x:[0..2] init 0; [] x=0 -> 2:(x'=1); endmodule")
    with pytest.raises(ModelError, match=r"must be a Markov decision process .*it is of type CTMC\.$"):
        from_prism(path, damage="x=1")


def test_parameters(race: Path) -> None:
    wanted = minimal_budget(from_prism(race, damage="hot", goal="done"))
    race.write_text(
        RACE.replace("formula", "const double p;\nformula").replace("-> 0.5", "-> p").replace("+ 0.5", "+ 1-p")
    )
    mdp = from_prism(race, damage="hot", goal="done", parameters=["p"])
    assert minimal_budget(mdp).of_state.tolist() == wanted.of_state.tolist()
    assert mdp.state_names == wanted.mdp.state_names
    assert {name: values.tolist() for name, values in mdp.origin.variables.items()} == {
        name: values.tolist() for name, values in wanted.mdp.origin.variables.items()
    }
    with pytest.raises(ModelError, match=r"solve_policy needs .* not known: its probabilities have parameters"):
        solve_policy(mdp, AlmostSure(3))
    with pytest.raises(ModelError, match=r"constants must have a value; p has none. Pass constants='p=…', or"):
        from_prism(race, damage="hot")
    with pytest.raises(UnknownName, match=r"unknown constant 'q'"):
        from_prism(race, damage="hot", parameters=["q"])
    race.write_text(race.read_text().replace("400", "p"))
    with pytest.raises(ModelError, match=r"a reward structure has parameters"):
        from_prism(race, damage="hot", parameters=["p"])


@pytest.mark.parametrize("value", ["p-1009/4999", "p-q", "p-q+2/4999", "9*p-q"])
def test_an_outcome_is_impossible_only_if_it_is_so_for_all_parameters(value: str, tmp_path: Path) -> None:
    path = tmp_path / "model.prism"
    path.write_text(
        f"mdp const double p; const double q; module m x:[0..2] init 0; [] x=0 -> {value}:(x'=1) + 1-({value}):(x'=2); "
        "endmodule"
    )
    assert minimal_budget(from_prism(path, damage="x=1", parameters=["p", "q"])).smallest_budget() == 1
