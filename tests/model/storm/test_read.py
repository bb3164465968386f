"""Models from PRISM and JANI programs, and the errors for bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from almostsure import AlmostSure, solve_policy
from almostsure.errors import (
    ArgumentError,
    ModelError,
    UnknownName,
)
from almostsure.model.storm.read import from_prism

from .programs import (
    PRISM,
    jani,
    steps,
)


def test_names_and_numbers_of_a_prism_model(program: Path) -> None:
    mdp = from_prism(program, damage="cliff", constants={"N": 2}, reward="toll")
    assert mdp.num_states == 8
    assert mdp.state_names is not None
    assert sorted(mdp.state_names) == sorted(f"b={b}, x={x}" for b in ("false", "true") for x in (-1, 0, 1, 2))
    assert mdp.action_names == ("choice 0", "choice 1", "go", "stay")
    assert mdp.state_name(mdp.initial_state) == "b=false, x=0"
    assert steps(mdp, "b=false, x=0") == {
        ("b=false, x=0", "go", "b=false, x=1", 0.25, 3.0, 0),
        ("b=false, x=0", "go", "b=true, x=0", 0.75, 3.0, 0),
        ("b=false, x=0", "choice 0", "b=false, x=-1", 1.0, 5.0, 0),
        ("b=false, x=0", "choice 1", "b=false, x=2", 1.0, 5.0, 1),
    }
    assert steps(mdp, "b=false, x=1") == {
        ("b=false, x=1", "go", "b=false, x=2", 0.25, 2.0, 1),
        ("b=false, x=1", "go", "b=true, x=1", 0.75, 2.0, 0),
    }
    # entering the labelled state does damage, and so does staying there
    assert steps(mdp, "b=false, x=2") == {("b=false, x=2", "stay", "b=false, x=2", 1.0, 0.0, 1)}
    # a deadlock, which Storm gives a self-loop
    assert mdp.is_terminal()[mdp.state("b=false, x=-1")]


def test_damage_by_reward_structure_counts_as_prism_does(program: Path) -> None:
    mdp = from_prism(program, damage="toll", constants="N=2")
    assert {row[-1] for row in steps(mdp, "b=true, x=0") if row[1] == "go"} == {3}
    assert {row[-1] for row in steps(mdp, "b=true, x=0") if row[1] != "go"} == {5}
    assert {row[-1] for row in steps(mdp, "b=true, x=1")} == {2}
    assert not mdp.reward.any()
    assert from_prism(program, damage="default", constants="N=2").damage.sum() == 2 * 7


def test_damage_by_action(program: Path) -> None:
    mdp = from_prism(program, damage="stay", constants="N=2")
    assert {row[-1] for row in steps(mdp, "b=false, x=2")} == {1}
    assert int(mdp.damage.sum()) == 2


def test_a_name_of_two_kinds_needs_a_prefix(program: Path) -> None:
    with pytest.raises(
        ModelError, match=r"walk.prism has a label and an action of this name. Write 'label:go' or 'action:go'"
    ):
        from_prism(program, damage="go", constants="N=2")
    by_label = from_prism(program, damage="label:go", constants="N=2")
    assert from_prism(program, damage='"go"', constants="N=2") == by_label
    by_action = from_prism(program, damage="action:go", constants="N=2")
    assert {row[-1] for row in steps(by_action, "b=false, x=1")} == {1}
    assert {row[2] for row in steps(by_label, "b=false, x=0") if row[-1]} == {"b=false, x=1"}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("clif", r"unknown damage 'clif'. Did you mean 'cliff'\? .*walk.prism has labels .*'cliff'"),
        ("label:toll", r"unknown label 'toll'"),
        ("reward:tol", r"unknown reward 'tol'. Did you mean 'toll'\?"),
        ("action:sty", r"unknown action 'sty'. Did you mean 'stay'\?.*actions 'go', 'stay'"),
        ("half", r"integer 0 … 255; got 0.5 at state \d+ 'b=false, x=1'.*walk.prism \(and 3 more"),
    ],
)
def test_a_damage_that_does_not_exist_or_is_not_whole(program: Path, damage: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_prism(program, damage=damage, constants="N=2")


def test_a_label_or_condition_as_reward_is_the_probability_of_reaching_it(tmp_path: Path) -> None:
    """Two ways to 2, of which the better one succeeds with probability 0.75; 3 does damage and ends the run."""
    path = tmp_path / "reach.prism"
    path.write_text(
        "mdp module m x : [0..3] init 0; [safe] x=0 -> 0.5 : (x'=2) + 0.5 : (x'=3); "
        "[good] x=0 -> 0.75 : (x'=2) + 0.25 : (x'=3); endmodule "
        'label "home" = x=2; label "toll" = x=3; rewards "toll" true : 5; endrewards'
    )
    for name in ("home", '"home"', "label:home"):
        mdp = from_prism(path, damage="label:toll", goal="home", reward=name)
        assert solve_policy(mdp, AlmostSure(1)).value == pytest.approx(0.75)
    assert solve_policy(from_prism(path, damage="x=3", goal="x=2", cost="x=3"), AlmostSure(1)).value == -0.25
    assert from_prism(path, damage="x=3", goal="x=2", reward="toll").reward.max() == 5  # a reward structure goes first
    only_here = from_prism(path, damage="label:toll", goal="home", reward="x>1 & x<3", cost='"home" | x=3')
    assert solve_policy(only_here, AlmostSure(1)).value == pytest.approx(0.75 - 1)
    with pytest.raises(UnknownName, match=r"unknown variable 'y'"):
        from_prism(path, damage="x=3", goal="x=2", reward="y=2")
    with pytest.raises(ModelError, match="its value is a number, not true or false"):
        from_prism(path, damage="x=3", goal="x=2", reward="x")
    with pytest.raises(
        UnknownName, match=r"unknown reward 'homer'. Did you mean 'home'\?.* a label is 1 per step that ends"
    ):
        from_prism(path, damage="x=3", goal="x=2", reward="homer")


def test_steps_are_counted_although_a_variable_has_this_name(tmp_path: Path) -> None:
    path = tmp_path / "count.prism"
    path.write_text("mdp module m steps : [0..3] init 0; [] steps<3 -> (steps'=steps+1); endmodule")
    for name in ("steps", " steps "):
        mdp = from_prism(path, damage="steps=1", reward=name)
        assert solve_policy(mdp, AlmostSure(1)).value == pytest.approx(3)
    assert from_prism(path, damage="steps=1", reward="steps=3").reward.sum() == 1


def test_an_unknown_reward_suggests_the_nearest(program: Path) -> None:
    with pytest.raises(UnknownName, match=r"unknown reward 'tool'. Did you mean 'toll'\?"):
        from_prism(program, damage="cliff", constants="N=2", reward="tool")
    with pytest.raises(UnknownName, match=r"unknown cost 'Steps'. Did you mean 'steps'\? .* 'steps' is 1 per step"):
        from_prism(program, damage="cliff", constants="N=2", cost="Steps")


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"damage": "enters:"}, "damage must name something; got 'enters:'"),
        ({"damage": " "}, "damage must name something; got ' '"),
        ({"damage": "cliff", "goal": ""}, "goal must name something; got ''"),
        ({"damage": "cliff", "goal": "enters:go"}, r"only damage may .* enters:; got goal='enters:go'\. Leave it out"),
    ],
)
def test_names_must_name_something(program: Path, roles: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        from_prism(program, constants="N=2", **roles)  # type: ignore[arg-type]


def test_parameters_may_be_one_name(tmp_path: Path) -> None:
    path = tmp_path / "slip.prism"
    path.write_text(
        "mdp const double p; const double q; const int N; module m x:[0..2] init 0;"
        "[a] x=0 -> p:(x'=1)+1-p:(x'=N); [b] x=0 -> q:(x'=0)+1-q:(x'=N); endmodule"
    )
    listed = from_prism(path, damage="x=1", parameters=["p", "q"], constants="N=2")
    assert from_prism(path, damage="x=1", parameters="p, q", constants="N=2") == listed
    for wrong in ([3], "p,"):
        with pytest.raises(ArgumentError, match=r"parameters must be names of constants, such as \['p', 'q'\]; got"):
            from_prism(path, damage="x=1", parameters=wrong, constants="N=2")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"constants must have a value; q, N have none\. Pass constants='q=…,N=…'"):
        from_prism(path, damage="x=1", parameters="p")


def test_partially_observable_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "blind.prism"
    path.write_text("pomdp observables x endobservables module m x:[0..1] init 0; [a] x<1 -> (x'=x+1); endmodule")
    with pytest.raises(ModelError, match=r"blind.prism: the model must be a Markov decision process .*type POMDP\.$"):
        from_prism(path, damage="x=1")


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        (None, r"constants must have a value; N has none. Pass constants='N=…'"),
        ("M=2", r"unknown constant 'M'.*walk.prism has: N, p"),
        ({"N": 2, "p": 0.5}, "walk.prism: constant 'p' has a value in the file"),
        ("N", "form 'N=3,p=0.5'; got 'N'"),
        ("N=two", "constant 'N' must be a number, true or false; got 'two'"),
        ({"N": None}, "constant 'N' must be a number, true or false; got None"),
        ({"N": 0.5}, "constant 'N' must be a whole number"),
    ],
)
def test_constants(program: Path, constants: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_prism(program, damage="cliff", constants=constants)


@pytest.mark.parametrize("value", ["1/4", 0.25, "0.25", np.float64(0.25), "2.5e-1"])
def test_constants_in_all_forms(program: Path, value: Any) -> None:
    program.write_text(PRISM.replace("p = 0.25", "p").replace("const int N", "const bool flag;\nconst int N"))
    mdp = from_prism(program, damage="cliff", constants={"N": np.int64(2), "p": value, "flag": True})
    assert mdp == from_prism(program, damage="cliff", constants=f"N=2, p={value}, flag=false")
    assert set(mdp.probability) == {0.25, 0.75, 1.0}


def test_a_chain_has_one_choice_per_state(tmp_path: Path) -> None:
    path = tmp_path / "chain.pm"
    path.write_text("""dtmc
    module m
        x : [0..2] init 0;
        [] x<2 -> 0.5 : (x'=x+1) + 0.5 : true;
        [] x=2 -> true;
    endmodule
    label "end" = x=2;""")
    mdp = from_prism(path, damage="end")
    assert mdp.num_choices == mdp.num_states == 3
    assert mdp.num_actions == 1
    assert mdp.damage.tolist() == [0, 0, 0, 1, 1]
    several = path.read_text().replace("init 0", "").replace("endmodule", "endmodule\ninit x<2 endinit")
    path.write_text(several)
    assert from_prism(path, damage="end").initial_probabilities.tolist() == [0.5, 0.5]


def test_models_of_other_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.sm"
    path.write_text("ctmc\nmodule m\n x:[0..1] init 0;\n <> x=0 -> 2:(x'=1);\nendmodule\n")
    with pytest.raises(ModelError, match=r"rates.sm: the model must be a Markov decision process.*type CTMC"):
        from_prism(path, damage="deadlock")


MODULE = """
mdp
module m
    x : [0..4] init 0;
    y : [0..3] init 0;
    [a] x<4 -> {};
    [b] y=1 -> (y'=2);
endmodule
label "wet" = y=2;
"""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("0.5 : (x'=x+9) + 0.5 : (y'=1)", r"out-of-bounds value \(9\) for the variable 'x'. Guard the command, or"),
        ("0.5 : (x'=x+1) + 0.5 : (y'=y+1)", r"out-of-bounds value \(4\) for the variable 'y'"),
        ("0.6 : (x'=1) + 0.5 : (x'=2)", r"do not sum to one .*\(actually sum to 11/10\). Correct them"),
        ("0.4 : (x'=1) + 0.5 : (x'=2)", r"do not sum to one .*\(actually sum to 9/10\). Correct them"),
        ("(z'=1)", r"gives no reason. Check the names in it: 'z' is assigned to but not declared\.$"),
        ("(x'=z)", r"(?s)Parsing error at 6:20: .*\nThis may also be a name that is not declared"),
    ],
)
def test_mistakes_in_a_prism_model(tmp_path: Path, command: str, message: str) -> None:
    path = tmp_path / "wrong.prism"
    path.write_text(MODULE.format(command))
    with pytest.raises(ModelError, match=rf"wrong.prism: .*{message}" if "(?s)" not in message else message) as caught:
        from_prism(path, damage="wet")
    assert "normalise" not in str(caught.value)


def test_an_init_value_out_of_range(tmp_path: Path) -> None:
    path = tmp_path / "wrong.prism"
    path.write_text(MODULE.format("(x'=x+1)").replace("[0..4] init 0", "[0..4] init 9"))
    with pytest.raises(ModelError, match=r"single initial state. Check that the init value"):
        from_prism(path, damage="wet")


def test_an_out_of_range_assignment_in_jani(tmp_path: Path) -> None:
    model = jani(0, 0)
    bounded = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 4}
    model["variables"].append({"name": "x", "type": bounded, "initial-value": 0})
    model["automata"][0]["edges"][0]["destinations"][0]["assignments"] = [
        {"ref": "x", "value": {"op": "+", "left": "x", "right": 9}}
    ]
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(model))
    with pytest.raises(ModelError, match=r"out-of-bounds value \(9\) for the variable 'x'"):
        from_prism(path, damage="end")


def test_a_cost_counts_negatively(program: Path) -> None:
    mdp = from_prism(program, damage="cliff", constants="N=2", cost="toll")
    plain = from_prism(program, damage="cliff", constants="N=2", reward="toll")
    assert mdp.reward.tolist() == (-plain.reward).tolist()
    assert mdp.reward.min() == -5
    half = from_prism(program, damage="cliff", constants="N=2", reward="half")
    both = from_prism(program, damage="cliff", constants="N=2", reward="half", cost="toll")
    assert both.reward.tolist() == (half.reward - plain.reward).tolist()
    with pytest.raises(UnknownName, match=r"unknown cost 'tool'. Did you mean 'toll'\?"):
        from_prism(program, damage="cliff", constants="N=2", cost="tool")


def test_jani(tmp_path: Path) -> None:
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(jani(2, 2)))
    mdp = from_prism(path, damage="hurt")
    assert mdp.damage.tolist() == [2, 2, 0]
    assert mdp.action_names == ("choice 0", "go")
    assert from_prism(path, damage="end").damage.tolist() == [0, 1, 1]
    assert from_prism(path, damage="action:go").damage.tolist() == [1, 1, 0]


def test_the_mean_of_a_random_damage_is_refused(tmp_path: Path) -> None:
    """Storm replaces 2 and 0 by their mean 1; with that as the damage, a budget of 1 would look safe."""
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(jani(2, 0, gain=4)))
    with pytest.raises(ModelError, match=r"step.jani: Storm only keeps the mean.*'hurt' must not be used.*label"):
        from_prism(path, damage="hurt")
    mdp = from_prism(path, damage="end", reward="gain")
    assert mdp.damage.tolist() == [0, 1, 1]
    assert mdp.reward.tolist() == [2, 2, 0]


@pytest.mark.parametrize("wrong", [{"damage": ["hot"]}, {"goal": lambda s: True}, {"cost": ["time"]}, {"damage": None}])
def test_names_are_text(race: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be text, a name or an expression; got"):
        from_prism(race, **{"damage": "hot", **wrong})
