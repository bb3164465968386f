"""Components of pairs: the same as SciPy's, each listed after all those that it leads to."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from almostsure.budget.solve import minimal_budget
from almostsure.kernels import plain
from almostsure.plan.assured import explore
from almostsure.plan.assured.engine import Engine
from almostsure.plan.assured.explore import NO_LAYERS, Graph
from almostsure.plan.assured.layers import feasible_pairs
from almostsure.testing.families import garnet

SIZE = 60
BUDGET = 4


def graph_of(edges: list[tuple[int, int]]) -> Graph:
    """A graph in which every edge is a choice of its own."""
    source, target = np.array(sorted(edges), np.uint32).reshape(-1, 2).T
    ptr = np.searchsorted(source, np.arange(SIZE + 1)).astype(np.uint32)
    numbers = np.arange(source.size + 1, dtype=np.uint32)
    none = np.empty(0, np.uint32)
    return Graph(none, none, ptr, numbers[:-1], numbers, target.copy())


def edges_of(kind: str, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(SIZE, size=(int(rng.integers(1, 3 * SIZE)), 2))
    if kind == "upward":
        pairs = np.sort(pairs, axis=1)  # loops of one pair stay
    elif kind == "downward":
        pairs = -np.sort(-pairs, axis=1)
    elif kind == "cycles in the middle":
        inside = ((pairs > SIZE // 3) & (pairs < SIZE // 2)).all(axis=1)
        pairs = np.where(inside[:, None], pairs, np.sort(pairs, axis=1))
    return [(int(x), int(y)) for x, y in pairs]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["any", "upward", "downward", "cycles in the middle"])
def test_components_are_those_of_scipy_in_an_order_from_the_end(kind, compiled):
    find = explore.components if compiled else plain(explore.components)
    for seed in range(20):
        edges = edges_of(kind, seed)
        graph = graph_of(edges)
        start, member = find(graph, explore.room_for(SIZE), explore.span(graph), NO_LAYERS)
        check_components(start, member, *np.array(edges).T)


def check_components(start, member, source, target):
    size = member.size
    assert sorted(member.tolist()) == list(range(size))
    label = np.empty(size, np.int64)
    label[member] = np.repeat(np.arange(start.size - 1), np.diff(start.astype(np.int64)))
    edges = coo_array((np.ones(source.size), (source, target)), shape=(size, size))
    count, expected = connected_components(edges, connection="strong")
    assert start.size - 1 == count == len(set(zip(label.tolist(), expected.tolist(), strict=True)))
    assert (label[source] >= label[target]).all()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
def test_components_with_more_left_are_built_on_those_with_less(everywhere, compiled):
    find = explore.components if compiled else plain(explore.components)
    grown = 0
    for seed in range(60):
        mdp = garnet(12 + seed % 20, 2, 1 + seed % 3, damage_rate=0.2, seed=seed)
        minimal = minimal_budget(mdp)
        starts = feasible_pairs(mdp, minimal.of_choice, BUDGET)
        if not starts.size:
            continue
        if not everywhere:
            found = Engine(mdp, minimal.of_choice, BUDGET, starts[:1], 1.0)
            state, left = found.graph.state.tolist(), found.graph.remaining.tolist()
            starts = explore.in_order(found.number, mdp.num_states)
            assert not found.number.any()
            pairs = sorted(zip(state, left, strict=True), key=lambda pair: (-pair[1], pair[0]))
            assert starts.tolist() == [left * mdp.num_states + state for state, left in pairs]
        engine = Engine(mdp, minimal.of_choice, BUDGET, starts, 1.0)
        graph, layers = engine.graph, engine.number.reshape(-1, mdp.num_states)
        assert (np.diff(graph.remaining.astype(np.int64)) <= 0).all()
        start, member = find(graph, explore.room_for(graph.state.size), explore.span(graph), layers)
        per_choice = np.diff(graph.entry_ptr.astype(np.int64))
        owner = np.repeat(np.arange(graph.state.size), np.diff(graph.ptr.astype(np.int64)))
        check_components(start, member, np.repeat(owner, per_choice), graph.target.astype(np.int64))
        size = np.diff(start.astype(np.int64))
        left = graph.remaining[member[start[:-1][size > 1]]]
        grown += np.unique(left).size > 1
    assert grown > 10  # models with cycles in several layers


def test_nothing_to_explore_has_no_components():
    none = np.empty(0, np.uint32)
    graph = Graph(none, none, np.zeros(1, np.uint32), none, np.zeros(1, np.uint32), none)
    start, member = explore.components(graph, explore.room_for(0), explore.span(graph), NO_LAYERS)
    assert start.tolist() == [0]
    assert member.size == 0
