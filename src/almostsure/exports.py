"""Exports that are imported on first use, so that importing a package costs nothing.

A package imports its exports under ``TYPE_CHECKING``, as type checkers, editors and readers expect, and lists them in
``__all__``; a test compares the two.  At run time its ``__getattr__`` finds the module of a name in these imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def on_demand(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports its exports under ``TYPE_CHECKING``; also adds them to ``dir``."""
    module = sys.modules[package]

    def attribute(name: str) -> Any:
        home = _homes(package).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_elsewhere(package, name)}")
        value = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        setattr(module, name, value)  # the next access finds it directly
        return value

    def names() -> list[str]:
        return sorted({*vars(module), *_homes(package)} - {"TYPE_CHECKING", "on_demand"})

    vars(module)["__dir__"] = names
    return attribute


@cache
def _homes(package: str) -> dict[str, str]:
    """The module of each name that a package imports under ``TYPE_CHECKING``; for a submodule, the package."""
    import ast

    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # type: ignore[union-attr]  # an imported package has a loader
    if source is None:
        raise ImportError(f"{package} must be installed with the source of its __init__.py, which lists the exports")
    return {
        name.name: node.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for name in node.names
    }


def package_version() -> str:
    """The version of the package; ``almostsure`` is always imported."""
    return str(sys.modules["almostsure"].__version__)


def _elsewhere(package: str, name: str) -> str:
    """The end of a message: which subpackage exports a name, found without importing any."""
    root = Path(sys.modules[package].__path__[0])
    for path in () if name.startswith("_") else [*sorted(root.rglob("__init__.py")), root / "errors.py"]:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if f'"{name}"' in text.partition("\n__all__ = [")[2].partition("]")[0] or f"\nclass {name}(" in text:
            module = path.parent if path.name == "__init__.py" else path.with_suffix("")
            return f"; it is {'.'.join([package, *module.relative_to(root).parts, name])}"
    return ""
