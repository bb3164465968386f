"""A shield that only needs NumPy.

``allowed(state, remaining)`` returns the actions that keep the remaining damage budget in a state.  If there is none,
or an argument is invalid or unknown, it raises an error; it never returns a default.  The table is next to this file,
under the same name with ``.npz``, and is read on first use.

``state_number("its name")``, or with the values of its variables, ``state_number(x=1, y=2)``, is the number of a state;
``names()`` has all names.

The table has for each state the entries ``start[s]`` … ``start[s + 1] − 1``: an ``action``, ascending, and ``needed``,
the least remaining budget with which it is safe.  ``budget`` is the largest remaining budget that the table covers.
"""

import numpy as np

from almostsure.shield.export.frame import Actions, NoSafeAction, known_state, read_table, whole


def allowed(state: int, remaining: int) -> Actions:
    """The ids of the safe actions of ``state`` with ``remaining`` left, ascending; at least one."""
    table, s, left = read_table(), known_state("state", state), whole("remaining", remaining)
    if left > table.budget:
        raise ValueError(f"remaining must be at most {table.budget}, the limit of this table; got {left}")
    entries = slice(int(table.start[s]), int(table.start[s + 1]))
    actions = table.action[entries][table.needed[entries] <= left] if left >= 0 else ()
    if not len(actions):
        raise NoSafeAction(f"no action of state {s} is safe with {left} left")
    return np.asarray(actions, np.int64)
