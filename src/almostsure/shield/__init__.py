"""Shields: which actions can be played without ever overspending.  Theorem 1 as a look-up.

A choice (s, a) is *allowed* with the remaining budget K exactly if k*(s,a) ≤ K.  Write v(s) for the least k* of the
choices of s, and recall that k*(s,a) is the largest d + v(s') over the outcomes (s', d) of (s,a).

- *Safe*: after an allowed choice every outcome leaves K − d ≥ k*(s,a) − d ≥ v(s') ≥ 0, so at s' some action is allowed
  again, and so on indefinitely.  The budget is never overspent.
- *Least restrictive*: if k*(s,a) > K, no policy that continues from (s,a) keeps the damage within K.  So every refused
  choice overspends with positive probability, and no safe policy ever plays it.

An empty set of allowed actions is an error, ``NoSafeAction``, never a default.

A shield is a :class:`Guard`.  Wrappers, learners and exports use that protocol, so they do not depend on what a shield
tracks along a run.
"""

from typing import TYPE_CHECKING

from almostsure.exports import on_demand

if TYPE_CHECKING:
    from almostsure.shield.feasible import Violation
    from almostsure.shield.horizon import HorizonShield
    from almostsure.shield.inside import Restricted, Trimmed, restrict, trim
    from almostsure.shield.monitored import MonitoredShield
    from almostsure.shield.protocol import Guard, Run
    from almostsure.shield.shield import Shield
else:
    __getattr__ = on_demand(__name__)

__all__ = [
    "Guard",
    "HorizonShield",
    "MonitoredShield",
    "Restricted",
    "Run",
    "Shield",
    "Trimmed",
    "Violation",
    "restrict",
    "trim",
]
