"""``minimal_budget`` as users call it."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from almostsure import INFINITE, from_transitions, memory, minimal_budget
from almostsure.budget import solve
from almostsure.errors import ArgumentError, CertificateError, NotEnoughMemory, UnknownName
from almostsure.testing.families import chain, garnet, ladder


@pytest.fixture
def two_states():
    """The paper's example: "left" does damage, "right" ends the run."""
    return from_transitions(
        [0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1],
        state_names=["circle", "end"], action_names=["left", "right"],
    )  # fmt: skip


# ---------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "cap", [-1, -(10**30), 2**31 - 1, 10**30, 2.5, 2.0, float("nan"), float("inf"), "3", "x", True, [1], 1j]
)
def test_invalid_caps(two_states, cap):
    message = f"cap must be an integer 0 … 2147483646, or None; got {cap!r}"
    with pytest.raises(ArgumentError, match=re.escape(message)):
        minimal_budget(two_states, cap=cap)


@pytest.mark.parametrize("cap", [0, 7, 2**31 - 2, np.int64(3), np.uint8(5)])
def test_valid_caps(two_states, cap):
    minimal = minimal_budget(two_states, cap=cap)
    assert minimal.cap == cap
    assert type(minimal.cap) is int
    assert minimal.of_choice.tolist() == [1 if cap else INFINITE, 0, 0]


@pytest.mark.parametrize("backend", ["plain", "compiled"])
@pytest.mark.parametrize("cap", [0, 1, 5, 19, 20, 21])
def test_everything_above_the_cap_is_infinite(backend, cap):
    minimal = minimal_budget(chain(20, connected=True), cap=cap, backend=backend, check="always")
    v = np.arange(20, -1, -1)
    np.testing.assert_array_equal(minimal.of_state, np.where(v > cap, INFINITE, v))
    assert (minimal.of_choice[minimal.of_choice != INFINITE] <= cap).all()


def test_an_unknown_backend_suggests_the_nearest(two_states):
    with pytest.raises(UnknownName, match=r"unknown backend 'complied'. Did you mean 'compiled'\? There are: auto, "):
        minimal_budget(two_states, backend="complied")


def test_an_unknown_check_suggests_the_nearest(two_states):
    with pytest.raises(UnknownName, match=r"unknown check 'allways'. Did you mean 'always'\?"):
        minimal_budget(two_states, check="allways")


def test_arguments_after_the_model_are_keywords(two_states):
    with pytest.raises(TypeError, match="positional"):
        minimal_budget(two_states, 3)


# ---------------------------------------------------------------------- degenerate models


@pytest.mark.parametrize("backend", ["plain", "compiled"])
@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (([], [], [], [], [], []), {"terminal": [0]}, [0]),
        (([0], [0], [0], [1], [0], [0]), {}, [0]),
        (([0], [0], [0], [1], [0], [9]), {}, [INFINITE]),
        (([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 0]), {}, [0, 0]),
        (([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [1, 0]), {}, [INFINITE, INFINITE]),
        (([0, 2], [0, 0], [1, 2], [1, 1], [0, 0], [5, 255]), {"terminal": [1]}, [5, 0, INFINITE]),
        (([0, 0, 0], [0, 0, 0], [1, 1, 1], [0.2, 0.3, 0.5], [0, 0, 0], [0, 3, 7]), {"terminal": [1]}, [7, 0]),
        (([0, 0], [0, 0], [0, 1], [0.5, 0.5], [0, 0], [0, 2]), {"terminal": [1]}, [2, 0]),
        (([0, 0], [0, 0], [0, 1], [0.5, 0.5], [0, 0], [1, 0]), {"terminal": [1]}, [INFINITE, 0]),
        (([0, 0, 0], [0, 0, 1], [0, 1, 1], [0.5, 0.5, 1], [0, 0, 0], [1, 0, 4]), {"terminal": [1]}, [4, 0]),
    ],
    ids=[
        "only an end", "endless rest", "endless damage", "cycle", "cycle with damage", "unreachable part",
        "several damages to one successor", "waits, then damage", "damage any number of times", "damage to get out",
    ],
)  # fmt: skip
def test_tiny_models(columns, options, expected, backend):
    mdp = from_transitions(*columns, **options)
    assert minimal_budget(mdp, backend=backend, check="always").of_state.tolist() == expected


