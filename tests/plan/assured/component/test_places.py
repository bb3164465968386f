"""End components: the same as those of the plain twin, also on chains that lose their states one after the other."""

import numpy as np
import pytest

from almostsure.kernels import plain
from almostsure.plan import graph as twin
from almostsure.plan.assured.component import places
from almostsure.plan.assured.explore import Graph
from almostsure.plan.assured.steps import NOWHERE


def graph_of(choices: list[list[list[int]]]) -> Graph:
    """The graph of the positions' choices, each the list of where it may lead."""
    ptr = np.cumsum([0, *(len(mine) for mine in choices)]).astype(np.uint32)
    every = [choice for mine in choices for choice in mine]
    entry_ptr = np.cumsum([0, *(len(choice) for choice in every)]).astype(np.uint32)
    target = np.array([y for choice in every for y in choice], np.uint32)
    none = np.empty(0, np.uint32)
    return Graph(none, none, ptr, np.arange(len(every), dtype=np.uint32), entry_ptr, target)


def drawn(seed: int) -> list[list[list[int]]]:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 12))
    return [
        [rng.integers(size, size=int(rng.integers(1, 4))).tolist() for _ in range(int(rng.integers(0, 3)))]
        for _ in range(size)
    ]


@pytest.mark.parametrize("compiled", [False, True])
def test_end_components_are_those_of_the_plain_twin(compiled):
    find = places.end_components if compiled else plain(places.end_components)
    found = 0
    for seed in range(150):
        graph = graph_of(drawn(seed))
        label, inside = find(graph)
        owner = np.repeat(np.arange(graph.ptr.size - 1), np.diff(graph.ptr))
        entry_choice = np.repeat(np.arange(owner.size), np.diff(graph.entry_ptr))
        whole = twin.ChoiceGraph(
            num_states=graph.ptr.size - 1, owner=owner, entry_choice=entry_choice, entry_state=graph.target.astype(int)
        )
        expected, staying = twin.end_components(whole, np.ones(owner.size, np.bool_))
        assert ((label == NOWHERE) == (expected < 0)).all()
        there = expected >= 0
        assert len(set(zip(label[there].tolist(), expected[there].tolist(), strict=True))) == len(
            set(expected[there].tolist())
        )
        assert inside.origin.tolist() == np.flatnonzero(staying).tolist()
        found += there.any()
    assert 30 < found < 150


@pytest.mark.parametrize("waiting", [False, True])
def test_a_chain_that_can_be_left_at_one_end_is_gone_at_once(monkeypatch, waiting):
    size, rounds = 200, []
    chain = [[[max(x - 1, 0), x + 1], *[[x]] * waiting] for x in range(size - 1)] + [[]]
    find = plain(places.end_components)
    search = find.__globals__["components"]
    monkeypatch.setitem(find.__globals__, "components", lambda *given: rounds.append(1) or search(*given))
    label, inside = find(graph_of(chain))
    assert (label[:-1] == NOWHERE).all() != waiting
    assert inside.origin.size == (size - 1) * waiting
    assert label[-1] == NOWHERE
    assert len(rounds) == waiting  # what strands is dropped without a search
