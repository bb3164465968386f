"""``njit``, but Numba is imported only when a kernel is first called compiled: small models never wait for it.

A kernel is also an ordinary function, :func:`plain`, that small models run as it is.  When one of a module's
kernels is called compiled for the first time, all kernels that the module knows become Numba's dispatchers, since
compiled code can call nothing else.  Whoever waits for the compiler is told so, on a terminal, once.

Searches through large models wait for memory most of the time: kernels that know which elements they will read soon
:func:`prefetch` them.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, final

import numpy as np

from almostsure.errors import uninterrupted

LOCK = threading.RLock()
DELAY = 1.0  # seconds of compiling after which it is told


def njit(*, borrows: bool = False, inner: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's decorator of the same name; see the module's documentation.

    A kernel that ``borrows`` makes no arrays and returns none: those that it is given live longer than the call, and
    references to them are not counted, which takes longer than the work where kernels are called for a few numbers.
    An ``inner`` kernel is called by other kernels only, and is spared the wrapper for calls from Python.  All are
    spared the one for calls from C: together, wrappers are a third of the code to compile.
    """
    options |= {"_nrt": not borrows, "no_cpython_wrapper": inner, "no_cfunc_wrapper": True}
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
                with uninterrupted():
                    self._prepare()
            return self.dispatcher

    def _prepare(self) -> None:
        numba_njit = import_numba().njit
        _tell_who_waits()
        _teach_prefetch()
        self.dispatcher = numba_njit(**self.options)(self.py_func)
        _forget_what_changed(self.dispatcher, self.py_func)
        _forget_what_moved(self.dispatcher)
        _ignore_constants(self.dispatcher)
        names = self.py_func.__globals__
        for name, value in list(names.items()):
            if isinstance(value, Kernel):
                names[name] = value.compiled()


def import_numba() -> Any:
    """Numba; Ctrl-C waits, since a half-imported Numba fails wherever it is imported again."""
    with uninterrupted():
        return import_module("numba")


@functools.cache
def plain(kernel: Any) -> Any:
    """A kernel as an ordinary function, and so are all those that it calls."""
    function = getattr(kernel, "py_func", kernel)  # Numba leaves functions alone if it is disabled
    names = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    here = dict(function.__globals__)
    here |= {name: plain(value) for name, value in names.items() if hasattr(value, "py_func")}
    return FunctionType(function.__code__, here, function.__name__, function.__defaults__)


def is_compiled(kernel: Any) -> bool:
    """Whether nobody waits for a kernel to be compiled: it was called before, or is in Numba's cache on disk."""
    dispatcher = kernel.compiled() if isinstance(kernel, Kernel) else kernel
    return bool(getattr(dispatcher, "signatures", ()) or _on_disk(dispatcher))


def prefetch(array: Any, index: Any) -> None:
    """Have an element of an array brought near the processor, if compiled; the index need not be a valid one."""


@functools.cache
def _teach_prefetch() -> None:
    """Tell Numba what the function above is in compiled code: an instruction of the processor."""
    from llvmlite import ir
    from numba.core import types
    from numba.extending import lower_builtin, type_callable

    @type_callable(prefetch)
    def typed(_context: Any) -> Any:
        return lambda array, index: types.void

    @lower_builtin(prefetch, types.Array, types.Integer)
    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        to_read_data_often = [ir.Constant(number, value) for value in (0, 3, 1)]
        builder.call(instruction, [builder.bitcast(builder.gep(array.data, [index]), byte), *to_read_data_often])
        return context.get_dummy_value()


def _forget_what_changed(dispatcher: Any, function: Any) -> None:
    """Have the cache on disk ignored if anything that is compiled into a kernel has changed since.

    Numba looks at the file of the kernel only: after an upgrade, what others contribute would stay as it was.
    """
    index = _index_of(dispatcher)
    if index is not None:
        parts = sorted({_text(__file__), *_compiled_into(function, set())})
        index._source_stamp = index._source_stamp, hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _compiled_into(function: Any, seen: set[Any]) -> Iterator[str]:
    """The text of the files of all kernels that a kernel calls, and all constants that they use."""
    seen.add(function)
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        callee = getattr(value, "py_func", None)
        if isinstance(callee, FunctionType):
            yield _text(callee.__code__.co_filename)
            if callee not in seen:
                yield from _compiled_into(callee, seen)
        elif isinstance(value, (bool, int, float, str, tuple, np.generic)):
            yield f"{name} = {value!r}"
        elif isinstance(value, type) and hasattr(value, "_fields"):
            yield f"{name}{value._fields}"


@functools.cache
def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError:  # a frozen application has no sources, and does not change
        return ""


def _forget_what_moved(dispatcher: Any) -> None:
    """Empty the cache on disk if another version of the package left it with types that are now elsewhere.

    Numba reads the whole index before it looks at the stamp of the source, and fails at a type that it cannot import.
    """
    try:
        _on_disk(dispatcher)
    except (ImportError, AttributeError):
        dispatcher._cache.flush()


def _ignore_constants(dispatcher: Any) -> None:
    """Have a kernel compiled for its types of arguments only, and not once more for each constant that is passed."""
    from numba import types

    template = getattr(dispatcher, "get_call_template", None)  # Numba leaves functions alone if it is disabled
    if template is not None:
        dispatcher.get_call_template = lambda kinds, names: template(
            [types.unliteral(kind) for kind in kinds], {name: types.unliteral(kind) for name, kind in names.items()}
        )


def _on_disk(dispatcher: Any) -> dict[Any, str]:
    """What Numba's cache has of a kernel whose source is as it was, by the kinds of arguments."""
    index = _index_of(dispatcher)
    return index._load_index() if index is not None else {}


def _index_of(dispatcher: Any) -> Any:
    """The index of Numba's cache; None for a kernel that is not cached, or not compiled at all."""
    return getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)


class Notice:
    """Hears of everything that Numba compiles; what is in its cache on disk is not compiled again."""

    def __init__(self) -> None:
        self.running = 0
        self.timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Something begins to compile."""
        if not _is_ours(event):
            return
        self.running += 1
        if self.timer is None:
            self.timer = threading.Timer(DELAY, self.tell)
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        self.running -= _is_ours(event)

    def tell(self) -> None:
        """Say that it takes a while, if it still does; or else look again when the next one begins."""
        if not self.running:
            self.timer = None
        elif sys.stderr is not None and sys.stderr.isatty():
            print("compiling almostsure; this happens once on this machine …", file=sys.stderr, flush=True)


def _is_ours(event: Any) -> bool:
    """Whether it is about a kernel of this package; Numba tells of users' functions, too."""
    return bool((event.data["dispatcher"].py_func.__module__ or "").startswith("almostsure."))


@functools.cache
def _tell_who_waits() -> None:
    from numba.core import event

    class Hears(Notice, event.Listener):  # type: ignore[misc]
        """One that Numba knows how to notify."""

    event.register("numba:compile", Hears())