def test_a_choice_that_may_loop_with_damage_costs_what_leaving_costs_too():
    mdp = from_transitions([0, 0, 0], [0, 0, 1], [0, 1, 1], [0.5, 0.5, 1], [0] * 3, [1, 0, 4], terminal=[1])
    for backend in ("plain", "compiled"):
        assert minimal_budget(mdp, backend=backend).of_choice.tolist() == [5, 4, 0]


# ---------------------------------------------------------------------- choice of the engine, and of checking


def test_small_models_are_answered_by_numpy_and_checked(two_states):
    minimal = minimal_budget(two_states)
    assert minimal.engine == "plain engine"
    assert minimal.checked


def test_large_models_are_answered_by_the_compiled_engine():
    mdp = garnet(5000, damage_rate=0.1)
    assert mdp.num_outcomes > solve.SMALL
    assert minimal_budget(mdp).engine == "compiled engine"


def test_a_small_model_that_takes_long_goes_to_the_compiled_engine(monkeypatch):
    mdp = ladder(300, connected=True)
    monkeypatch.setattr(solve, "PATIENCE", 100_000)
    assert minimal_budget(mdp).engine == "compiled engine"
    assert minimal_budget(mdp, backend="plain").engine == "plain engine"


@pytest.mark.parametrize("backend", ["plain", "compiled"])
def test_checking_always_and_never(backend, monkeypatch):
    mdp = garnet(5000, damage_rate=0.1)
    called = []
    monkeypatch.setattr(solve, "check_minimal_budget", lambda mdp, minimal: called.append(minimal))
    assert minimal_budget(mdp, backend=backend, check="always").checked
    assert len(called) == 1
    assert not minimal_budget(mdp, backend=backend, check="never").checked
    assert len(called) == 1


def test_checking_where_it_is_cheap(monkeypatch):
    mdp = garnet(5000, damage_rate=0.1)
    monkeypatch.setattr(solve, "CHECK_RATE", 0.0)
    assert minimal_budget(mdp).checked
    monkeypatch.setattr(solve, "CHECK_RATE", 1e3)
    assert not minimal_budget(mdp).checked


def test_a_wrong_engine_is_caught_by_the_check(two_states, monkeypatch):
    right = solve.solve_plain

    def wrong(support, **options):
        answer = right(support, **options)
        answer.of_choice[0] = 0
        return answer

    monkeypatch.setattr(solve, "solve_plain", wrong)
    with pytest.raises(CertificateError, match=r"action 'left'.* is too small: it claims 0, but an outcome costs 1"):
        minimal_budget(two_states)
    assert not minimal_budget(two_states, check="never").checked


# ---------------------------------------------------------------------- small models load no compiler


def test_no_compiler_for_small_models():
    code = """
import sys, almostsure
mdp = almostsure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
budget = almostsure.minimal_budget(mdp)
almostsure.check_minimal_budget(mdp, budget)
assert budget.of_choice.tolist() == [1, 0, 0]
assert "numba" not in sys.modules
import time
start = time.perf_counter()
almostsure.minimal_budget(mdp)
assert time.perf_counter() - start < 0.5
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------- memory


def test_a_run_that_does_not_fit_is_refused_before_it_starts(monkeypatch):
    mdp = garnet(5000, damage_rate=0.1)
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    monkeypatch.setattr("almostsure.budget.compiled.engine.solve_levels", None)
    message = r"k\* of 59,\d{3} outcomes needs about \d+ MiB of memory; 0 MiB is available\. Close other programs"
    with pytest.raises(NotEnoughMemory, match=message):
        minimal_budget(mdp)
    with pytest.raises(MemoryError, match="needs about"):
        minimal_budget(mdp, backend="compiled")


def test_a_system_that_does_not_tell_its_memory(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    assert minimal_budget(garnet(5000), check="always").checked
