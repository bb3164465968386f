"""A shield for a number of steps that only needs NumPy.

``allowed(state, remaining, steps_left)`` returns the actions that keep the remaining damage budget until the steps are
over.  If there is none, or an argument is invalid or unknown, it raises an error; it never returns a default.  The
table is next to this file, under the same name with ``.npz``, and is read on first use.

``state_number("its name")``, or with the values of its variables, ``state_number(x=1, y=2)``, is the number of a state;
``names()`` has all names.

The table has for each state the entries ``start[s]`` … ``start[s + 1] − 1``, each with an ``action``, ascending.  The
rises of an entry are ``begin[entry]`` … ``begin[entry + 1] − 1``: from ``since`` steps left on, ascending, the budget
``needed`` is necessary; NEVER if none suffices.  ``horizon`` is the largest number of steps that the table covers.
"""

import numpy as np

from almostsure.shield.export.frame import Actions, NoSafeAction, known_state, read_table, whole

NEVER = 2**31 - 1


def allowed(state: int, remaining: int, steps_left: int) -> Actions:
    """The ids of the safe actions of ``state`` for the steps that are left, ascending; at least one."""
    table, s, left = read_table(), known_state("state", state), whole("remaining", remaining)
    steps = whole("steps_left", steps_left)
    if not 1 <= steps <= table.horizon:
        raise ValueError(f"steps_left must lie in 1 … {table.horizon}, the horizon of this table; got {steps}")
    actions = []
    for entry in range(int(table.start[s]), int(table.start[s + 1])):
        begin, end = int(table.begin[entry]), int(table.begin[entry + 1])
        at = begin + int(np.searchsorted(table.since[begin:end], steps, side="right")) - 1
        if table.needed[at] <= min(left, NEVER - 1):
            actions.append(int(table.action[entry]))
    if not actions:
        raise NoSafeAction(f"no action of state {s} is safe for {steps} steps with {left} left")
    return np.array(actions, np.int64)
