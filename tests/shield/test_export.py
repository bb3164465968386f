"""Exported shields, in Python and in C, allow the same actions as the shield."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError, FileError, NoSafeAction
from almostsure.model.build.examples import example
from almostsure.shield import Shield
from almostsure.testing.families import garnet, ladder

from ..exported import load

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


def shield_of(mdp: asure.MDP, cap: int | None = None) -> Shield:
    return Shield(asure.minimal_budget(mdp, cap=cap))


def expected(shield: Shield, state: int, remaining: int) -> list[int]:
    try:
        return shield.allowed(state, remaining).tolist()
    except NoSafeAction:
        return []


def models(make) -> list[asure.MDP]:
    lost = asure.from_transitions([0], [0], [0], [1], [0], [1])
    sparse = asure.from_transitions([0, 1], [300, 7], [1, 1], [1, 1], [0, 0], [3, 0])
    return [*(make(seed) for seed in range(12)), example("quicksand"), ladder(300), lost, sparse]


# ---------------------------------------------------------------------- NumPy


def test_the_module_allows_the_same_actions_as_the_shield(make, tmp_path: Path) -> None:
    for number, mdp in enumerate(models(make)):
        shield, budget = shield_of(mdp), 310
        module, table = shield.export_numpy(tmp_path / f"table_{number}.py", budget)
        assert (module.name, table.name) == (f"table_{number}.py", f"table_{number}.npz")
        runtime = load(module)
        assert mdp.fingerprint == runtime.MODEL
        for state in range(mdp.num_states):
            for remaining in (*range(-1, 12), 254, 255, 256, 299, 300, 301, 310):
                assert answer(runtime, state, remaining) == expected(shield, state, remaining)


def answer(runtime: ModuleType, state: int, remaining: int) -> list[int]:
    try:
        found = runtime.allowed(state, remaining)
    except runtime.NoSafeAction:
        return []
    assert found.dtype == np.int64
    assert found.size
    return found.tolist()


def test_a_header_does_not_take_the_place_of_a_module(shield: Shield, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"path must end in \.h or \.hpp, as C headers do; got .*s\.py'"):
        shield.export_c(tmp_path / "s.py")
    assert not (tmp_path / "s.py").exists()


def test_the_module_fails_closed(shield: Shield, tmp_path: Path) -> None:
    runtime = load(shield.export_numpy(tmp_path / "table.py", 2)[0])
    for state in (-1, 4, 2**70):
        with pytest.raises(runtime.UnknownState, match=f"unknown state {state}. States are 0 … 3"):
            runtime.allowed(state, 2)
    for state, remaining in ((0, 0), (2, 2), (3, -1)):
        with pytest.raises(runtime.NoSafeAction, match=f"no action of state {state} is safe with {remaining} left"):
            runtime.allowed(state, remaining)
    for state in (0.0, True, "start", None):
        with pytest.raises(TypeError, match="state must be an integer"):
            runtime.allowed(state, 2)
    for remaining in (0.5, 1.0, float("nan"), np.True_, "1", None):
        with pytest.raises(TypeError, match="remaining must be an integer"):
            runtime.allowed(0, remaining)
    with pytest.raises(ValueError, match="remaining must be at most 2, the limit of this table; got 3"):
        runtime.allowed(0, 3)
    assert runtime.allowed(np.uint8(0), np.int8(2)).tolist() == [0, 1]


def test_it_needs_numpy_only(shield: Shield, tmp_path: Path) -> None:
    """Run where almostsure cannot be imported."""
    module, _ = shield.export_numpy(tmp_path / "robot_shield.py")
    text = module.read_text()
    assert text.startswith('"""')
    assert '\n"""\n\nfrom __future__ import annotations\n' in text
    lines = [line for line in text.splitlines() if re.match(r"\s*(import|from) ", line)]
    roots = {line.split()[1].split(".")[0] for line in lines}
    assert roots - set(sys.stdlib_module_names) == {"numpy"}
    code = (
        "import sys; sys.modules['almostsure'] = None; import robot_shield; "
        "print(robot_shield.allowed(0, 2).tolist(), robot_shield.allowed(0, 10**9).tolist())"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[0] == "[0, 1] [0, 1]"


def test_a_missing_damaged_or_foreign_table_is_refused(shield: Shield, tmp_path: Path) -> None:
    module, table = shield.export_numpy(tmp_path / "a.py")
    content = table.read_bytes()
    table.write_bytes(content[:-1] + b"x")
    runtime = load(module)
    with pytest.raises(runtime.DamagedTable, match=r"'a.npz' is damaged, or not the table"):
        runtime.allowed(3, 0)
    other = shield_of(ladder(3)).export_numpy(tmp_path / "b.py")[1]
    table.write_bytes(other.read_bytes())
    with pytest.raises(runtime.DamagedTable, match="not the table that this file was written with"):
        runtime.allowed(3, 0)
    table.unlink()
    with pytest.raises(runtime.DamagedTable, match=r"cannot read the table 'a.npz': No such file"):
        runtime.allowed(3, 0)
    table.write_bytes(content)
    assert runtime.allowed(3, 0).tolist() == [0]


def test_equal_shields_give_equal_files(shield: Shield, tmp_path: Path) -> None:
    first = [path.read_bytes() for path in shield.export_numpy(tmp_path / "a.py")]
    second = [path.read_bytes() for path in shield.export_numpy(tmp_path / "a")]
    assert first == second


@pytest.mark.parametrize("name", ["two words.py", "class.py", "1st.py", "a-b", "dotted.name.py"])
def test_module_names_that_cannot_be_imported(shield: Shield, tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="path must end in the name of a Python module"):
        shield.export_numpy(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_folders_that_do_not_exist(shield: Shield, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*: there is no folder .*none'\. Make it first\."):
        shield.export_numpy(tmp_path / "none" / "a.py")
    with pytest.raises(FileError, match=r"cannot write .*: there is no folder .*none'\. Make it first\."):
        shield.export_c(tmp_path / "none" / "a.h")


@pytest.mark.parametrize("budget", [-1, 0.5, True, "2"])
def test_invalid_budgets(shield: Shield, tmp_path: Path, budget: object) -> None:
    for export in (shield.export_numpy, shield.export_c):
        with pytest.raises(ArgumentError, match="budget must be"):
            export(tmp_path / "a.py", budget)
    assert not list(tmp_path.iterdir())


def test_a_cap_limits_the_budget(fall: asure.MDP, tmp_path: Path) -> None:
    shield = shield_of(fall, cap=1)
    runtime = load(shield.export_numpy(tmp_path / "a.py")[0])
    assert runtime.allowed(0, 1).tolist() == [0]
    with pytest.raises(ValueError, match="remaining must be at most 1"):
        runtime.allowed(0, 2)
    with pytest.raises(ArgumentError, match="budget must be at most the cap 1"):
        shield.export_numpy(tmp_path / "b.py", 2)


# ---------------------------------------------------------------------- C

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "shield.h"
int main(void)
{
    static uint8_t mask[PREFIX_NUM_ACTIONS];
    long long state, remaining;
    while (scanf("%lld %lld", &state, &remaining) == 2) {
        uint32_t a;
        for (a = 0; a < PREFIX_NUM_ACTIONS; a++) mask[a] = 77;
        printf("%d", prefix_allowed((uint32_t)state, (int32_t)remaining, mask));
        for (a = 0; a < PREFIX_NUM_ACTIONS; a++) {
            if (mask[a] > 1) return 3;
            if (mask[a]) printf(" %u", (unsigned)a);
        }
        printf("\\n");
    }
    return prefix_allowed(0, 0, NULL) == PREFIX_NO_MASK ? 0 : 4;
}
"""


def ask(folder: Path, questions: list[tuple[int, int]], prefix: str = "almostsure") -> list[list[int]]:
    """Compile shield.h with the strictest warnings and call it; each answer is the result and the actions."""
    main = MAIN.replace("PREFIX", prefix.upper()).replace("prefix", prefix)
    (folder / "main.c").write_text(main)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    subprocess.run([COMPILER, *strict, "main.c", "-o", "main"], cwd=folder, check=True, timeout=60)
    text = "".join(f"{state} {remaining}\n" for state, remaining in questions)
    run = subprocess.run([folder / "main"], input=text, capture_output=True, text=True, check=True, timeout=60)
    return [[int(word) for word in line.split()] for line in run.stdout.splitlines()]


@needs_compiler
def test_the_header_allows_the_same_actions_as_the_shield(make, tmp_path: Path) -> None:
    for mdp in models(make):
        shield, budget = shield_of(mdp), 310
        shield.export_c(tmp_path / "shield.h", budget)
        every = (*range(-1, 12), 254, 255, 256, 299, 300, 301, 310)
        questions = [(state, remaining) for state in range(mdp.num_states) for remaining in every]
        answers = ask(tmp_path, questions)
        assert len(answers) == len(questions)
        for (state, remaining), (result, *actions) in zip(questions, answers, strict=True):
            assert actions == expected(shield, state, remaining)
            assert result == (len(actions) or -2)


@needs_compiler
def test_the_header_fails_closed(shield: Shield, tmp_path: Path) -> None:
    assert shield.export_c(str(tmp_path / "shield.h"), 2, name="robot") == tmp_path / "shield.h"
    questions = [(4, 2), (2**32 - 1, 2), (0, 3), (0, 2**31 - 1), (0, -(2**31)), (2, 2), (0, 2)]
    assert ask(tmp_path, questions, "robot") == [[-1], [-1], [-3], [-3], [-2], [-2], [2, 0, 1]]


@needs_compiler
def test_hostile_names_stay_in_their_comment(tmp_path: Path) -> None:
    names = ["*/ int evil(void) { return 1; } /*", "back\\\nslash\\", "??/", "{braces} %s", "naïve\u2028", "x" * 500]
    mdp = asure.from_transitions(
        range(6), range(6), [0] * 6, [1] * 6, [0] * 6, [0] * 6, action_names=names, state_names=names
    )
    shield_of(mdp).export_c(tmp_path / "shield.h")
    text = (tmp_path / "shield.h").read_text("ascii")
    assert text.count("*/") == text.count("/*") == 4
    assert "evil(void) {" not in text
    assert not re.search(r"\\(?![0-7]{3})|[?][?]/", text)
    assert max(map(len, text.splitlines())) < 400
    assert ask(tmp_path, [(3, 0)]) == [[1, 3]]


@needs_compiler
def test_two_headers_in_one_program(shield: Shield, tmp_path: Path) -> None:
    shield.export_c(tmp_path / "one.h", name="one")
    shield_of(ladder(3)).export_c(tmp_path / "two.h", name="two")
    (tmp_path / "shield.h").write_text('#include "one.h"\n#include "one.h"\n#include "two.h"\n')
    assert ask(tmp_path, [(0, 1)], "one") == [[1, 0]]
    assert ask(tmp_path, [(3, 3)], "two") == [[1, 0]]


def test_the_header_names_its_model(shield: Shield, tmp_path: Path) -> None:
    shield.export_c(tmp_path / "shield.h", 2)
    text = (tmp_path / "shield.h").read_text()
    assert text.count(shield.mdp.fingerprint) == 2
    assert "actions  0 jump, 1 climb, 2 wait" in text
    assert "#define ALMOSTSURE_BUDGET 2\n" in text


@pytest.mark.parametrize(
    ("count", "named", "shown"),
    [
        (40, False, "0 ... 39"),
        (32, True, ", ".join(f"{i} go{i}" for i in range(32))),
        (33, True, ", ".join(f"{i} go{i}" for i in range(32)) + ", ..."),
    ],
)
def test_the_header_lists_up_to_32_actions(tmp_path: Path, count: int, named: bool, shown: str) -> None:
    names = [f"go{i}" for i in range(count)] if named else None
    nothing = [0] * count
    mdp = asure.from_transitions(nothing, range(count), nothing, [1] * count, nothing, nothing, action_names=names)
    shield_of(mdp).export_c(tmp_path / "shield.h")
    assert f"actions  {shown}\n" in (tmp_path / "shield.h").read_text()


@pytest.mark.parametrize("name", ["", "1st", "_x", "a b", "a-b", "ä", "x;y", "x\n"])
def test_invalid_prefixes(shield: Shield, tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match="name must be letters, digits and underscores"):
        shield.export_c(tmp_path / "shield.h", name=name)
    assert not list(tmp_path.iterdir())


def test_a_failed_export_leaves_the_old_file(shield: Shield, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shield.export_c(tmp_path / "shield.h")
    before = (tmp_path / "shield.h").read_bytes()

    def fail(values: object) -> None:
        raise KeyboardInterrupt("enough")

    monkeypatch.setattr("almostsure.shield.export.write._numbers", fail)
    with pytest.raises(KeyboardInterrupt, match="enough"):
        shield_of(garnet(5, 2, 2)).export_c(tmp_path / "shield.h")
    assert (tmp_path / "shield.h").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["shield.h"]
