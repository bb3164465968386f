"""Kernels and Numba's cache on disk."""

import importlib
import sys

import numpy as np

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
