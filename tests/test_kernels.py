"""Kernels and Numba's cache on disk."""

import importlib
import io
import os
import subprocess
import sys
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from almostsure import kernels

KERNEL = """
from almostsure.kernels import njit
from {home} import Pair

@njit(cache=True)
def added(pair):
    return pair.left + pair.right
"""
PAIR = """
from typing import Any, NamedTuple

class Pair(NamedTuple):
    left: Any
    right: Any
"""


def test_a_cache_with_types_that_have_moved_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # beside the source, whatever NUMBA_CACHE_DIR says
    for home in ("kernel_types_before", "kernel_types_after"):
        (tmp_path / f"{home}.py").write_text(PAIR)
        (tmp_path / "kernel_of_pairs.py").write_text(KERNEL.format(home=home))
        importlib.invalidate_caches()
        sys.modules.pop("kernel_of_pairs", None)
        module = importlib.import_module("kernel_of_pairs")
        assert module.added(module.Pair(np.float64(1), np.float64(2))) == 3
        assert list(tmp_path.glob("**/*.nbi")), "nothing was cached, so there was nothing to forget"
        (tmp_path / f"{home}.py").unlink()
        monkeypatch.delitem(sys.modules, home)


CALLER = """
from almostsure.kernels import njit
from kernel_called import step
from kernel_constant import SIZE

@njit(cache=True)
def stepped(x):
    return step(x) * SIZE
"""
CALLED = """
from almostsure.kernels import njit

@njit(cache=True)
def step(x):
    return x + {by}
"""


def test_a_cached_kernel_is_compiled_anew_if_a_kernel_that_it_calls_or_a_constant_has_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # beside the source, whatever NUMBA_CACHE_DIR says
    (tmp_path / "kernel_caller.py").write_text(CALLER)
    for by, size, is_cached in ((1, 10, False), (1, 10, True), (20, 10, False), (20, 3000, False)):
        (tmp_path / "kernel_called.py").write_text(CALLED.format(by=by))
        (tmp_path / "kernel_constant.py").write_text(f"SIZE = {size}")
        importlib.invalidate_caches()
        kernels._text.cache_clear()  # as in a new process
        for name in ("kernel_caller", "kernel_called", "kernel_constant"):
            sys.modules.pop(name, None)
        module = importlib.import_module("kernel_caller")
        assert kernels.is_compiled(module.stepped) is is_cached
        assert module.stepped(5) == (5 + by) * size


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stderr", "told"), [(Terminal(), True), (io.StringIO(), False), (None, False)])
def test_whoever_waits_for_the_compiler_is_told_on_a_terminal(monkeypatch, stderr, told):
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(kernels, "DELAY", 3600.0)  # told by hand
    notice = kernels.Notice()
    ours = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=kernels.plain)})
    theirs = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=np.sum)})
    notice.on_start(theirs)
    assert notice.timer is None
    notice.on_end(theirs)
    notice.on_start(ours)
    timer = notice.timer
    notice.on_end(ours)
    notice.tell()  # it was quick: nothing is said, and the next one has its own time
    assert notice.timer is None
    assert not (stderr and stderr.getvalue())
    timer.cancel()
    notice.on_start(ours)
    notice.tell()
    notice.timer.cancel()
    assert ("once on this machine" in stderr.getvalue()) == told if stderr else not told
    notice.on_start(ours)
    assert notice.timer.finished.is_set()  # no second timer: it is told once


def test_numba_tells_what_it_compiles(monkeypatch):
    heard = []
    monkeypatch.setattr(kernels.Notice, "on_start", lambda self, event: heard.append(event))
    monkeypatch.setattr(kernels.Notice, "on_end", lambda self, event: None)

    @kernels.njit()
    def doubled(x):
        return 2 * x

    assert doubled(4) == 8
    assert heard


@kernels.njit()
def last(array):
    kernels.prefetch(array, array.size - 1)
    kernels.prefetch(array, array.size + 100)  # of no use, and no error
    return array[-1]


def test_a_kernel_is_compiled_once_it_was_called_here_or_before(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # beside the source, whatever NUMBA_CACHE_DIR says
    (tmp_path / "kernel_types_alike.py").write_text(PAIR)
    (tmp_path / "kernel_called_before.py").write_text(KERNEL.format(home="kernel_types_alike"))
    for compiled in (False, True):  # the second time from the disk
        sys.modules.pop("kernel_called_before", None)
        module = importlib.import_module("kernel_called_before")
        assert kernels.is_compiled(module.added) is compiled
        assert module.added(module.Pair(np.float64(1), np.float64(2))) == 3
        assert kernels.is_compiled(module.added)


def test_constants_do_not_have_a_kernel_compiled_again():
    own = {"tripled": kernels.njit()(lambda x: 3 * x)}
    exec("def both(x):\n    return tripled(4) + tripled(x) + tripled(x=5)", own)
    assert kernels.njit()(own["both"])(np.int64(6)) == 45
    assert len(own["tripled"].signatures) == 1


def test_what_is_prefetched_is_left_alone():
    numbers = np.arange(5.0)
    assert last(numbers) == kernels.plain(last)(numbers) == 4


def test_a_kernel_that_borrows_makes_no_arrays():
    @kernels.njit(borrows=True)
    def total(array):
        return array[1:].sum()

    @kernels.njit(borrows=True)
    def fresh(size):
        return np.zeros(size).sum()

    numbers = np.arange(4.0)
    count = sys.getrefcount(numbers)
    assert total(numbers) == 6
    assert sys.getrefcount(numbers) == count
    with pytest.raises(numba.core.errors.NumbaError, match="Only accept returning of array passed"):
        fresh(3)


def test_users_functions_without_a_module_are_compiled_beside_ours():
    own = {"__name__": None}
    exec("def tripled(x):\n    return 3 * x", own)
    kernels._tell_who_waits()
    assert numba.njit(own["tripled"])(2) == 6


INTERRUPTED = """
import importlib.abc, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)


class PressesCtrlC(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numba.core.typing":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)


sys.meta_path.insert(0, PressesCtrlC())
import numpy as np
{first}
try:
    {use}
except KeyboardInterrupt:
    print("interrupted")
{use}
print("fine")
"""


@pytest.mark.parametrize(
    ("first", "use"),
    [
        ("from almostsure.policy.simulation import kernel", "kernel.first_above(np.array([0.5, 1.0]), 0, 2, 0.7)"),
        ("", "import almostsure.abstract.compiled.rounding"),
    ],
)
def test_ctrl_c_does_not_leave_half_of_numba(first, use):
    code = INTERRUPTED.format(first=first, use=use)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["interrupted", "fine"], "")


def test_without_a_compiler_nothing_is_compiled():
    program = "from almostsure import AlmostSure, solve_policy; from almostsure.testing import chain; "
    program += "print(solve_policy(chain(300, damage=0), AlmostSure(9)).value)"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
