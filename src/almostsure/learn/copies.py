"""``Frozen``: something that is copied again and again, while its random generators go on.

A copy of a random generator repeats the draws of the original, and would make chance look certain.  So generators
(those of NumPy and of the module ``random``) are never copied: every copy holds the original ones, however deep they
are inside, and each draw is made once.  Draws of different copies are then independent, as those of one generator are.

What is frozen is pickled once and unpickled for every copy, which is faster than
``copy.deepcopy``.  What ``deepcopy`` does not copy either (functions, classes, modules) stays outside, as do
Gymnasium's spaces, which describe and do not change.  Where something has a ``__deepcopy__`` of its own or cannot be
pickled, all of it is copied by ``deepcopy``.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import random
import weakref
from collections.abc import Iterator
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, final

import gymnasium
import numpy as np

CHANCE = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
CONSTANT = (type, FunctionType, BuiltinFunctionType, CodeType, ModuleType, property, weakref.ref)
SHARED = (*CHANCE, *CONSTANT, gymnasium.Space)
CONTAINERS = (dict, list, tuple)
SCALARS = {*np.sctypeDict.values()} - {np.object_, np.void}
PLAIN = {int, float, complex, bool, str, bytes, type(None), np.ndarray, *CONTAINERS, *SCALARS}
LONG = 100  # entries of a table that is remembered
ARRAYS = (np.ndarray, np.generic)  # their __deepcopy__ does what pickling does


@final
class Frozen:
    """Something as it was; calling it makes a copy.  What cannot be copied raises TypeError, or what its parts raise.

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
            self()  # some things can be pickled and not unpickled
        except Exception:
            self._pickled = b""
            self._shared = list(Chance().generators(thing))
            self._original = self._deep(thing)

    def __call__(self) -> Any:
        """A copy."""
        return _Unpickler(self._pickled, self._shared).load() if self._pickled else self._deep(self._original)

    def _deep(self, thing: Any) -> Any:
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
            raise pickle.PicklingError("it says itself how it is copied")
        return None


@final
class _Unpickler(pickle.Unpickler):
    """Only what this process has pickled itself is read."""

    def __init__(self, pickled: bytes, shared: list[Any]) -> None:
        super().__init__(io.BytesIO(pickled))
        self.shared = shared

    def persistent_load(self, number: int) -> Any:
        return self.shared[number]


@final
class Chance:
    """The random generators that something holds, however deep; they are looked for again before every play.

    Long tables of plain values are not: while they hold the very same objects as before, they hold no generators.
    """

    def __init__(self) -> None:
        self._tables: dict[int, _Table] = {}

    def generators(self, thing: Any) -> Iterator[Any]:
        """Every one, in the same order for the same thing."""
        waiting, met = [thing], {id(thing): thing}
        known, self._tables = self._tables, {}
        while waiting:
            here = waiting.pop()
            if isinstance(here, CHANCE):
                yield here
                continue
            if type(here) in CONTAINERS and len(here) >= LONG:
                table = known.get(id(here))
                table = table if table is not None and table.is_as_it_was() else _Table(here)
                if table.is_plain:
                    self._tables[id(here)] = table
                    continue
            is_array = isinstance(here, np.ndarray) and here.dtype.hasobject
            parts = here.tolist() if is_array else gc.get_referents(here)
            fresh = {id(part): part for part in parts if id(part) not in met and _may_hold(part)}
            met |= fresh
            waiting += fresh.values()

    def reseed(self, thing: Any, *seed: int) -> None:
        """Give every one another seed."""
        for number, one in enumerate(self.generators(thing)):
            seeds = np.random.SeedSequence([*seed, number])
            bits = getattr(one, "bit_generator", one)
            if isinstance(bits, np.random.BitGenerator):
                bits.state = type(bits)(seeds).state
            else:
                one.seed(int(seeds.generate_state(1)[0]))


@final
class _Table:
    """A container, and whether it holds plain values only, through containers of the same kinds."""

    __slots__ = ("_changing", "_held", "_root", "is_plain")

    def __init__(self, root: Any) -> None:
        self._root = root  # kept alive, so that nothing else gets its address
        self._changing, level, met = list[Any](), [root], {id(root)}
        self.is_plain = True
        while level and self.is_plain:
            self._changing += [one for one in level if type(one) is not tuple]
            parts = gc.get_referents(*level)
            kinds = set(map(type, parts))
            arrays = (part for part in parts if type(part) is np.ndarray) if np.ndarray in kinds else ()
            self.is_plain = kinds <= PLAIN and not any(array.dtype.hasobject for array in arrays)
            level = [part for part in parts if type(part) in CONTAINERS and id(part) not in met]
            met.update(map(id, level))
        self._held = gc.get_referents(*self._changing)

    def is_as_it_was(self) -> bool:
        """Whether everything inside that can change holds the very same objects."""
        now = gc.get_referents(*self._changing)
        return len(now) == len(self._held) and all(map(is_, now, self._held))


def _may_hold(thing: Any) -> bool:
    """Whether it may be or hold a generator: no constants, and nothing that the garbage collector need not look into.

    It knows nothing of arrays.  Compiled functions hold the names of their module, which is no part of them.
    """
    if not gc.is_tracked(thing) and not isinstance(thing, (np.ndarray, tuple, dict)):
        return False
    return not isinstance(thing, CONSTANT) and not (type(thing) is dict and "__builtins__" in thing)
