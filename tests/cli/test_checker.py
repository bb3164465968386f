"""The trusted process: no engine runs in it, and what is wrong is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import almostsure as asure
from almostsure.cli import checker
from almostsure.cli.commands.check import _libraries
from almostsure.files import load_tensors, save_tensors
from almostsure.shield import HorizonShield

ENGINES = {"kernels", "levels", "plain", "reference", "solve", "grow", "memory"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    mdp = asure.example("quicksand")
    mdp.save(tmp_path / "model.umb")
    asure.minimal_budget(mdp).save(tmp_path / "budget.safetensors")
    return tmp_path


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    mdp = asure.load(folder / "model.umb")
    arrays, strings = load_tensors(folder / "budget.safetensors", kind="budget", model=mdp.fingerprint)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    kept = {name: strings[name] for name in ("cap", "engine")}
    save_tensors(folder / "budget.safetensors", kind="budget", model=mdp.fingerprint, arrays=arrays, strings=kept)


def test_no_engine_is_loaded(saved: Path) -> None:
    request = json.dumps({"model": "model.umb", "result": "budget.safetensors", "options": {}})
    done = subprocess.run(
        [sys.executable, "-I", checker.__file__, request], capture_output=True, cwd=saved, check=True
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "verified"
    modules = set(answer["trusted"]["modules"])
    assert 1_000 < answer["trusted"]["lines"] < 9_000  # "a few thousand", says docs/certify.md
    assert "almostsure.budget.certificate" in modules
    assert "almostsure.model.files" in modules
    assert {name for name in modules if name.startswith("almostsure.budget.")} == {
        "almostsure.budget.certificate",
        "almostsure.budget.minimal",
    }
    packages = {name.split(".")[1] for name in modules}
    assert packages == {"arguments", "budget", "errors", "exports", "files", "model", "wording"}
    assert not {name for name in modules if name.rpartition(".")[2] in ENGINES}
    assert "almostsure.model.build.examples" not in modules  # only the reader of the file at hand


def test_the_list_of_modules_is_all_that_was_loaded(saved: Path) -> None:
    program = (
        "import json, runpy, sys; sys.argv = ['checker', sys.argv[1]]\n"
        f"runpy.run_path({checker.__file__!r}, run_name='__main__')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('almostsure.')), file=sys.stderr)"
    )
    request = json.dumps({"model": "model.umb", "result": "budget.safetensors", "options": {}})
    done = subprocess.run([sys.executable, "-I", "-c", program, request], capture_output=True, cwd=saved, check=True)
    assert json.loads(done.stdout)["trusted"]["modules"] == done.stderr.decode().split()


def test_libraries_are_found_wherever_they_are(saved: Path) -> None:
    """As after ``pip install --user`` or with PYTHONPATH, where an isolated Python does not look."""
    request = json.dumps(
        {"model": "model.umb", "result": "budget.safetensors", "options": {}, "libraries": _libraries()}
    )
    done = subprocess.run([sys.executable, "-I", "-S", checker.__file__, request], capture_output=True, cwd=saved)
    assert json.loads(done.stdout)["verdict"] == "verified"


def test_a_forged_budget_is_rejected(saved: Path, here: Callable[..., Any]) -> None:
    def lower(arrays: dict[str, Any]) -> None:
        arrays["of_state"][:] = 0
        arrays["of_choice"][:] = 0

    forge(saved, lower)
    done = here("check", "model.umb", "budget.safetensors")
    assert done.code == 1
    assert "REJECTED" in done.out
    assert "is too small" in done.out
    assert here("check", "model.umb", "budget.safetensors", "--json").json["verdict"] == "rejected"


def test_too_cautious_a_budget_is_rejected(saved: Path, here: Callable[..., Any]) -> None:
    def raise_all(arrays: dict[str, Any]) -> None:
        for name in ("of_state", "of_choice"):
            arrays[name][:] = asure.INFINITE

    forge(saved, raise_all)
    done = here("check", "model.umb", "budget.safetensors")
    assert done.code == 1
    assert "REJECTED" in done.out


def test_shields_have_certificates_too(saved: Path, here: Callable[..., Any]) -> None:
    mdp = asure.load(saved / "model.umb")
    asure.Shield(asure.minimal_budget(mdp)).save(saved / "shield.safetensors")
    assert here("check", "model.umb", "shield.safetensors", "--json").json["kind"] == "shield"


@pytest.mark.parametrize("kind", ["horizon budget", "horizon shield", "risk shield", "risk shield within steps"])
def test_horizons_and_risks_are_checked_and_forgeries_rejected(
    kind: str, saved: Path, here: Callable[..., Any]
) -> None:
    mdp, path = asure.load(saved / "model.umb"), saved / "result.safetensors"
    if kind.startswith("horizon"):
        within = asure.minimal_budget(mdp, horizon=10)
        (within if kind == "horizon budget" else HorizonShield(within)).save(path)
        claims = {"horizon": 10, "minimal_budget": within.smallest_budget()}
    else:
        steps = 8 if "steps" in kind else None
        asure.RiskShield(mdp, 2, 0.9, horizon=steps).save(path)
        claims = {"budget": 2, "risk": 0.9, "horizon": steps}
    stored = kind.removesuffix(" within steps")
    answer = here("check", "model.umb", path.name, "--json").json
    assert answer["verdict"] == "verified"
    assert {**answer, **claims} == answer
    assert not any(
        name.rpartition(".")[2] in ENGINES | {"least", "shield", "sums"} for name in answer["trusted"]["modules"]
    )
    arrays, strings = load_tensors(path, kind=stored, model=mdp.fingerprint)
    later = {"step": arrays["step"] + 1} if "step" in arrays else {"least": arrays["least"] / 2}  # too small a claim
    kept = {name: strings[name] for name in ("budget", "risk", "horizon", "cap", "settled") if name in strings}
    save_tensors(path, kind=stored, model=mdp.fingerprint, arrays=arrays | later, strings=kept)
    done = here("check", "model.umb", path.name)
    assert done.code == 1
    assert "REJECTED" in done.out


def test_a_model_and_a_result_that_are_swapped(saved: Path, here: Callable[..., Any]) -> None:
    done = here("check", "budget.safetensors", "model.umb")
    assert done.code == 3
    assert "the other way round. Write: almostsure check model.umb budget.safetensors" in done.err


def test_what_is_no_certificate_is_refused(saved: Path, here: Callable[..., Any]) -> None:
    asure.solve_policy("quicksand", asure.AlmostSure(2)).policy.save(saved / "policy.safetensors")
    asure.minimal_budget(asure.abstract("Pendulum-v1", asure.Grid((-0.4, -1.6), (0.4, 1.6), (5, 5)))).save(
        saved / "upper.safetensors"
    )
    (saved / "text.safetensors").write_text("nothing of the kind")
    damaged = (saved / "budget.safetensors").read_bytes()
    (saved / "damaged.safetensors").write_bytes(damaged[:-20])
    for name, message in (
        ("policy.safetensors", "holds a policy, which has no certificate"),
        ("upper.safetensors", "UpperBudget.load of almostsure.abstract reads and verifies, given the system"),
        ("text.safetensors", "is damaged, or not a file of almostsure"),
        ("damaged.safetensors", "is damaged, or not a file of almostsure"),
        ("absent.safetensors", "there is no such file"),
    ):
        done = here("check", "model.umb", name)
        assert done.code == 3
        assert message in done.err


def test_upper_budgets_of_a_system_are_verified_without_the_solver(tmp_path: Path, here: Callable[..., Any]) -> None:
    system = asure.abstract("Pendulum-v1", asure.Grid((-0.4, -1.6), (0.4, 1.6), (40, 40)), pattern=2)
    upper = asure.minimal_budget(system)
    upper.save(tmp_path / "upper.safetensors")
    assert upper.smallest_budget() == 0
    answer = here("check", "Pendulum-v1", "upper.safetensors", "--json").json
    assert (answer["verdict"], answer["kind"], answer["minimal_budget"]) == ("verified", "upper", 0)
    assert answer["model"]["fingerprint"] == system.fingerprint
    assert answer["upper_bound"] is True
    modules = set(answer["trusted"]["modules"])
    assert "almostsure.abstract.certificate" in modules
    assert not modules & {"almostsure.abstract.solve", "almostsure.abstract.compiled.levels", "almostsure.budget.solve"}
    assert "for cells, upper bounds are proved" in " ".join(
        here("check", "Pendulum-v1", "upper.safetensors").out.split()
    )
    arrays, strings = load_tensors(tmp_path / "upper.safetensors", kind="upper", model=system.fingerprint)
    kept = {name: strings[name] for name in ("cap", "engine", "grid", "patterns")}
    nothing = {"of_state": np.zeros_like(arrays["of_state"])}
    save_tensors(tmp_path / "forged.safetensors", kind="upper", model=system.fingerprint, arrays=nothing, strings=kept)
    done = here("check", "Pendulum-v1", "forged.safetensors")
    assert done.code == 1
    for words in (
        "REJECTED",
        "it claims 0, but its best pattern needs ∞",
        "abstract Pendulum-v1 -o forged.safetensors",
    ):
        assert words in " ".join(done.out.split())
    finer = kept | {"grid": kept["grid"].replace("[40, 40]", "[40, 20]")}
    save_tensors(tmp_path / "other.safetensors", kind="upper", model=system.fingerprint, arrays=arrays, strings=finer)
    for name, file, message in (
        ("Pendulum-v1", "other", "belongs to another model"),
        ("CartPole-v1", "upper", "CartPole-v1 has 4 coordinates; got 2"),
        ("quicksand", "upper", "given the system that it was made for. This command knows CartPole-v1, "),
    ):
        done = here("check", name, f"{file}.safetensors")
        assert (done.code, message in done.err) == (3, True)
    assert "are for models" in here("check", "Pendulum-v1", "upper.safetensors", "--damage", "x").err


def test_what_a_library_prints_does_not_get_between(saved: Path) -> None:
    program = (
        "import builtins, os, runpy, sys; sys.argv = ['checker', sys.argv[1]]\n"
        "kept = os.path.splitext\n"
        "os.path.splitext = lambda name: (os.system('echo noise'), print('noise'), kept(name))[-1]\n"
        f"runpy.run_path({checker.__file__!r}, run_name='__main__')"
    )
    request = json.dumps({"model": "model.umb", "result": "budget.safetensors", "options": {}})
    done = subprocess.run([sys.executable, "-I", "-c", program, request], capture_output=True, cwd=saved, check=True)
    assert json.loads(done.stdout)["verdict"] == "verified"
    assert b"noise" in done.stderr


def test_the_model_is_named_as_everywhere(saved: Path, here: Callable[..., Any]) -> None:
    (saved / "model.prism").write_text("mdp")
    assert "--damage NAME" in here("check", "model.prism", "budget.safetensors").err
    assert "Did you mean 'model.umb'?" in here("check", "modl.umb", "budget.safetensors").err
    assert "--damage must be left out" in here("check", "paper", "budget.safetensors", "--damage", "x").err


@pytest.mark.parametrize(("code", "exit_code"), [(-9, 4), (1, 70)])
def test_a_checker_that_dies(
    code: int, exit_code: int, saved: Path, here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.CompletedProcess([], code, b"")
    monkeypatch.setattr("almostsure.cli.commands.check.subprocess.run", lambda *_, **__: ended)
    assert here("check", "model.umb", "budget.safetensors").code == exit_code


def test_a_budget_of_another_model_is_refused(saved: Path, here: Callable[..., Any]) -> None:
    done = here("check", "paper", "budget.safetensors")
    assert done.code == 3
    assert "belongs to another model" in done.err


def test_large_models_are_checked_by_the_compiled_loop(tmp_path: Path, here: Callable[..., Any]) -> None:
    from almostsure.testing.families import ladder

    mdp = ladder(60, width=1200)
    assert mdp.num_outcomes > 200_000
    mdp.save(tmp_path / "ladder.umb")
    asure.minimal_budget(mdp).save(tmp_path / "ladder.safetensors")
    assert np.isfinite(here("check", "ladder.umb", "ladder.safetensors", "--json").json["minimal_budget"])


def test_what_storm_has_read_is_said(tmp_path: Path, here: Callable[..., Any]) -> None:
    pytest.importorskip("stormpy")
    (tmp_path / "walk.prism").write_text(
        'mdp\nmodule m\n  x : [0..2] init 0;\n  [go] x<2 -> (x\'=x+1);\nendmodule\nlabel "hit" = x=1;\n'
    )
    options = ("--damage", "hit", "--goal", "x=2")
    assert here("budget", "walk.prism", *options, "-o", "b.safetensors").code == 0
    assert "and Storm, which read walk.prism" in here("check", "walk.prism", "b.safetensors", *options).out
    assert here("check", "walk.prism", "b.safetensors", *options, "--json").json["trusted"]["storm"] is True
    assert here("models", "walk.prism", *options, "--json").json["actions"] == ["end", "go"]
    here("convert", "walk.prism", "walk.umb", *options)
    assert here("check", "walk.umb", "b.safetensors", "--json").json["trusted"]["storm"] is False
