"""Lays out small models as graphs: layers by distance from the start, ordered to reduce crossings of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from almostsure.model.mdp import MDP, Ints

MOST_STATES, MOST_EDGES = 40, 140
SWEEPS = 8  # of the barycentre heuristic
Edge = tuple[int, int]


def fits(mdp: MDP) -> bool:
    """Whether the model is small enough to be drawn as a graph."""
    return mdp.num_states <= MOST_STATES and len(_edges(mdp)) <= MOST_EDGES


def reached_order(mdp: MDP) -> Ints:
    """All states, breadth first from the start; the unreachable ones last."""
    depth = _depths(mdp)
    return np.argsort(np.where(depth < 0, mdp.num_states, depth), kind="stable")


def graph_view(mdp: MDP) -> dict[str, Any]:
    """The positions of states, in layers from left to right, and the edges with their actions and damage."""
    depth = _depths(mdp)
    depth[depth < 0] = depth.max() + 1  # unreachable states are the last layer
    edges = _edges(mdp)
    layers = _ordered([np.flatnonzero(depth == d).tolist() for d in range(int(depth.max()) + 1)], list(edges))
    place = {state: (d, i, len(layer)) for d, layer in enumerate(layers) for i, state in enumerate(layer)}
    return {
        "kind": "graph",
        "layers": len(layers),
        "tallest": max(map(len, layers)),
        "places": [list(place[s]) for s in range(mdp.num_states)],
        "edges": [
            {"from": s, "to": t, "actions": sorted(a), "damage": max(d)} for (s, t), (a, d) in sorted(edges.items())
        ],
    }


def _edges(mdp: MDP) -> dict[Edge, tuple[set[int], set[int]]]:
    """For each edge (state, successor) its actions and damages; without the self-loops of terminal states."""
    edges: dict[Edge, tuple[set[int], set[int]]] = {}
    is_terminal, columns = mdp.is_terminal(), (column.tolist() for column in mdp.columns())
    for s, a, t, _, _, d in zip(*columns, strict=True):
        if not is_terminal[s]:
            actions, damages = edges.setdefault((s, t), (set(), set()))
            actions.add(a)
            damages.add(d)
    return edges


def _depths(mdp: MDP) -> Ints:
    """The least number of steps from the start, −1 for unreachable states, [num_states]."""
    from scipy.sparse import csr_array  # slow to import
    from scipy.sparse.csgraph import dijkstra

    edges, size = (mdp.columns().state, mdp.successor), mdp.num_states
    graph = csr_array((np.ones(mdp.num_outcomes, np.int32), edges), shape=(size, size))
    depth = dijkstra(graph, indices=mdp.initial_states, unweighted=True, min_only=True)
    return np.where(np.isinf(depth), -1, depth).astype(np.int64)


def _ordered(layers: list[list[int]], edges: list[Edge]) -> list[list[int]]:
    """The layers, each sorted by the mean position of neighbours, in several sweeps."""
    neighbours: dict[int, list[int]] = {}
    for s, t in edges:
        if s != t:
            neighbours.setdefault(s, []).append(t)
            neighbours.setdefault(t, []).append(s)
    for _ in range(SWEEPS):
        height = {s: (i + 0.5) / len(layer) for layer in layers for i, s in enumerate(layer)}
        for layer in layers:
            mean = {s: np.mean([height[t] for t in neighbours.get(s, [s])]) for s in layer}
            layer.sort(key=lambda s: (mean[s], s))
            height |= {s: (i + 0.5) / len(layer) for i, s in enumerate(layer)}
    return layers
