"""Models from PRISM, JANI and DRN files, and models handed to Storm and back."""

from __future__ import annotations

import contextlib
import gzip
import json
import pickle
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from almostsure import (
    MDP,
    AlmostSure,
    check_minimal_budget,
    example,
    from_transitions,
    minimal_budget,
    simulate,
    solve_policy,
)
from almostsure.errors import (
    AlmostSureError,
    ArgumentError,
    FileError,
    LimitReached,
    MissingExtra,
    ModelError,
    NotEnoughMemory,
    UnknownName,
)
from almostsure.files import STORM
from almostsure.model import example_names
from almostsure.model.source import as_model
from almostsure.model.storm import child
from almostsure.model.storm.read import from_prism
from almostsure.model.storm.write import to_storm
from almostsure.model.umb.files import load
from almostsure.model.umb.foreign import as_scale
from almostsure.model.umb.relay import with_relays

PRISM = """
mdp
const int N;
const double p = 0.25;
label "cliff" = x=2;
label "go" = x=1;
module walk
    x : [-1..N] init 0;
    b : bool init false;
    [go] x>=0 & x<N -> p : (x'=x+1) + 1-p : (x'=x) & (b'=true);
    [] x=0 -> (x'=-1);
    [] x=0 -> (x'=N);
    [stay] x=N -> true;
endmodule
rewards "toll"
    x=1 : 2;
    [go] x=0 : 3;
    [] true : 5;
endrewards
rewards "half"
    x=1 : 0.5;
endrewards
rewards
    [stay] true : 7;
endrewards
"""


@pytest.fixture(autouse=True)
def _needs_stormpy(request: pytest.FixtureRequest) -> None:
    if "without_stormpy" not in request.node.name:
        pytest.importorskip("stormpy")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "walk.prism"
    path.write_text(PRISM)
    return path


def steps(mdp: MDP, name: str) -> set[tuple[str, str, str, float, float, int]]:
    """Every outcome by names: (state, action, next state, probability, reward, damage)."""
    rows = set()
    for c in range(mdp.num_choices):
        state = int(np.searchsorted(mdp.choice_ptr, c, side="right")) - 1
        action = int(mdp.choice_action[c])
        for t, p, r, d in mdp.outcomes(state, action):
            rows.add((mdp.state_name(state), mdp.action_name(action), mdp.state_name(t), p, r, d))
    return {row for row in rows if row[0] == name}


# ---------------------------------------------------------------------- PRISM


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
    # entering the labelled state hurts, and so does staying there
    assert steps(mdp, "b=false, x=2") == {("b=false, x=2", "stay", "b=false, x=2", 1.0, 0.0, 1)}
    # a deadlock, mended by Storm
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
        ModelError, match=r"walk.prism has a label and an action so named. Write 'label:go' or 'action:go'"
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


def test_an_unknown_reward_suggests_the_nearest(program: Path) -> None:
    with pytest.raises(UnknownName, match=r"unknown reward 'tool'. Did you mean 'toll'\?"):
        from_prism(program, damage="cliff", constants="N=2", reward="tool")


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


def test_a_chain_has_one_choice_a_state(tmp_path: Path) -> None:
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
        ("0.6 : (x'=1) + 0.5 : (x'=2)", r"do not sum to one .*\(actually sum to 11/10\). Mend them"),
        ("0.4 : (x'=1) + 0.5 : (x'=2)", r"do not sum to one .*\(actually sum to 9/10\). Mend them"),
        ("(z'=1)", r"does not say why. Check the names in it: 'z' is assigned to but not declared\.$"),
        ("(x'=z)", r"(?s)Parsing error at 6:20: .*\nA name that is not declared gives this message too"),
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


