"""Tanks that are refilled: the least level from which a tank never runs dry, and the least capacity.

Take a tank of capacity C that is filled on arrival at some states, the stations.  Let e(s) be the least level that
suffices at s.  It is the minimal budget of a model in which the damage of a step is its consumption, and arriving at a
station ends the run if e ≤ C there, and is forbidden otherwise.  Stations with e > C are found in rounds, of which
there are at most as many as stations.  Then e is exact, since it only grows from round to round and all remaining
stations are good.
"""

from __future__ import annotations

import numpy as np

from almostsure.budget.minimal import INFINITE
from almostsure.budget.solve import minimal_budget
from almostsure.errors import Infeasible
from almostsure.model.build.transitions import build
from almostsure.model.mdp import MDP, Bools, Ints
from almostsure.model.monitors import Refill
from almostsure.model.source import Model, as_model


def least_levels(mdp: Model, tank: Refill) -> Ints:
    """The least level from which the tank never runs dry, for every state, [num_states]; INFINITE if none suffices.

    At a station, it is the level needed to leave it: at most the capacity, since the tank has just been filled.

    Parameters
    ----------
    mdp, tank
        The model; and the tank, with its costs and stations.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.budget import least_capacity, least_levels
    >>> from almostsure.model import Refill
    >>> line = asure.from_transitions([0, 1, 2, 3], [0] * 4, [1, 2, 3, 0], [1] * 4, [0] * 4, [0] * 4)
    >>> tank = Refill(cost=2, capacity=8, at=[0])
    >>> least_levels(line, tank), least_capacity(line, tank)
    (array([8, 6, 4, 2]), 8)
    """
    model = as_model(mdp)
    return _levels(model, tank.costs(model), tank.stations(model), tank.capacity)


def least_capacity(mdp: Model, tank: Refill) -> int:
    """The least capacity with which a tank that is full at the start never runs dry; ``tank.capacity`` is ignored.

    Parameters
    ----------
    mdp, tank
        The model; and the tank, with its costs and stations.

    Raises
    ------
    Infeasible
        If no capacity suffices.

    Examples
    --------
    >>> import almostsure as asure
    >>> from almostsure.model import Refill
    >>> ring = asure.from_transitions([0, 1, 2], [0, 0, 0], [1, 2, 0], [1] * 3, [0] * 3, [0] * 3)
    >>> least_capacity(ring, Refill(1, 9, [0]))  # three steps from station to station
    3
    """
    model = as_model(mdp)
    cost, fills, starts = tank.costs(model), tank.stations(model), model.initial_states
    free = _levels(model, cost, fills, INFINITE - 1)
    if free[starts].max() == INFINITE:
        raise Infeasible("no capacity suffices: from the start, the next station cannot always be reached.")
    low, high = int(free[starts].max()), int(free[free < INFINITE].max())  # a larger capacity changes nothing
    while low < high:
        middle = (low + high) // 2
        enough = _levels(model, cost, fills, middle)[starts].max() <= middle
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def _levels(mdp: MDP, cost: Ints, fills: Bools, capacity: int) -> Ints:
    good = fills.copy()
    while True:
        levels = _round(mdp, cost, fills, good)
        levels[levels > capacity] = INFINITE
        bad = good & (levels == INFINITE)
        if not bad.any():
            return levels
        good &= ~bad


def _round(mdp: MDP, cost: Ints, fills: Bools, good: Bools) -> Ints:
    """The least levels if arriving at a good station ends a run, and arriving at another one is forbidden."""
    end, trap = mdp.num_states, mdp.num_states + 1
    after = np.where(fills[mdp.successor], np.where(good[mdp.successor], end, trap), mdp.successor)
    columns, is_terminal = mdp.columns()._replace(next_state=after, damage=cost), mdp.is_terminal()
    goes_on, loop = ~is_terminal[columns.state], (trap, 0, trap, 1.0, 0.0, 1)
    kept = [np.append(column[goes_on], last) for column, last in zip(columns, loop, strict=True)]
    terminal = [*np.flatnonzero(is_terminal).tolist(), end]
    model = build(kept, num_states=mdp.num_states + 2, terminal=terminal, initial=0)
    return minimal_budget(model).of_state[: mdp.num_states].astype(np.int64)
