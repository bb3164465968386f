"""Models, budgets, policies and shields are immutable values with keyword-only fields."""

import dataclasses
import importlib
import pkgutil

import pytest

import almostsure

ROOMS = ("model", "budget", "policy", "shield")
BY_POSITION = {"SecondBudget", "Refill", "Steps", "Automaton", "Monitor", "_Job"}  # short, and mostly written by users
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


@pytest.mark.parametrize("value", [v for v in values() if v.__name__ != "_Run"], ids=lambda v: v.__name__)
def test_values_cannot_be_changed_or_mixed_up(value):
    assert value.__dataclass_params__.frozen
    assert "__slots__" in vars(value)
    assert all(field.kw_only for field in dataclasses.fields(value)) == (value.__name__ not in BY_POSITION)
    assert value.__dataclass_params__.eq == (value.__name__ in COMPARED)
