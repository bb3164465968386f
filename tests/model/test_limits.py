"""Limits: the sizes above which something is refused, left out, or computed in another way.

Other tests check the behaviour on both sides of each limit.  The values were measured or are documented, so that a
change must be made here as well, on purpose.
"""

import importlib

import pytest

LIMITS = {
    "model.arrays": {"FEW": 2**16},
    "model.naming": {"LONGEST_SHOWN": 60, "SUGGEST_FROM": 10_000},
    "model.products": {"MAX_STATES": 5_000_000, "MAX_MEMORIES": 1_000_000},
    "model.build.function": {"MAX_STATES": 5_000_000},
    "model.build.grid": {"MOST_NAMES": 100_000},
    "model.build.transitions": {"MAX_ACTION": 2**31 - 2, "BYTES_PER_OUTCOME": 150, "ROUNDING": 1e-15},
    "model.build.validate": {"SUM_TOLERANCE": 1e-9, "MAX_DAMAGE": 255, "CHUNK": 2**20},
    "model.umb.archive": {
        "BLOCK": 512, "SMALL": 2**20, "MANY_MEMBERS": 2**16, "PART": 2**22, "UNPACKED": 2**28, "TIMES": 100,
    },
    "model.umb.index": {"NEWEST_FORMAT": 1, "INDEX_LIMIT": 2**28},
    "model.umb.own": {"VERSION": 1},
    "model.umb.valuations": {"MOST_NAMES": 1_000_000},
    "budget.certificate": {"INFINITE": 2**31 - 1, "CHUNK": 2**16, "SMALL": 200_000},
    "budget.explain": {"LONGEST": 20_000, "SHOWN": 12},
    "budget.grow": {"LOCAL": 30_000},
    "budget.minimal": {"INFINITE": 2**31 - 1, "NO_CAP": 2**31 - 2},
    "budget.solve": {"SMALL": 20_000, "PATIENCE": 20_000_000, "CHECK_RATE": 2e-9},
    "policy.evaluation.evaluate": {"LEVELS": 1_000, "WORK": 10_000_000, "NEGLIGIBLE": 1e-13},
    "policy.evaluation.layer": {"EXACT": 40},
    "policy.evaluation.linear": {
        "EPS": 2.0**-52, "ELIMINATED": 16, "ELIMINATED_LAST": 300, "STEPS": 8, "GOOD": 1e-14, "NOTHING": 1e-250,
        "TOGETHER": 2**20, "CLOSE": 1e-14,
    },
    "policy.evaluation.wide": {"TINY": 2.0**-102, "LOST": 1e-280, "SPLIT": 2.0**27 + 1},
    "policy.evaluation.within": {"LEVELS": 1_000, "EPSILON": 2.0**-52},
    "policy.simulation.episodes": {"MOST_STEPS": 40},
    "policy.simulation.plain": {"STEP_COST": 500},
    "policy.simulation.simulate": {
        "MAX_STEPS": 100_000, "PIECE": 40_000_000, "PLAIN_STEPS": 5_000_000, "BYTES_PER_EPISODE": 48,
        "UNLIMITED": 2**62,
    },
    "shield.inside": {"FREE": 1_000_000},
    "shield.outcomes": {"DENSE": 2**22},
    "shield.table": {"DENSE_ANYWAY": 2**20, "DENSE_SHARE": 8},
    "shield.export.names": {"MOST_STATES": 1_000_000, "MOST_IN_HEADER": 10_000, "LINE": 60},
    "shield.export.write": {"LINE": 24},
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_limits_have_not_changed(name):
    module = importlib.import_module(f"almostsure.{name}")
    assert {limit: getattr(module, limit) for limit in LIMITS[name]} == LIMITS[name]
