"""``njit``, but Numba is imported only when a kernel is first called compiled: small models never wait for it.

A kernel is also an ordinary function, :func:`plain`, that small models run as it is.  When one of a module's
kernels is called compiled for the first time, all kernels that the module knows become Numba's dispatchers, since
compiled code can call nothing else.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, final

LOCK = threading.RLock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's decorator of the same name; see the module's documentation."""
    return lambda function: Kernel(function, options)


@final
class Kernel:
    """A function that is compiled when it is first called."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func, self.options = function, options
        self.dispatcher: Any = None
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call it compiled."""
        return self.compiled()(*arguments)

    def compiled(self) -> Any:
        """Numba's dispatcher of the function, with all the kernels that it may call."""
        with LOCK:  # another thread must not find callees that are not dispatchers yet
            if self.dispatcher is None:
                from numba import njit as numba_njit

                self.dispatcher = numba_njit(**self.options)(self.py_func)
                _forget_what_moved(self.dispatcher)
                names = self.py_func.__globals__
                for name, value in list(names.items()):
                    if isinstance(value, Kernel):
                        names[name] = value.compiled()
            return self.dispatcher


@functools.cache
def plain(kernel: Any) -> Any:
    """A kernel as an ordinary function, and so are all those that it calls."""
    function = kernel.py_func
    names = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    here = dict(function.__globals__)
    here |= {name: plain(value) for name, value in names.items() if hasattr(value, "py_func")}
    return FunctionType(function.__code__, here, function.__name__, function.__defaults__)


def _forget_what_moved(dispatcher: Any) -> None:
    """Empty the cache on disk if another version of the package left it with types that are now elsewhere.

    Numba reads the whole index before it looks at the stamp of the source, and fails at a type that it cannot import.
    """
    cache = getattr(dispatcher, "_cache", None)
    index = getattr(cache, "_cache_file", None)
    try:
        if index is not None:
            index._load_index()
    except (ImportError, AttributeError):
        cache.flush()  # type: ignore[union-attr]
