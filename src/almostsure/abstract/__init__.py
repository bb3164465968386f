"""Continuous systems: a grid of cells, sound images, proved upper budgets and shields that read real-valued states.

:func:`abstract` makes a finite model of a continuous system; ``almostsure.minimal_budget`` and ``almostsure.Shield``
accept it like any other model.  The package itself can be called like the function: ``almostsure.abstract(…)`` works
whether or not ``almostsure.abstract`` has been imported as a package.
"""

import sys
from inspect import signature
from types import ModuleType
from typing import Any

from almostsure.abstract.abstraction import Abstraction, abstract
from almostsure.abstract.enclosure.interval import Interval, Maybe
from almostsure.abstract.grid import Grid
from almostsure.abstract.shield.policy import CellPolicy
from almostsure.abstract.upper import UpperBudget

__all__ = ["Abstraction", "CellPolicy", "Grid", "Interval", "Maybe", "UpperBudget", "abstract"]


class _CallablePackage(ModuleType):
    """A package that shares its name with its main function, and can be called like it."""

    __signature__ = signature(abstract)  # for editors and help

    def __call__(self, *args: Any, **kwargs: Any) -> Abstraction:
        return abstract(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
