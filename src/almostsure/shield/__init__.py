"""What may be done without ever overspending: Theorem 1 as a look-up.

A choice (s, a) is *allowed* with the remaining budget K exactly if k*(s,a) ≤ K.  Write v(s) for the least k* of
the choices of s, and recall that k*(s,a) is the largest d + v(s') over the outcomes (s', d) of (s,a).

- *Safe*: after an allowed choice every outcome leaves K − d ≥ k*(s,a) − d ≥ v(s') ≥ 0, so at s' something is
  allowed again, for ever, and the budget is never overspent, whatever happens.
- *Least restrictive*: k*(s,a) > K means that no way of going on from (s,a) keeps the damage within K, so whatever
  is refused can go wrong with positive probability, and no safe policy ever plays it.

An allowed set that is empty is an error, ``NoSafeAction``, never a default.

A shield is a :class:`Guard`: wrappers, learners and exports speak to that protocol, so that they need not know what is
carried along a run.
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
