"""Models, budgets, policies and shields are immutable values with keyword-only fields."""

import copy
import dataclasses
import importlib
import pickle
import pkgutil

import numpy as np
import pytest

import almostsure

ROOMS = ("model", "budget", "policy", "shield")
BY_POSITION = {"SecondBudget", "Refill", "Steps", "Automaton", "Monitor"}  # short, and mostly written by users
COMPARED = BY_POSITION | {"Cell", "Step", "Explanation", "Logged"}  # those without arrays, field by field


def values():
    """All dataclasses of the four rooms."""
    modules = [
        importlib.import_module(found.name)
        for room in ROOMS
        for found in pkgutil.walk_packages(getattr(almostsure, room).__path__, f"almostsure.{room}.")
        if not found.name.startswith("almostsure.model.storm.child")
    ]
    classes = {v for m in modules for v in vars(m).values() if isinstance(v, type) and dataclasses.is_dataclass(v)}
    return sorted((v for v in classes if v.__module__.split(".")[1] in ROOMS), key=lambda v: v.__qualname__)


@pytest.mark.parametrize("value", values(), ids=lambda v: v.__name__)
def test_values_cannot_be_changed_or_mixed_up(value):
    assert value.__dataclass_params__.frozen
    assert "__slots__" in vars(value)
    assert all(field.kw_only for field in dataclasses.fields(value)) == (value.__name__ not in BY_POSITION)
    assert value.__dataclass_params__.eq == (value.__name__ in COMPARED)


@pytest.mark.parametrize("horizon", [None, 5])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_verified_budgets_and_their_copies_are_read_only(horizon, copied):
    minimal = almostsure.minimal_budget("quicksand", horizon=horizon)
    for value in (minimal, copied(minimal)):
        arrays = [value.of_state, value.of_choice, *([value.rank] if horizon is None else value.rises)]
        assert value.checked
        assert not any(array.flags.writeable for array in arrays)
        assert np.array_equal(value.of_choice, minimal.of_choice)
