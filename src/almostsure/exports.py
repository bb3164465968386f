"""Exports that are imported when they are first used, so that importing a package costs nothing.

A package lists its exports three times, and a test compares the three: under ``TYPE_CHECKING``, for type checkers and
editors; in ``__all__``, for readers; and here, by the module that holds them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def on_demand(package: str, homes: dict[str, str], modules: Iterable[str] = ()) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Parameters
    ----------
    package
        Its ``__name__``.
    homes
        From the full name of each module to the names that the package takes from it, with spaces between them.
    modules
        Submodules that can be reached as attributes without being imported first.
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_elsewhere(package, modules, name)}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)  # the next access finds it at once
        return value

    return attribute


def package_version() -> str:
    """The version of the package, whose root is always loaded."""
    return str(sys.modules["almostsure"].__version__)


def _elsewhere(package: str, modules: Iterable[str], name: str) -> str:
    """Which submodule lists a name among its exports, as the end of a sentence; nothing is imported to find it."""
    for module in () if name.startswith("_") else modules:
        spec = find_spec(f"{package}.{module}")
        if spec and spec.origin and f'\n    "{name}",\n' in Path(spec.origin).read_text(encoding="utf-8"):
            return f"; it is {package}.{module}.{name}"
    return ""