def test_probabilities_of_a_drn_file_that_do_not_sum_to_one(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "sum.drn"
    path.write_text(
        "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n@model\n"
        "state 0 init\n\taction 0\n\t\t0 : 0.6\n\t\t1 : 0.5\nstate 1 end\n\taction 0\n\t\t1 : 1\n"
    )
    with pytest.raises(AlmostSureError, match=r"sum") as caught:
        from_prism(path, damage="end")
    assert "normalise" not in str(caught.value)


def test_a_cost_counts_negatively(program: Path) -> None:
    mdp = from_prism(program, damage="cliff", constants="N=2", cost="toll")
    plain = from_prism(program, damage="cliff", constants="N=2", reward="toll")
    assert mdp.reward.tolist() == (-plain.reward).tolist()
    assert mdp.reward.min() == -5
    half = from_prism(program, damage="cliff", constants="N=2", reward="half")
    both = from_prism(program, damage="cliff", constants="N=2", reward="half", cost="toll")
    assert both.reward.tolist() == (half.reward - plain.reward).tolist()
    with pytest.raises(UnknownName, match=r"unknown reward 'tool'. Did you mean 'toll'\?"):
        from_prism(program, damage="cliff", constants="N=2", cost="tool")


def test_load_knows_the_files_that_are_from_prisms() -> None:
    assert set(STORM) == {*child.PRISM, *child.JANI, *child.DRN}


def test_files_that_storm_cannot_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("broken.prism", "broken.jani", "broken.drn"):
        path = tmp_path / name
        path.write_text("nonsense")
        with pytest.raises(ModelError, match=rf"{name}: .*(?i:pars)"):
            from_prism(path, damage="x")
    assert capfd.readouterr() == ("", "")
    with pytest.raises(FileError, match="there is no such file"):
        from_prism(tmp_path / "absent.prism", damage="x")
    (tmp_path / "model.umb").write_text("")
    with pytest.raises(FileError, match=r"must end in one of .*load a UMB file with load\(\)"):
        from_prism(tmp_path / "model.umb", damage="x")


def test_without_stormpy_the_install_command_is_printed(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(MissingExtra, match=r"needs stormpy.*pip install 'almostsure\[storm\]'"):
        from_prism(program, damage="cliff")
    with pytest.raises(MissingExtra, match=r"needs stormpy"):
        to_storm(from_transitions([0], [0], [0], [1], [0], [0]))


# ---------------------------------------------------------------------- DRN and JANI


def test_drn(program: Path, tmp_path: Path) -> None:
    import stormpy
    from stormpy.io import export_to_drn, instantiate_constants, parse_prism_program

    parsed, _ = instantiate_constants(parse_prism_program(program), "N=2")
    path = tmp_path / "walk.drn"
    export_to_drn(stormpy.build_model(parsed, options=stormpy.BuilderOptions(build_full=True)), path)
    found = from_prism(path, damage="toll", reward="half")
    wanted = from_prism(program, damage="toll", reward="half", constants="N=2")
    assert found == wanted
    assert found.action_names == wanted.action_names
    assert found.state_names is None
    with pytest.raises(ModelError, match="a DRN file has no constants"):
        from_prism(path, damage="toll", constants="N=2")


def test_rewards_that_a_drn_file_has_lost_are_not_taken_for_zero(tmp_path: Path) -> None:
    from stormpy.io import export_to_drn

    path = tmp_path / "lost.drn"
    export_to_drn(to_storm(from_transitions([0, 0], [0, 0], [0, 1], [0.5, 0.5], [0, 0], [1, 0], terminal=[1])), path)
    with pytest.raises(FileError, match=r"lost.drn: reward 'damage' .* holds no values. A DRN file loses"):
        from_prism(path, damage="damage")


def jani(first: int, second: int, *, gain: int = 0) -> dict[str, Any]:
    """One step from l0 to l1, or back to l0; its two destinations hurt by ``first`` and ``second``."""

    def destination(location: str, damage: int) -> dict[str, Any]:
        assignments = [{"ref": "hurt", "value": damage}, {"ref": "gain", "value": gain * (location == "l1")}]
        return {"location": location, "probability": {"exp": 0.5}, "assignments": assignments}

    def transient(name: str) -> dict[str, Any]:
        return {"name": name, "type": "int", "transient": True, "initial-value": 0}

    return {
        "jani-version": 1,
        "name": "step",
        "type": "mdp",
        "actions": [{"name": "go"}],
        "variables": [
            transient("hurt"),
            transient("gain"),
            {"name": "end", "type": "bool", "transient": True, "initial-value": False},
        ],
        "automata": [
            {
                "name": "A",
                "initial-locations": ["l0"],
                "locations": [{"name": "l0"}, {"name": "l1", "transient-values": [{"ref": "end", "value": True}]}],
                "edges": [
                    {
                        "location": "l0",
                        "action": "go",
                        "destinations": [destination("l1", first), destination("l0", second)],
                    },
                    {"location": "l1", "destinations": [{"location": "l1"}]},
                ],
            }
        ],
        "system": {"elements": [{"automaton": "A"}]},
        "properties": [],
    }


def test_jani(tmp_path: Path) -> None:
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(jani(2, 2)))
    mdp = from_prism(path, damage="hurt")
    assert mdp.damage.tolist() == [2, 2, 0]
    assert mdp.action_names == ("choice 0", "go")
    assert from_prism(path, damage="end").damage.tolist() == [0, 1, 1]
    assert from_prism(path, damage="action:go").damage.tolist() == [1, 1, 0]


def test_the_mean_of_a_random_damage_is_refused(tmp_path: Path) -> None:
    """Storm turns 2 or 0 into 1, a whole number: with that as the damage, a budget of 1 would look safe."""
    path = tmp_path / "step.jani"
    path.write_text(json.dumps(jani(2, 0, gain=4)))
    with pytest.raises(ModelError, match=r"step.jani: Storm only keeps the mean.*'hurt' must not be used.*label"):
        from_prism(path, damage="hurt")
    mdp = from_prism(path, damage="end", reward="gain")
    assert mdp.damage.tolist() == [0, 1, 1]
    assert mdp.reward.tolist() == [2, 2, 0]


# ---------------------------------------------------------------------- to Storm and back


@st.composite
def models(draw: st.DrawFn) -> MDP:
    """Every state has actions 0 … k, so that Storm, which numbers actions by first use, keeps their numbers."""
    num_states = draw(st.integers(1, 4))
    state = st.integers(0, num_states - 1)
    width = draw(st.integers(1, 3))
    rows = []
    for s in range(num_states):
        for a in range(width if s == 0 else draw(st.integers(1, width))):
            weights = draw(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=4))
            for w in weights:
                reward, damage = draw(st.sampled_from([-1.5, 0, 2])), draw(st.sampled_from([0, 1, 9]))
                rows.append((s, a, draw(state), w / sum(weights), reward, damage))
    starts = draw(st.sets(state, min_size=1))
    names = [f"action {i}" for i in range(width)]
    return from_transitions(
        *zip(*rows, strict=True),
        num_states=num_states,
        initial={s: 1 / len(starts) for s in starts},
        action_names=names,
    )


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mdp=models())
def test_to_storm_and_back(mdp: MDP, tmp_path: Path) -> None:
    from stormpy.io import export_to_umb

    split = with_relays(mdp)
    model = to_storm(mdp)
    assert (model.nr_states, model.nr_choices, model.nr_transitions) == (
        split.num_states, split.num_choices, split.num_outcomes,
    )  # fmt: skip
    only_costs = mdp.reward.max() <= 0 and mdp.reward.min() < 0
    assert set(model.reward_models) == {"damage", "reward"} | ({"cost"} if only_costs else set())
    labelled = {name: sorted(model.labeling.get_states(name)) for name in ("init", "terminal", "relay")}
    assert labelled["init"] == sorted(mdp.initial_states.tolist())
    assert labelled["terminal"] == np.flatnonzero(mdp.is_terminal()).tolist()
    assert labelled["relay"] == list(range(mdp.num_states, split.num_states))
    path = tmp_path / "back.umb"
    export_to_umb(model, path)  # compressed, as Storm likes it
    assert load(path) == split


