"""The drawing of a model: the first of these that applies.

===========  ==========================================================================================
map          models with a layout; above 160 × 160 cells a square stands for several cells, by their median
graph        models with few states: circles and arrows, in layers from the start
variables    models whose states are made of variables: two are the axes, and the others have sliders
mosaic       models with up to some thousand states: one square per state, in breadth-first order
levels       larger models: a bar for each minimal budget, and some states as examples
===========  ==========================================================================================
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from almostsure.model.layout import Layout
from almostsure.model.mdp import MDP, Ints
from almostsure.report.graph import fits, graph_view, reached_order
from almostsure.report.packing import pack
from almostsure.report.states import ALL_STATES, arrival_damage, sampled_levels
from almostsure.report.study import Study
from almostsure.report.variables import values_alone, variables_view

SQUARES = 160  # along the longer side of a map
WIDE = 1.7  # width of a mosaic / its height
# The direction of a choice: 1 … 8 clockwise from north, 0 for none.
COMPASS = {(-1, 0): 1, (-1, 1): 2, (0, 1): 3, (1, 1): 4, (1, 0): 5, (1, -1): 6, (0, -1): 7, (-1, -1): 8}
WORDS = {"north": 1, "up": 1, "n": 1, "east": 3, "right": 3, "e": 3, "south": 5, "down": 5, "s": 5}
WORDS |= {"west": 7, "left": 7, "w": 7, "northeast": 2, "southeast": 4, "southwest": 6, "northwest": 8}


def view_data(study: Study, described: Ints) -> dict[str, Any]:
    """The drawing of a model, by its size and by whether it has a layout."""
    mdp = study.mdp
    if mdp.layout is not None and (mdp.layout.cell >= 0).any():
        return _map(study, mdp.layout, described)
    if fits(mdp):
        return graph_view(mdp) | values_alone(mdp)
    if (by_variables := variables_view(study)) is not None:
        return by_variables
    if mdp.num_states <= ALL_STATES:
        return _mosaic(study)
    return {"kind": "levels", "examples": sampled_levels(study.minimal)}


def _map(study: Study, layout: Layout, described: Ints) -> dict[str, Any]:
    side = math.ceil(max(layout.rows, layout.columns) / SQUARES)  # of a square, in cells
    rows, columns = (math.ceil(size / side) for size in (layout.rows, layout.columns))
    row, column = np.divmod(layout.cell.astype(np.int64), layout.columns)
    of_state = np.where(layout.cell < 0, -1, row // side * columns + column // side)
    drawn = np.flatnonzero(of_state >= 0)
    square = of_state[drawn]
    view = _squares(study, drawn, square, rows, columns, side=side)
    count = np.bincount(square, minlength=rows * columns)
    return view | {
        "kind": "map",
        "side": side,
        "crowded": bool(side == 1 and count.max() > 1),
        "text": list(layout.text) if side == 1 else None,
        "compass": pack(_compass(study.mdp, layout, described)),
        "square": pack(of_state[described]),  # −1 for those that are not drawn
    }


def _mosaic(study: Study) -> dict[str, Any]:
    order = reached_order(study.mdp)
    columns = max(1, math.ceil(math.sqrt(WIDE * order.size)))
    rows = math.ceil(order.size / columns)
    view = _squares(study, order, np.arange(order.size), rows, columns)
    return view | {"kind": "mosaic", "side": 1, "crowded": False, "text": None, "compass": None}


def _squares(study: Study, states: Ints, square: Ints, rows: int, columns: int, *, side: int = 1) -> dict[str, Any]:
    """For each square the state with the largest minimal budget (−1 for none), the median and the largest, and damage.

    The damage is shown if a step into a third of its states does damage, or into as many as a line of cells has.
    """
    count = rows * columns
    need, damage = study.minimal.of_state[states], arrival_damage(study.mdp)[states]
    order = np.lexsort((need, square))
    first = np.searchsorted(square[order], np.arange(count))
    size = np.diff(np.append(first, order.size))
    taken = np.flatnonzero(size)
    worst = order[(first + size - 1)[taken]]
    middle = order[(first + size // 2)[taken]]
    shown = np.bincount(square, damage > 0, minlength=count)[taken] >= np.minimum(size[taken] / 3, side)
    largest = np.maximum.reduceat(damage[order], first[taken]) if taken.size else damage[:0]
    columns_of = {"state": states[worst], "need": need[middle], "worst": need[worst], "damage": largest * shown}
    packed = {}
    for name, values in columns_of.items():
        full = np.full(count, -1 if name == "state" else 0, np.int64)
        full[taken] = values
        packed[name] = pack(full)
    return {"rows": rows, "columns": columns, **packed}


def _compass(mdp: MDP, layout: Layout, described: Ints) -> Ints:
    """The direction of each choice of the described states: by its action's name, or by its likeliest outcome."""
    named = [WORDS.get(mdp.action_name(a).strip().lower().replace("-", ""), 0) for a in range(mdp.num_actions)]
    result = []
    for state in described.tolist():
        for choice in mdp.choices(state):
            result.append(named[int(mdp.choice_action[choice])] or _towards(mdp, layout, state, choice))
    return np.array(result, np.uint8)


def _towards(mdp: MDP, layout: Layout, state: int, choice: int) -> int:
    """The direction of a choice's likeliest outcome."""
    begin, end = mdp.outcome_ptr[choice : choice + 2].tolist()
    likeliest = int(mdp.successor[begin + int(np.argmax(mdp.probability[begin:end]))])
    here, there = layout.place(state), layout.place(likeliest)
    if here is None or there is None:
        return 0
    return COMPASS.get((int(np.sign(there[0] - here[0])), int(np.sign(there[1] - here[1]))), 0)
