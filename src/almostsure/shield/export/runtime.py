"""A shield that needs NumPy and nothing else.

``allowed(state, remaining)`` says which actions keep the remaining damage budget in a state.  It raises where there is
none, and where it is asked about something that it does not know; it never answers with a default.  The table lies
beside this file, under the same name with ``.npz``, and is read when it is first needed.

``state_number("its name")``, or with the values of its variables, ``state_number(x=1, y=2)``, is the number of a state;
``names()`` has all names.

For each state it has the entries ``start[s]`` … ``start[s + 1] − 1``: an ``action``, ascending, and ``needed``, the
least remaining budget with which it is safe.  ``budget`` is the largest remaining budget that it knows about.
"""

import numpy as np

from almostsure.shield.export.frame import Actions, NoSafeAction, known_state, read_table, whole


def allowed(state: int, remaining: int) -> Actions:
    """The ids of the actions that are safe in ``state`` with ``remaining`` left, ascending; at least one."""
    table, s, left = read_table(), known_state("state", state), whole("remaining", remaining)
    if left > table.budget:
        raise ValueError(f"remaining must be at most {table.budget}, what this table was made for; got {left}")
    entries = slice(int(table.start[s]), int(table.start[s + 1]))
    actions = table.action[entries][table.needed[entries] <= left] if left >= 0 else ()
    if not len(actions):
        raise NoSafeAction(f"no action of state {s} is safe with {left} left")
    return np.asarray(actions, np.int64)
