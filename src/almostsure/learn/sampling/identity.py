"""What tells one simulator from another: a hash of everything that decides its samples, where that can be known.

A checkpoint belongs to the simulator whose samples it holds.  Of a function that is its code with all constants, its
defaults, what it closes over and the globals that it uses; of an object its class and its fields; of a Gymnasium
environment how it was made, with all wrappers.  Libraries are taken by name and version.  Where something cannot be
looked into (a foreign object, an open file), there is no identity, and whoever wants a checkpoint must name one.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from almostsure.model.space import Space

DEEPEST = 50  # levels of objects in objects


class _Unknowable(Exception):
    """Something cannot be told from others of its kind; the message says what."""


def identity_of(thing: Any) -> str | None:
    """A hash of everything that decides what ``thing`` does; None if that cannot be known."""
    try:
        return hashlib.sha256(_Reader().read(thing).encode()).hexdigest()[:32]
    except (_Unknowable, RecursionError):
        return None


def obstacle_in(thing: Any) -> str:
    """What in ``thing`` cannot be looked into, so that it has no identity."""
    try:
        _Reader().read(thing)
    except _Unknowable as obstacle:
        return str(obstacle)
    except RecursionError:
        pass
    return "objects in objects, too many"


class _Reader:
    """Writes things out as text; what was met before is written as its number."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is used twice
        self._depth = 0

    def read(self, thing: Any) -> str:
        if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic)):
            return f"{type(thing).__name__}:{thing!r}"
        if id(thing) in self._met:
            return f"again:{self._met[id(thing)]}"
        self._met[id(thing)] = len(self._met)
        self._kept.append(thing)
        self._depth += 1
        if self._depth > DEEPEST:
            raise _Unknowable(f"objects in objects, more than {DEEPEST} deep")
        text = f"{type(thing).__name__}({self._content(thing)})"
        self._depth -= 1
        return text

    def _content(self, thing: Any) -> str:  # one line for each kind of thing
        if isinstance(thing, np.ndarray) and thing.dtype != np.object_:
            return f"{thing.dtype} {thing.shape} {hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
        if isinstance(thing, Space):
            return self._all([thing.fingerprint, thing.encode])  # not its fields: some are made when first needed
        if isinstance(thing, (list, tuple, np.ndarray)):
            return self._all(list(thing))
        if isinstance(thing, (set, frozenset)):
            return self._all(sorted(thing, key=repr))
        if isinstance(thing, Mapping):
            return self._all([part for item in thing.items() for part in item])
        if isinstance(thing, CodeType):
            return f"{thing.co_code!r} {thing.co_names} {self._all(thing.co_consts)}"
        if isinstance(thing, functools.partial):
            return self._all([thing.func, thing.args, thing.keywords])
        if isinstance(thing, MethodType):
            return self._all([thing.__func__, thing.__self__])
        if isinstance(thing, ModuleType):
            return _library(thing.__name__) or self._source(thing)
        if isinstance(thing, BuiltinFunctionType) and isinstance(thing.__self__, (ModuleType, type(None))):
            return f"{thing.__module__}.{thing.__qualname__}"
        if isinstance(thing, (FunctionType, type)):
            return self._definition(thing)
        return self._object(thing)

    def _all(self, things: Iterable[Any]) -> str:
        return ", ".join(map(self.read, things))

    def _source(self, module: ModuleType) -> str:
        try:
            with open(module.__file__ or "", "rb") as file:
                return f"{module.__name__} {hashlib.sha256(file.read()).hexdigest()}"
        except (OSError, AttributeError):
            raise _Unknowable(f"the module {module.__name__}, whose source cannot be read") from None

    def _definition(self, thing: Any) -> str:
        """A function or a class: by name where a library has it, by its content elsewhere."""
        name = f"{thing.__module__}.{thing.__qualname__}"
        library = _library(thing.__module__)
        if library is not None and "<locals>" not in name:
            return f"{library} {name}"
        if isinstance(thing, FunctionType):
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            used = {key: thing.__globals__[key] for key in sorted(_names(thing.__code__)) if key in thing.__globals__}
            return f"{name} {self._all([thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells, used])}"
        own = {key: value for key, value in sorted(vars(thing).items()) if isinstance(value, FunctionType | property)}
        made_of = [value.fget if isinstance(value, property) else value for value in own.values()]
        plain = {key: value for key, value in vars(thing).items() if not key.startswith("_") and not callable(value)}
        return f"{name} {self._all([list(own), made_of, thing.__bases__, _readable(plain)])}"

    def _object(self, thing: Any) -> str:
        py_func = getattr(thing, "py_func", None)  # of a function that Numba compiled
        if isinstance(py_func, FunctionType):
            return self.read(py_func)
        if hasattr(thing, "action_space") and hasattr(thing, "unwrapped"):
            return self._environment(thing)
        if type(thing).__module__ == "gymnasium.envs.registration" and is_dataclass(thing):
            return self._all([asdict(thing)])  # type: ignore[arg-type]
        fields = _fields(thing)
        if fields is None:
            raise _Unknowable(f"an object of {type(thing).__module__}.{type(thing).__qualname__}")
        return self._all([type(thing), fields])

    def _environment(self, env: Any) -> str:
        """How an environment was made; its transition table, too, where it has one."""
        spec = getattr(env, "spec", None)
        if spec is None:
            raise _Unknowable(f"{type(env).__name__}, which gymnasium.make did not make")
        wrappers, layer = [], env
        while layer is not env.unwrapped:
            wrappers.append(type(layer))
            known = getattr(layer, "_saved_kwargs", None)  # what RecordConstructorArgs keeps
            if known is None:
                raise _Unknowable(f"{type(layer).__name__}, a wrapper that is no gymnasium.utils.RecordConstructorArgs")
            wrappers.append(known)
            layer = layer.env
        table = getattr(env.unwrapped, "P", None)
        return self._all([spec.id, spec.kwargs, type(env.unwrapped), wrappers, table])


def _fields(thing: Any) -> dict[str, Any] | None:
    """The fields of an object of Python; None for others."""
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    if not hasattr(thing, "__dict__") and not slots:
        return None
    return {**getattr(thing, "__dict__", {}), **{name: getattr(thing, name) for name in slots if hasattr(thing, name)}}


def _readable(values: dict[str, Any]) -> dict[str, Any]:
    """What a class holds besides functions, in order; descriptors say nothing."""
    return {key: value for key, value in sorted(values.items()) if not hasattr(value, "__get__")}


def _names(code: CodeType) -> set[str]:
    """The global names that a function and those inside it use."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _library(module: str | None) -> str | None:
    """Name and version of the library that a module belongs to; None for the user's own."""
    package = (module or "").partition(".")[0]
    if package in sys.stdlib_module_names and package != "__main__":
        return f"{package} {sys.version_info[:2]}"
    version = getattr(sys.modules.get(package), "__version__", None)
    return f"{package} {version}" if isinstance(version, str) and package != "__main__" else None
