"""Exports that are imported when they are first used, so that importing a package costs nothing.

A package imports what it exports inside ``with on_demand(globals())``, in the words that type checkers, editors and
readers know, and names it in ``__all__``; a test compares the two.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

ONE_AT_A_TIME = Lock()  # packages that threads import at the same time


@contextmanager
def on_demand(package: dict[str, Any]) -> Iterator[None]:
    """Within it, ``from … import …`` is noted, and done when somebody asks the package for one of the names.

    Parameters
    ----------
    package
        Its ``globals()``.  Imports of other modules are left alone; a submodule is imported from the package itself.
    """
    home: dict[str, str] = {}

    def note(name: str, importer: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        if importer is not package:
            return usual(name, importer, local, wanted, level)
        names = dict.fromkeys(wanted, name)
        home.update(names)
        return SimpleNamespace(**names)  # so that the statement finds what it asks for

    def attribute(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {this!r} has no attribute {name!r}{_elsewhere(this, name)}")
        submodule = home[name] == this
        value = import_module(f"{this}.{name}") if submodule else getattr(import_module(home[name]), name)
        package[name] = value  # the next access finds it at once
        return value

    this: str = package["__name__"]
    with ONE_AT_A_TIME:
        usual = builtins.__import__
        builtins.__import__ = note  # type: ignore[assignment]
        try:
            yield
        finally:
            builtins.__import__ = usual
    for name in home:
        del package[name]
    package["__getattr__"] = attribute


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
