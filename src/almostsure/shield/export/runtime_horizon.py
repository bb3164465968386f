"""A shield for a number of steps that needs NumPy and nothing else.

``allowed(state, remaining, steps_left)`` says which actions keep the remaining damage budget until the steps are over.
It raises where there is none, and where it is asked about something that it does not know; it never answers with a
default.  The table lies beside this file, under the same name with ``.npz``, and is read when it is first needed.

``state_number("its name")``, or with the values of its variables, ``state_number(x=1, y=2)``, is the number of a state;
``names()`` has all names.

For each state it has the entries ``start[s]`` … ``start[s + 1] − 1``, each with an ``action``, ascending.  The rises of
an entry, ``begin[entry]`` … ``begin[entry + 1] − 1``, say ``since`` how many steps left, ascending, which remaining
budget is ``needed``; NEVER if none suffices.  ``horizon`` is the most steps that the table knows about.
"""

import numpy as np

from almostsure.shield.export.frame import Actions, NoSafeAction, known_state, read_table, whole

NEVER = 2**31 - 1


def allowed(state: int, remaining: int, steps_left: int) -> Actions:
    """The ids of the actions that are safe in ``state`` for the steps that are left, ascending; at least one."""
    table, s, left = read_table(), known_state("state", state), whole("remaining", remaining)
    steps = whole("steps_left", steps_left)
    if not 1 <= steps <= table.horizon:
        raise ValueError(f"steps_left must lie in 1 … {table.horizon}, what this table was made for; got {steps}")
    actions = []
    for entry in range(int(table.start[s]), int(table.start[s + 1])):
        begin, end = int(table.begin[entry]), int(table.begin[entry + 1])
        at = begin + int(np.searchsorted(table.since[begin:end], steps, side="right")) - 1
        if table.needed[at] <= min(left, NEVER - 1):
            actions.append(int(table.action[entry]))
    if not actions:
        raise NoSafeAction(f"no action of state {s} is safe for {steps} steps with {left} left")
    return np.array(actions, np.int64)