def test_storm_computes_with_our_damage() -> None:
    """Two tries, each hurting by 2 with probability 1/4 and by 0 otherwise: 1 unit of damage is expected."""
    import stormpy

    mdp = from_transitions(
        [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 2, 2], [0.25, 0.75, 0.25, 0.75], [0] * 4, [2, 0, 2, 0], terminal=[2]
    )
    formula = stormpy.parse_property('R{"damage"}max=? [F "terminal"]')
    result = stormpy.model_checking(to_storm(mdp), formula)
    assert float(result.get_value(0)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", example_names())
def test_every_example_goes_through_storm_and_back(name: str, tmp_path: Path) -> None:
    import stormpy
    from stormpy.io import export_to_umb

    mdp, path = example(name), tmp_path / "model.umb"
    mdp.save(path, relay=True)
    model = stormpy.build_model_from_umb(str(path))
    assert (model.nr_states, model.nr_choices, model.nr_transitions) == (
        mdp.num_states, mdp.num_choices, mdp.num_outcomes,
    )  # fmt: skip
    export_to_umb(to_storm(mdp), str(tmp_path / "back.umb"))
    assert _by_name(load(tmp_path / "back.umb")) == _by_name(mdp)


def _by_name(mdp: MDP) -> list[tuple[Any, ...]]:
    """Every outcome; other programs number actions in another order, so that only their names can be compared."""
    choice = mdp.outcome_choices()
    actions = [mdp.action_name(a) for a in mdp.choice_action[choice].tolist()]
    columns = (mdp.choice_states()[choice], mdp.successor, mdp.probability, mdp.reward, mdp.damage)
    return sorted(zip(actions, *(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("p", [0.06, 0.12, 1e-5, "1/3", 0.94])
def test_rounding_does_not_make_a_model_wrong(tmp_path, p):
    path = tmp_path / "coin.prism"
    path.write_text(
        "mdp const double p; module m s : [0..2] init 0; [go] s=0 -> p : (s'=1) + 1-p : (s'=2); "
        'endmodule label "bad" = s=1;'
    )
    mdp = from_prism(path, damage="bad", constants={"p": p})
    assert minimal_budget(mdp).smallest_budget() == 1


def test_sums_and_ranges_are_checked_all_the_same(tmp_path):
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


def test_a_deadlock_is_an_end(tmp_path):
    """Who has crashed does not crash again and again, as Storm's self-loop would have it."""
    path = tmp_path / "crash.prism"
    path.write_text(
        "mdp module m s : [0..2] init 0; [drive] s=0 -> 0.5 : (s'=1) + 0.5 : (s'=2); [rest] s=1 -> true; endmodule "
        'label "crashed" = s=2; rewards "hurt" s=2 : 1; endrewards'
    )
    mdp = from_prism(path, damage="crashed", reward="hurt")
    assert minimal_budget(mdp).smallest_budget() == 1
    assert mdp.is_terminal().sum() == 2
    assert minimal_budget(from_prism(path, damage="hurt")).smallest_budget() == 0


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


# ---------------------------------------------------------------------- conditions, goals, scale

RACE = """
mdp
const int N = 3;
formula late = x>=N-1;
module race
    x : [0..N] init 0;
    hot : bool init false;
    [go] x<N -> 0.5 : (x'=x+1) & (hot'=false) + 0.5 : (x'=x+1) & (hot'=true);
    [rest] hot -> (hot'=false);
    [stay] x=N -> true;
endmodule
label "done" = x=N;
rewards "heat"
    hot : 0.3;
    [go] true : 400;
endrewards
"""


@pytest.fixture
def race(tmp_path: Path) -> Path:
    path = tmp_path / "race.prism"
    path.write_text(RACE)
    return path


def test_conditions_are_damage_and_goals(race: Path) -> None:
    mdp = from_prism(race, damage="hot & x>0", goal="x=N", cost="steps")
    assert {row[2] for row in steps(mdp, "hot=false, x=0") if row[-1]} == {"hot=true, x=1"}
    ends = mdp.is_terminal()
    assert ends.tolist() == ["x=3" in name for name in mdp.state_names or ()]
    assert (mdp.reward[~ends[mdp.choice_states()[mdp.outcome_choices()]]] == -1).all()
    assert minimal_budget(mdp).smallest_budget() == 3  # the last heat hurts before the run ends
    assert from_prism(race, damage="hot", goal="done") == from_prism(race, damage="hot & true", goal='"done"')
    assert from_prism(race, damage="late & hot").damage.sum() == from_prism(race, damage="x>=2 & hot").damage.sum()


def test_entering_hurts_once(race: Path) -> None:
    stays = from_prism(race, damage="x>=1", goal="done")
    enters = from_prism(race, damage="enters:x>=1", goal="done")
    assert minimal_budget(stays).smallest_budget() == 3
    assert minimal_budget(enters).smallest_budget() == 1
    assert from_prism(race, damage="enters:label:done") == from_prism(race, damage='enters:"done"')
    with pytest.raises(ModelError, match=r"must name a label or a condition after 'enters:'; 'heat' is a reward"):
        from_prism(race, damage="enters:reward:heat")


def load_again(mdp: MDP, folder: Path) -> MDP:
    mdp.save(folder / "again.umb")
    return load(folder / "again.umb")


def test_a_scale_rounds_up_exactly(race: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"got 400 at .*the unit that it is counted in: at least 1\.57 here"):
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
            r"'done & x=1' must be a condition .*inside a condition, labels stand in .*: .done.",
        ),
        ({"damage": "x==3"}, r"'x==3' must be a condition such as 'x=3 & y>0'; write = to compare"),
        ({"damage": "x="}, r"'x=' must be a condition such as 'x=3 & y>0'; write = to compare"),
        ({"damage": "x=1 && hot"}, r"write = to compare and &, | to combine"),
        ({"damage": "x+1"}, r"'x\+1' must be a condition such as 'x=3 & y>0'; it is a number, neither true nor false"),
        ({"damage": "x=1 x=2"}, r"'x=1 x=2' must be a condition such as 'x=3 & y>0'; .*parse"),
        ({"damage": "P>=1 [F hot]"}, r"unknown variable 'P'"),
        ({"damage": "hot", "goal": "x=0 & hot"}, r"goal 'x=0 & hot' must hold somewhere; no state of .*race.prism"),
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
        ModelError, match=r"goal 'end' must be reachable; it cannot be reached from state 0 of .*apart.drn on"
    ):
        from_prism(path, damage="init", goal="end")


def test_properties_of_jani_name_goals(tmp_path: Path) -> None:
    path = tmp_path / "step.jani"
    model = jani(1, 1)
    reach = {
        "op": "filter",
        "fun": "max",
        "states": {"op": "initial"},
        "values": {"op": "Pmax", "exp": {"op": "F", "exp": "end"}},
    }
    stay = {
        "op": "filter",
        "fun": "max",
        "states": {"op": "initial"},
        "values": {"op": "Pmax", "exp": {"op": "G", "exp": "end"}},
    }
    model["properties"] = [{"name": "arrive", "expression": reach}, {"name": "remain", "expression": stay}]
    path.write_text(json.dumps(model))
    mdp = from_prism(path, damage="hurt", goal="arrive")
    assert mdp == from_prism(path, damage="hurt", goal="end")
    with pytest.raises(ModelError, match=r"'remain' must be a condition .*the property must ask to reach something"):
        from_prism(path, damage="hurt", goal="remain")
    with pytest.raises(
        UnknownName, match=r"unknown goal 'arive'. Did you mean 'arrive'\?.*properties 'arrive', 'remain'"
    ):
        from_prism(path, damage="hurt", goal="arive")


def test_variables_of_a_jani_automaton_go_by_their_own_names(tmp_path: Path) -> None:
    path = tmp_path / "local.jani"
    model = jani(0, 0)
    bounded = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 3}
    automaton = model["automata"][0]
    automaton["variables"] = [{"name": "x", "type": bounded, "initial-value": 0}]
    automaton["edges"][0]["destinations"][0]["assignments"].append({"ref": "x", "value": 2})
    path.write_text(json.dumps(model))
    assert from_prism(path, damage="x=2") == from_prism(path, damage="A_x=2") == from_prism(path, damage="end")


# ---------------------------------------------------------------------- Storm in a process of its own


def test_a_division_by_zero_ends_storm_only(tmp_path: Path) -> None:
    path = tmp_path / "zero.prism"
    path.write_text("mdp\nconst int N = 1/0;\nmodule m\n x : [0..mod(3,0)] init 0;\n [] true -> (x'=0);\nendmodule\n")
    with pytest.raises(ModelError, match=r"zero.prism: Storm"):
        from_prism(path, damage="x=0")


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """So many states that nobody builds them."""
    path = tmp_path / "endless.prism"
    variables = " ".join(f"x{i} : [0..9] init 0;" for i in range(12))
    commands = " ".join(f"[] x{i}<9 -> (x{i}'=x{i}+1);" for i in range(12))
    path.write_text(f"mdp module m {variables} {commands} endmodule")
    return path


def test_time_and_memory_limits(endless: Path) -> None:
    with pytest.raises(LimitReached, match=r"Storm has not built the model within 1.5 s. Pass a larger time_limit="):
        from_prism(endless, damage="x0=9", time_limit=1.5)
    with pytest.raises(NotEnoughMemory, match=r"Storm ran out of its memory of 256 MiB. Pass a larger memory_limit="):
        from_prism(endless, damage="x0=9", memory_limit=256 * 2**20)
    with pytest.raises(ArgumentError, match="time_limit must be a positive number of seconds; got 0"):
        from_prism(endless, damage="x0=9", time_limit=0)
    with pytest.raises(ArgumentError, match="memory_limit must be at least 268,435,456 bytes"):
        from_prism(endless, damage="x0=9", memory_limit=1000)


def test_an_interrupt_ends_storm(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes while Storm is being waited for."""
    started = []
    real = subprocess.Popen.communicate

    def interrupted(process: Any, *args: Any, **kwargs: Any) -> Any:
        started.append(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            real(process, args[0], timeout=0.2)
        raise KeyboardInterrupt("while waiting")

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt, match="while waiting"):
        from_prism(endless, damage="x0=9")
    assert started[0].returncode == -signal.SIGKILL


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


def test_drn_compressed_and_without_the_number_of_choices(program: Path, tmp_path: Path) -> None:
    text = (
        "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n3\n@model\n"
        "state 0 init\n\taction a\n\t\t0 : 0.5\n\t\t1 : 0.5\n\taction b\n\t\t1 : 1\n"
        "state 1 end\n\taction a\n\t\t1 : 1\n"
    )
    path = tmp_path / "plain.drn"
    path.write_text(text)
    wanted = from_prism(path, damage="end")
    path.write_text(text.replace("@nr_choices\n3\n", ""))
    assert from_prism(path, damage="end") == wanted
    packed = tmp_path / "packed.drn.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert from_prism(packed, damage="end") == wanted
    assert from_prism(packed, damage='"end" & !"init"') == wanted
    assert as_model(packed, damage="end", goal="end").is_terminal().tolist() == [False, True]
    packed.write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(ModelError, match=r"packed.drn.gz: the compressed data are damaged"):
        from_prism(packed, damage="end")


# ---------------------------------------------------------------------- what survives


def check(mdp: MDP, formula: str) -> float:
    """What Storm says about the start."""
    import stormpy

    result = stormpy.model_checking(to_storm(mdp), stormpy.parse_property(formula))
    return float(result.get_value(mdp.initial_state))


def test_labels_rewards_and_variables_survive(race: Path, tmp_path: Path) -> None:
    mdp = from_prism(race, damage="enters:hot", cost="steps")
    assert set(mdp.labels) == {"hot", "done", "deadlock"}
    mdp.save(tmp_path / "race.umb")
    again = load(tmp_path / "race.umb")
    for kept in (mdp, again, pickle.loads(pickle.dumps(mdp))):
        assert kept.origin is not None
        assert kept.label("done").tolist() == ["x=3" in name for name in kept.state_names or ()]
        assert kept.origin.variables["x"].tolist() == [int(name[-1]) for name in kept.state_names or ()]
        assert kept.origin.variables["hot"].dtype == np.bool_
        heat = kept.origin.rewards["heat"]
        wanted = [400.0 * (kept.action_name(a) == "go") for a in kept.choice_action.tolist()]
        assert heat.tolist() == (np.array(wanted) + 0.3 * kept.origin.variables["hot"][kept.choice_states()]).tolist()
    assert check(again, 'Pmax=? [F "done"]') == pytest.approx(1)
    assert check(again, 'R{"heat"}min=? [F "done"]') == pytest.approx(1200.3)
    assert check(again, 'R{"cost"}min=? [F "done"]') == pytest.approx(3)
    model = to_storm(again)
    assert json.loads(str(model.state_valuations.to_json(0))) == {"hot": False, "x": 0}
    for name in ("other.umb", "third.umb"):  # through Storm and back, twice
        from stormpy.io import export_to_umb

        export_to_umb(to_storm(again), str(tmp_path / name))
        again = load(tmp_path / name)
    assert again.label("done").tolist() == mdp.label("done").tolist()
    assert again.origin is not None
    assert again.origin.variables["x"].tolist() == mdp.origin.variables["x"].tolist()  # type: ignore[union-attr]


# ---------------------------------------------------------------------- only the possible outcomes are known


@pytest.mark.parametrize("wrong", [{"damage": ["hot"]}, {"goal": lambda s: True}, {"cost": ["time"]}, {"damage": 1}])
def test_names_are_text(race: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be text, a name or an expression; got"):
        from_prism(race, **{"damage": "hot", **wrong})


def test_intervals(tmp_path: Path) -> None:
    path = tmp_path / "interval.drn"
    text = (
        "@type: MDP\n@value_type: double-interval\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n2\n"
        "@model\nstate 0 init\n\taction 0\n\t\t0 : [0.1, 0.6]\n\t\t1 : [0.4, 1]\n"
        "state 1 end\n\taction 0\n\t\t1 : [1, 1]\n"
    )
    path.write_text(text)
    mdp = from_prism(path, damage="init", goal="end")
    assert mdp.origin is not None
    assert mdp.origin.uncertain == "its probabilities are intervals"
    assert not mdp.origin.is_bound
    path.write_text(text.replace("[0.1, 0.6]", "[0, 0.6]"))
    mdp = from_prism(path, damage="init", goal="end")
    assert mdp.origin is not None
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


def test_parameters(race: Path) -> None:
    wanted = minimal_budget(from_prism(race, damage="hot", goal="done"))
    race.write_text(
        RACE.replace("formula", "const double p;\nformula").replace("-> 0.5", "-> p").replace("+ 0.5", "+ 1-p")
    )
    mdp = from_prism(race, damage="hot", goal="done", parameters=["p"])
    assert minimal_budget(mdp).of_state.tolist() == wanted.of_state.tolist()
    with pytest.raises(ModelError, match=r"solve_policy needs .* not known: its probabilities have parameters"):
        solve_policy(mdp, AlmostSure(3))
    with pytest.raises(ModelError, match=r"constants must have a value; p has none. Pass constants='p=…', or"):
        from_prism(race, damage="hot")
    with pytest.raises(UnknownName, match=r"unknown constant 'q'"):
        from_prism(race, damage="hot", parameters=["q"])
    race.write_text(race.read_text().replace("400", "p"))
    with pytest.raises(ModelError, match=r"a reward structure has parameters"):
        from_prism(race, damage="hot", parameters=["p"])


# ---------------------------------------------------------------------- DRN files of our own


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mdp=models())
def test_drn_files_keep_budgets_and_returns(mdp: MDP, tmp_path: Path) -> None:
    import stormpy

    assume(mdp.damage.any() and mdp.reward.any())  # Storm forgets a reward structure of zeros
    path = tmp_path / "model.drn"
    mdp.save(path)
    options = stormpy.io.DirectEncodingParserOptions()
    options.build_choice_labeling = True
    model = stormpy.build_model_from_drn(str(path), options=options)
    stormpy.io.export_to_umb(model, str(tmp_path / "back.umb"))
    back = load(tmp_path / "back.umb")
    assert minimal_budget(back).of_state[: mdp.num_states].tolist() == minimal_budget(mdp).of_state.tolist()
    assert back.num_states == mdp.num_states + back.label("relay").sum() if "relay" in back.labels else mdp.num_states
    per_step = (back.probability * back.reward).sum() - (mdp.probability * mdp.reward).sum()
    assert "relay" in back.labels or per_step == pytest.approx(0)


def test_drn_comes_back(race: Path, tmp_path: Path) -> None:
    mdp = from_prism(race, damage="heat", scale=2, goal="done", cost="steps")
    mdp.save(tmp_path / "race.drn")
    back = from_prism(tmp_path / "race.drn", damage="damage", reward="reward")
    assert _by_name(back) == _by_name(mdp)
    assert back.label("done").tolist() == mdp.label("done").tolist()
    assert back.origin is not None
    assert mdp.origin is not None
    assert sorted(back.origin.rewards["heat"]) == pytest.approx(sorted(mdp.origin.rewards["heat"]))
