"""``Frozen``: a snapshot that can be copied many times, where all copies share the random generators.

A copy of a random generator would repeat the draws of the original, so random transitions would look deterministic.
Therefore generators (those of NumPy and of the module ``random``) are never copied, at any depth: every copy holds the
original ones.  No draw is repeated, so the draws of different copies are independent.

A snapshot is pickled once and unpickled for every copy, which is faster than ``copy.deepcopy``.  Functions, classes and
modules, which ``deepcopy`` does not copy either, are shared, and so are Gymnasium's spaces, which are constant.  If an
object inside has its own ``__deepcopy__`` or cannot be pickled, the whole is copied by ``deepcopy``.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import random
import weakref
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, final

import gymnasium
import numpy as np

GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
CONSTANT = (type, FunctionType, BuiltinFunctionType, CodeType, ModuleType, property, weakref.ref)
SHARED = (*GENERATORS, *CONSTANT, gymnasium.Space)
SCALARS = {int, float, complex, bool, str, bytes, type(None), *np.sctypeDict.values()} - {np.object_, np.void}
ARRAYS = (np.ndarray, np.generic)  # their __deepcopy__ does what pickling does


@final
class Frozen:
    """A snapshot of an object; calling it returns a copy.

    If the object cannot be copied, the constructor raises TypeError, or what its parts raise.

    Examples
    --------
    >>> here = {"at": [0, 0], "rng": np.random.default_rng(0)}
    >>> frozen = Frozen(here)
    >>> here["at"][0] = 5
    >>> frozen()["at"], frozen()["rng"] is here["rng"]
    ([0, 0], True)
    """

    __slots__ = ("_original", "_pickled", "_shared")

    def __init__(self, thing: Any) -> None:
        self._original: Any = None
        self._pickled: bytes = b""
        self._shared: list[Any] = []
        try:
            file = io.BytesIO()
            pickler = _Pickler(file)
            pickler.dump(thing)
            self._pickled, self._shared = file.getvalue(), pickler.shared
            self()  # some objects can be pickled but not unpickled
        except Exception:
            self._pickled = b""
            self._shared = list(generators_in(thing))
            self._original = self._deepcopy(thing)

    def __call__(self) -> Any:
        """A copy."""
        return _Unpickler(self._pickled, self._shared).load() if self._pickled else self._deepcopy(self._original)

    def _deepcopy(self, thing: Any) -> Any:
        return copy.deepcopy(thing, {id(one): one for one in self._shared})


@final
class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []

    def persistent_id(self, thing: Any) -> int | None:
        if isinstance(thing, SHARED):
            self.shared.append(thing)
            return len(self.shared) - 1
        if hasattr(type(thing), "__deepcopy__") and not isinstance(thing, ARRAYS):
            raise pickle.PicklingError("it has its own __deepcopy__")
        return None


@final
class _Unpickler(pickle.Unpickler):
    """It only reads bytes that this process has pickled."""

    def __init__(self, pickled: bytes, shared: list[Any]) -> None:
        super().__init__(io.BytesIO(pickled))
        self.shared = shared

    def persistent_load(self, number: int) -> Any:
        return self.shared[number]


def generators_in(thing: Any) -> Iterator[Any]:
    """Every random generator inside an object, at any depth; in the same order for the same object."""
    level, met = [thing], {id(thing): thing}
    while level:
        yield from (here for here in level if isinstance(here, GENERATORS))
        holders = [here for here in level if not isinstance(here, GENERATORS)]
        parts = gc.get_referents(*holders)
        for here in holders:
            if isinstance(here, np.ndarray) and here.dtype.hasobject:
                parts += here.ravel().tolist()
        fresh = {id(part): part for part in parts if type(part) not in SCALARS and id(part) not in met}
        fresh = {key: part for key, part in fresh.items() if _may_hold(part)}
        met |= fresh
        level = list(fresh.values())


def reseed(thing: Any, *seed: int) -> None:
    """Reseed every generator inside an object."""
    for number, one in enumerate(generators_in(thing)):
        seeds = np.random.SeedSequence([*seed, number])
        bits = getattr(one, "bit_generator", one)
        if isinstance(bits, np.random.BitGenerator):
            bits.state = type(bits)(seeds).state
        else:
            one.seed(int(seeds.generate_state(1)[0]))


def _may_hold(thing: Any) -> bool:
    """Whether an object may be or hold a generator.

    Constants do not, nor do most objects that the garbage collector does not track.  Module namespaces are excluded:
    compiled functions refer to them.
    """
    if not gc.is_tracked(thing) and not isinstance(thing, (np.ndarray, tuple, dict)):
        return False
    return not isinstance(thing, CONSTANT) and not (type(thing) is dict and "__builtins__" in thing)
