"""The identity of a simulator: a hash of everything that determines its samples, if all of that can be read.

A checkpoint belongs to the simulator whose samples it holds.  The hash of a function covers its code with all
constants, its defaults, its closure and the globals that it uses; that of an object its class and its fields; that of a
Gymnasium environment how it was made, with all wrappers.  Libraries count by name and version.  If a part cannot be
read (an object of an extension module, an open file), there is no identity, and for a checkpoint the user must name
one.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from almostsure.model.space import Space

DEEPEST = 50  # levels of nested objects
MANAGED_DICT = 1 << 4  # the flag of a class whose objects have a __dict__ that their size does not include


class _Unreadable(Exception):
    """A part of an object cannot be read; the message names it."""


def identity_of(thing: Any) -> str | None:
    """A hash of everything that determines what ``thing`` does; None if a part of it cannot be read."""
    try:
        return hashlib.sha256(_Reader().read(thing).encode()).hexdigest()[:32]
    except _Unreadable:
        return None


def obstacle_in(thing: Any) -> str:
    """The part of ``thing`` that cannot be read, because of which it has no identity."""
    try:
        _Reader().read(thing)
    except _Unreadable as obstacle:
        return str(obstacle)
    return "nothing"


class _Reader:
    """Writes an object as text; an object that was written before is written as its number."""

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
            raise _Unreadable(f"objects nested more than {DEEPEST} deep")
        text = f"{type(thing).__name__}({self._content(thing)})"
        self._depth -= 1
        return text

    def _content(self, thing: Any) -> str:  # one line for each kind of object
        if isinstance(thing, np.ndarray) and thing.dtype != np.object_:
            return f"{thing.dtype} {thing.shape} {hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
        if isinstance(thing, Space):
            return self._all([thing.fingerprint, thing.encode])  # not its fields: some are computed on demand
        if isinstance(thing, (list, tuple, np.ndarray)):
            return self._container(thing, list(thing))
        if isinstance(thing, (set, frozenset)):
            return self._container(thing, sorted(thing, key=repr))
        if isinstance(thing, Mapping):
            return self._container(thing, [part for item in thing.items() for part in item])
        if isinstance(thing, CodeType):
            return f"{thing.co_code!r} {thing.co_names} {self._all(thing.co_consts)}"
        if isinstance(thing, functools.partial):
            return self._all([thing.func, thing.args, thing.keywords])
        if isinstance(thing, functools._lru_cache_wrapper):
            return self.read(thing.__wrapped__)
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

    def _container(self, thing: Any, parts: list[Any]) -> str:
        """A container of these parts; one of a subclass may also have fields."""
        fields = _fields(thing)
        return self._all([*parts, fields] if fields else parts)

    def _source(self, module: ModuleType) -> str:
        try:
            with open(module.__file__ or "", "rb") as file:
                return f"{module.__name__} {hashlib.sha256(file.read()).hexdigest()}"
        except (OSError, AttributeError):
            raise _Unreadable(f"the module {module.__name__}, whose source cannot be read") from None

    def _definition(self, thing: Any) -> str:
        """A function or a class: by name if it is in a library, else by content."""
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
        plain = {
            key: value
            for key, value in sorted(vars(thing).items())
            if not (key.startswith("_") or callable(value) or hasattr(value, "__get__"))
        }
        return f"{name} {self._all([list(own), made_of, thing.__bases__, plain])}"

    def _object(self, thing: Any) -> str:
        py_func = getattr(thing, "py_func", None)  # of a function that Numba compiled
        if isinstance(py_func, FunctionType):
            return self.read(py_func)
        if hasattr(thing, "action_space") and hasattr(thing, "unwrapped"):
            return self._environment(thing)
        if type(thing).__module__ == "gymnasium.envs.registration" and is_dataclass(thing):
            return self._all([asdict(thing)])  # type: ignore[arg-type]
        if _has_hidden_state(type(thing)):
            raise _Unreadable(f"an object of {type(thing).__module__}.{type(thing).__qualname__}")
        return self._all([type(thing), _fields(thing)])

    def _environment(self, env: Any) -> str:
        """How an environment was made, and its transition table if it has one."""
        spec = getattr(env, "spec", None)
        if spec is None:
            raise _Unreadable(f"{type(env).__name__}, which was not made by gymnasium.make")
        wrappers, layer = [], env
        while layer is not env.unwrapped:
            wrappers.append(type(layer))
            known = getattr(layer, "_saved_kwargs", None)  # the arguments that RecordConstructorArgs stores
            if known is None:
                raise _Unreadable(f"{type(layer).__name__}, a wrapper without gymnasium.utils.RecordConstructorArgs")
            wrappers.append(known)
            layer = layer.env
        table = getattr(env.unwrapped, "P", None)
        return self._all([spec.id, spec.kwargs, type(env.unwrapped), wrappers, table])


def _slots(kind: type) -> list[str]:
    """The names of the slots of a class, those of private slots as they are stored."""
    classes = [base for base in kind.__mro__ if "__slots__" in vars(base)]
    return [name for base in classes for name, value in vars(base).items() if isinstance(value, MemberDescriptorType)]


def _fields(thing: Any) -> dict[str, Any]:
    """The fields of an object, in its ``__dict__`` and its slots."""
    slots = {name: getattr(thing, name) for name in _slots(type(thing)) if hasattr(thing, name)}
    return {**getattr(thing, "__dict__", {}), **slots}


def _has_hidden_state(kind: type) -> bool:
    """Whether objects of a class are larger than their fields, by the rule of ``pickle``: then they have state in C."""
    has_dict = kind.__dictoffset__ != 0 and not kind.__flags__ & MANAGED_DICT
    pointers = has_dict + (kind.__weakrefoffset__ > 0) + len(_slots(kind))
    return kind.__itemsize__ > 0 or kind.__basicsize__ > object.__basicsize__ + pointers * struct.calcsize("P")


def _names(code: CodeType) -> set[str]:
    """The global names that a function and its inner functions use."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _library(module: str | None) -> str | None:
    """Name and version of the library that a module belongs to; None for the user's own modules."""
    package = (module or "").partition(".")[0]
    if package in sys.stdlib_module_names and package != "__main__":
        return f"{package} {sys.version_info[:2]}"
    version = getattr(sys.modules.get(package), "__version__", None)
    return f"{package} {version}" if isinstance(version, str) and package != "__main__" else None
