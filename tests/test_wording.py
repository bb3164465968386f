"""Numbers and values as text."""

import math

import pytest

import almostsure as asure
from almostsure.errors import ModelError
from almostsure.wording import brief, counted, number, percent, precise


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (25 / 3, "8.3333"),
        (-2.5, "-2.5"),
        (1e-9, "1e-09"),
        (12345.5, "12,345.5"),
        (1e7, "1e+07"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
    ],
)
def test_numbers(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.5, "50 %"),
        (0.3194, "31.9 %"),
        (0.9994, "99.94 %"),
        (1e-5, "0.001 %"),
        (1e-9, "almost 0 %"),
        (1 - 1e-9, "almost 100 %"),
        (math.nan, "–"),
    ],
)
def test_percentages_are_only_0_or_100_if_exact(value, shown):
    assert percent(value) == shown


def test_values_in_messages_are_cut():
    assert brief("a") == "'a'"
    assert len(brief("x" * 500)) == 78
    assert number(2.345, 2) in ("2.35", "2.34")
    assert number(2.6, 0) == "3"


def test_counts_have_singular_and_plural():
    assert [counted(n, "step") for n in (0, 1, 2, 1_000)] == ["0 steps", "1 step", "2 steps", "1,000 steps"]


def test_precise_numbers_and_infinities():
    assert [precise(value, 3) for value in (1.23456, -math.inf, math.inf, math.nan)] == ["1.23", "−∞", "∞", "–"]


def test_reprs_use_the_singular_for_one():
    mdp = asure.from_transitions([0], [0], [0], [1], [0], [0])
    assert repr(mdp).startswith("<MDP: 1 state, 1 choice, 1 outcome, ")
    assert repr(mdp.space).startswith("<Space: 1 state, 1 choice, ")
    minimal = asure.minimal_budget(mdp)
    assert "(1 state)" in repr(minimal)
    assert "1 choice in 1 state" in repr(asure.Shield(minimal))
    within = asure.minimal_budget(asure.from_transitions([0], [0], [1], [1], [0], [1], terminal=[1]), horizon=1)
    assert "for 1 step (2 states)" in repr(within)
    system = asure.abstract(lambda s, a: s, asure.Grid([0.0], [1.0], [1]), [0])
    assert repr(system) == "<Abstraction: 1 cell, 1 action, counts damage>"
    with pytest.raises(ModelError, match="points must have 1 coordinate each"):
        system.cells_of([[0.0, 0.0]])
