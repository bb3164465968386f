"""Exports that are imported when they are first used, so that importing a package costs nothing.

A package lists its exports three times, and a test compares the three: under ``TYPE_CHECKING``, for type checkers and
editors; in ``__all__``, for readers; and here, by the module that holds them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
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
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_elsewhere(package, name)}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)  # the next access finds it at once
        return value

    return attribute


def package_version() -> str:
    """The version of the package, whose root is always loaded."""
    return str(sys.modules["almostsure"].__version__)


def _elsewhere(package: str, name: str) -> str:
    """Which subpackage exports a name, as the end of a sentence; nothing is imported to find it."""
    root = Path(sys.modules[package].__path__[0])
    for path in () if name.startswith("_") else [*sorted(root.rglob("__init__.py")), root / "errors.py"]:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if f'"{name}"' in text.partition("\n__all__ = [")[2].partition("]")[0] or f"\nclass {name}(" in text:
            module = path.parent if path.name == "__init__.py" else path.with_suffix("")
            return f"; it is {'.'.join([package, *module.relative_to(root).parts, name])}"
    return ""
