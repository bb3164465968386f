"""Names in every kind of export: the number of a state is found by its name, or by the values of its variables."""

import shutil
import subprocess

import numpy as np
import pytest

import almostsure as asure
from almostsure.model.origin import Origin
from almostsure.plan import RiskShield
from almostsure.shield import HorizonShield
from almostsure.shield.export import names as exported_names

from ..exported import load

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")

VALUES = {"wet": np.array([False, True, False, True, True]), "place": np.array([3, -2, -2, 7, 3], np.int8)}
ROWS = list(zip(*(values.tolist() for values in VALUES.values()), strict=True))
HOSTILE = ['"); evil(); //', "??/ */ /*", "naïve ∞ \u2028", "x" * 500, "back\\slash\n%s {braces}"]


def model(names=None, variables=None):
    """Five states in a ring."""
    ring = [1, 2, 3, 4, 0]
    mdp = asure.from_transitions(
        range(5), [0] * 5, ring, [1] * 5, [0] * 5, [0] * 5, state_names=names, action_names=["go on", "stop"]
    )
    return mdp if variables is None else mdp.with_origin(Origin(variables=variables))


KINDS = {
    "budget": lambda mdp: asure.Shield(asure.minimal_budget(mdp)),
    "horizon": lambda mdp: HorizonShield(asure.minimal_budget(mdp, horizon=3)),
    "risk": lambda mdp: RiskShield(mdp, 1, 0.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_modules_find_states_by_name_and_by_values(kind, tmp_path):
    module = load(KINDS[kind](model(HOSTILE, VALUES)).export_numpy(tmp_path / "shield")[0])
    assert [module.state_number(name) for name in HOSTILE] == list(range(5))
    assert [module.state_number(wet=wet, place=place) for wet, place in ROWS] == list(range(5))
    assert module.names().actions == ["go on", "stop"]
    with pytest.raises(module.UnknownState, match=r"no state is 'nowhere'\. They are named '\"\); evil\(\); //', "):
        module.state_number("nowhere")
    with pytest.raises(module.UnknownState, match=r"no state is \(False, 7\)"):
        module.state_number(wet=False, place=7)
    for wrong in ({"wet": True}, {"wet": True, "place": 3, "x": 1}):
        with pytest.raises(TypeError, match="give a name, or a value for every variable: wet, place"):
            module.state_number(**wrong)
    with pytest.raises(TypeError, match="give a name, or a value for every variable"):
        module.state_number(HOSTILE[0], wet=True, place=3)


def test_long_names_are_offered_whole(tmp_path):
    names = [f"battery=7, orbit=3, pictures taken so far={at}, hit=false" for at in range(5)]
    module = load(KINDS["budget"](model(names)).export_numpy(tmp_path / "long")[0])
    with pytest.raises(module.UnknownState, match="They are named") as caught:
        module.state_number("nowhere")
    assert repr(names[0]) in str(caught.value)


def test_states_that_are_tuples_are_found_by_their_text(tmp_path):
    module = load(KINDS["budget"](model(["(0, 1)", "b", "c", "d", "e"])).export_numpy(tmp_path / "tuples")[0])
    with pytest.raises(module.UnknownState, match=r"state_number\('\(0, 1\)'\), or pass str\(state\)"):
        module.state_number((0, 1))


def test_exports_of_learned_models_say_so(tmp_path):
    learned = asure.learn_minimal_budget("corridor", mu=0.1, delta=0.1, seed=0).shield
    module = load(learned.export_numpy(tmp_path / "learned")[0])
    assert learned.mdp.origin.learned == module.LEARNED
    assert "If no outcome is rarer than 10 %" in module.LEARNED
    header = learned.export_c(tmp_path / "learned.h").read_text()
    assert " *   learned  Learned from " in header
    assert load(KINDS["budget"](model()).export_numpy(tmp_path / "plain")[0]).LEARNED == ""
    assert "learned" not in KINDS["budget"](model()).export_c(tmp_path / "plain.h").read_text()


def test_models_without_names_and_values_of_several_states(tmp_path):
    module = load(KINDS["budget"](model()).export_numpy(tmp_path / "plain")[0])
    with pytest.raises(module.UnknownState, match=r"no state is 'a'\. They have no names\."):
        module.state_number("a")
    with pytest.raises(TypeError, match="none, for this model has no variables"):
        module.state_number(x=1)
    twice = {"x": np.array([0, 1, 0, 2, 3])}
    module = load(KINDS["budget"](model("abcde", twice)).export_numpy(tmp_path / "twice")[0])
    assert module.state_number(x=3) == 4
    with pytest.raises(module.UnknownState, match=r"several states have the values \(0,\): give a name"):
        module.state_number(x=0)


def run(folder, body):
    """What a program prints in which shield.h is included, names and all."""
    lines = ["#include <stdio.h>", "#define ALMOSTSURE_NAMES", '#include "shield.h"', "int main(void) {", body]
    (folder / "main.c").write_text("\n".join([*lines, "return 0; }"]))
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    subprocess.run([COMPILER, *strict, "main.c", "-o", "main", "-lm"], cwd=folder, check=True, timeout=60)
    return subprocess.run([folder / "main"], capture_output=True, check=True, timeout=60).stdout.decode()


@needs_compiler
@pytest.mark.parametrize("kind", KINDS)
def test_headers_find_states_by_name_and_by_values(kind, tmp_path):
    KINDS[kind](model(HOSTILE, VALUES)).export_c(tmp_path / "shield.h")
    assert "values   [0] wet, [1] place" in (tmp_path / "shield.h").read_text("ascii")
    told = run(
        tmp_path,
        "int i; int32_t at[2];\n"
        'for (i = 0; i < 5; i++) printf("%s|%d|", almostsure_state_names[i],'
        " (int)almostsure_state_named(almostsure_state_names[i]));\n"
        'printf("%s|%d|%d|%d|", almostsure_action_names[1], (int)almostsure_state_named("nowhere"),'
        " (int)almostsure_state_named(NULL), (int)almostsure_state(NULL));\n"
        "for (at[0] = -1; at[0] < 3; at[0]++) for (at[1] = -3; at[1] < 9; at[1]++)\n"
        '  printf("%d ", (int)almostsure_state(at));',
    )
    *named, found = told.split("|")
    assert named == [text for state, name in enumerate(HOSTILE) for text in (name, str(state))] + ["stop", *["-1"] * 3]
    expected = [ROWS.index(row) if row in ROWS else -1 for row in ((w, p) for w in range(-1, 3) for p in range(-3, 9))]
    assert list(map(int, found.split())) == expected


UNFIT = {
    "of several states": {"x": np.array([0, 1, 0, 2, 3])},
    "fractions": {"x": np.arange(5) / 2},
    "too large": {"x": np.arange(5) + 2**40},
    "texts": {"x": np.array(list("abcde"))},
}


@pytest.mark.parametrize("values", UNFIT)
def test_values_that_a_header_cannot_look_up_are_left_out(values, tmp_path):
    KINDS["budget"](model("abcde", UNFIT[values])).export_c(tmp_path / "shield.h")
    text = (tmp_path / "shield.h").read_text()
    assert "almostsure_state(" not in text
    assert (
        "states   0 ... 4; with ALMOSTSURE_NAMES defined, almostsure_state_named(text) finds one by its name\n" in text
    )


def test_names_of_many_states_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(exported_names, "MOST_IN_HEADER", 4)
    KINDS["budget"](model("abcde", VALUES)).export_c(tmp_path / "shield.h")
    text = (tmp_path / "shield.h").read_text()
    assert "almostsure_state(values) finds one by its variables; their names are left out, export_numpy writes" in text
    assert "state_names" not in text
    assert '"go on",' in text
    monkeypatch.setattr(exported_names, "MOST_STATES", 4)
    module = load(KINDS["budget"](model("abcde", VALUES)).export_numpy(tmp_path / "shield")[0])
    assert (module.names().states, module.names().variables, module.names().actions) == (None, {}, ["go on", "stop"])


def test_names_that_c_would_cut_are_left_out(tmp_path):
    KINDS["budget"](model(["a\0b", *"abcd"])).export_c(tmp_path / "shield.h")
    assert "state_named" not in (tmp_path / "shield.h").read_text()


@needs_compiler
def test_policies_on_cells_name_their_actions(tmp_path):
    grid = asure.Grid([-1.0], [1.0], [8])
    system = asure.abstract(
        lambda x, a: (x[0] * 0.5 + a,), grid, [-0.1, 0.1], action_names=["left", "right"], unsafe=lambda x: x[0] > 2.0
    )
    policy = asure.minimal_budget(system).policy()
    assert load(policy.export_numpy(tmp_path / "policy")[0]).names().actions == ["left", "right"]
    policy.export_c(tmp_path / "shield.h")
    assert run(tmp_path, 'printf("%s", almostsure_action_names[1]);') == "right"
