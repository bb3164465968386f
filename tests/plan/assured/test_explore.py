"""Components of pairs: SciPy finds the same, and each comes after all that it leads to."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from almostsure.kernels import plain
from almostsure.plan.assured import explore
from almostsure.plan.assured.explore import Graph

SIZE = 60


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
    elif kind == "from the first":
        tree = [(int(rng.integers(x)), x) for x in range(1, SIZE)]
        pairs = np.array([*np.sort(pairs, axis=1).tolist(), *tree, (int(rng.integers(1, SIZE)), 0)])
    return [(int(x), int(y)) for x, y in pairs]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["any", "upward", "downward", "cycles in the middle", "from the first"])
def test_components_are_those_of_scipy_in_an_order_from_the_end(kind, compiled):
    find = explore.components if compiled else plain(explore.components)
    for seed in range(20):
        edges = edges_of(kind, seed)
        start, member = find(graph_of(edges), explore.room_for(SIZE), kind == "from the first")
        assert sorted(member.tolist()) == list(range(SIZE))
        label = np.empty(SIZE, np.int64)
        label[member] = np.repeat(np.arange(start.size - 1), np.diff(start.astype(np.int64)))
        source, target = np.array(edges).T
        count, expected = connected_components(
            coo_array((np.ones(source.size), (source, target)), shape=(SIZE, SIZE)), connection="strong"
        )
        assert start.size - 1 == count == len(set(zip(label.tolist(), expected.tolist(), strict=True)))
        assert (label[source] >= label[target]).all()


def test_nothing_to_explore_has_no_components():
    none = np.empty(0, np.uint32)
    start, member = explore.components(
        Graph(none, none, np.zeros(1, np.uint32), none, np.zeros(1, np.uint32), none), explore.room_for(0), False
    )
    assert start.tolist() == [0]
    assert member.size == 0
