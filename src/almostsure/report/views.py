"""How a model is drawn: its map, a graph, a mosaic of its states, or only how many states need what.

===========  ==========================================================================================
map          the model has a layout; above 160 × 160 cells several cells share a square, half of them decide
variables    its states are made of variables: two of them are the axes, and the others have sliders
graph        no layout, and few states: circles and arrows in layers from the start
mosaic       no layout, and up to some thousand states: one square per state, in the order they are reached
levels       anything larger: a bar for each level of need, and some states as examples
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
WIDE = 1.7  # width of a mosaic over its height
# Compass of a choice: 0 stays or leads elsewhere, 1 … 8 clockwise from north.
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
    cells_a_side = math.ceil(max(layout.rows, layout.columns) / SQUARES)
    rows, columns = (math.ceil(size / cells_a_side) for size in (layout.rows, layout.columns))
    row, column = np.divmod(layout.cell.astype(np.int64), layout.columns)
    of_state = np.where(layout.cell < 0, -1, row // cells_a_side * columns + column // cells_a_side)
    drawn = np.flatnonzero(of_state >= 0)
    square = of_state[drawn]
    view = _squares(study, drawn, square, rows, columns, across=cells_a_side)
    count = np.bincount(square, minlength=rows * columns)
    return view | {
        "kind": "map",
        "cellsASide": cells_a_side,
        "crowded": bool(cells_a_side == 1 and count.max() > 1),
        "text": list(layout.text) if cells_a_side == 1 else None,
        "compass": pack(_compass(study.mdp, layout, described)),
        "square": pack(of_state[described]),  # −1 for those that are not drawn
    }


def _mosaic(study: Study) -> dict[str, Any]:
    order = reached_order(study.mdp)
    columns = max(1, math.ceil(math.sqrt(WIDE * order.size)))
    rows = math.ceil(order.size / columns)
    view = _squares(study, order, np.arange(order.size), rows, columns)
    return view | {"kind": "mosaic", "cellsASide": 1, "crowded": False, "text": None, "compass": None}


def _squares(study: Study, states: Ints, square: Ints, rows: int, columns: int, *, across: int = 1) -> dict[str, Any]:
    """One entry per square: the state in it that needs most (−1 for none), what half of its states need, and so on.

    What hurts is shown where a third of its states hurts, or as many as a river has that is one cell wide.
    """
    count = rows * columns
    need, hurts = study.minimal.of_state[states], arrival_damage(study.mdp)[states]
    order = np.lexsort((need, square))
    first = np.searchsorted(square[order], np.arange(count))
    size = np.diff(np.append(first, order.size))
    taken = np.flatnonzero(size)
    worst = order[(first + size - 1)[taken]]
    middle = order[(first + size // 2)[taken]]
    shown = np.bincount(square, hurts > 0, minlength=count)[taken] >= np.minimum(size[taken] / 3, across)
    strongest = np.maximum.reduceat(hurts[order], first[taken]) if taken.size else hurts[:0]
    columns_of = {"state": states[worst], "need": need[middle], "worst": need[worst], "hurts": strongest * shown}
    packed = {}
    for name, values in columns_of.items():
        full = np.full(count, -1 if name == "state" else 0, np.int64)
        full[taken] = values
        packed[name] = pack(full)
    return {"rows": rows, "columns": columns, **packed}


def _compass(mdp: MDP, layout: Layout, described: Ints) -> Ints:
    """Where each choice of the described states points: by its action's name, or else by its likeliest outcome."""
    named = [WORDS.get(mdp.action_name(a).strip().lower().replace("-", ""), 0) for a in range(mdp.num_actions)]
    result = []
    for state in described.tolist():
        for choice in mdp.choices(state):
            known = named[int(mdp.choice_action[choice])]
            result.append(known or _towards(mdp, layout, state, choice))
    return np.array(result, np.uint8)


def _towards(mdp: MDP, layout: Layout, state: int, choice: int) -> int:
    begin, end = mdp.outcome_ptr[choice : choice + 2].tolist()
    likeliest = int(mdp.successor[begin + int(np.argmax(mdp.probability[begin:end]))])
    here, there = layout.place(state), layout.place(likeliest)
    if here is None or there is None:
        return 0
    return COMPASS.get((int(np.sign(there[0] - here[0])), int(np.sign(there[1] - here[1]))), 0)
