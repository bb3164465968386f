"""End components: those that the definition gives, and in few rounds on long chains."""

import numpy as np
import pytest
import scipy.sparse.csgraph

from almostsure.plan.graph import ChoiceGraph, end_components


def graph_of(choices: list[list[list[int]]]) -> ChoiceGraph:
    """The graph of the states' choices, each the list of where it may lead."""
    every = [(state, leads) for state, mine in enumerate(choices) for leads in mine]
    return ChoiceGraph(
        num_states=len(choices),
        owner=np.array([state for state, _ in every], int),
        entry_choice=np.repeat(np.arange(len(every)), [len(leads) for _, leads in every]),
        entry_state=np.array([state for _, leads in every for state in leads], int),
    )


def by_definition(choices: list[list[list[int]]]) -> set[frozenset[int]]:
    """The maximal end components: sets of states are split until each can be gone around without leaving it."""

    def reached(state: int, allowed: dict[int, list[list[int]]]) -> set[int]:
        found, todo = {state}, [state]
        while todo:
            for leads in allowed[todo.pop()]:
                todo += (new := set(leads) - found)
                found |= new
        return found

    left, result = [set(range(len(choices)))], set()
    while left:
        states = left.pop()
        allowed = {x: [leads for leads in choices[x] if set(leads) <= states] for x in states}
        around = {x: frozenset(y for y in reached(x, allowed) if x in reached(y, allowed)) for x in states}
        parts = {part for x, part in around.items() if allowed[x]}
        if parts == {frozenset(states)}:
            result.add(frozenset(states))
        else:
            left += map(set, parts)
    return result


def test_end_components_are_those_of_the_definition():
    rng, found = np.random.default_rng(0), 0
    for _ in range(400):
        size = int(rng.integers(1, 9))
        choices = [
            [rng.integers(size, size=int(rng.integers(1, 3))).tolist() for _ in range(int(rng.integers(0, 4)))]
            for _ in range(size)
        ]
        graph = graph_of(choices)
        label, inside = end_components(graph, np.ones(graph.owner.size, np.bool_))
        parts = {frozenset(np.flatnonzero(label == part).tolist()) for part in set(label[label >= 0].tolist())}
        assert parts == by_definition(choices)
        stays = [
            set(label[graph.entry_state[graph.entry_choice == c]]) == {label[x]} for c, x in enumerate(graph.owner)
        ]
        assert (inside == np.array(stays, np.bool_) & (label[graph.owner] >= 0)).all()
        found += len(parts) > 1
    assert found > 50


@pytest.mark.parametrize("waiting", [False, True])
def test_long_chains_take_few_rounds(monkeypatch, waiting):
    size, rounds, search = 3000, [], scipy.sparse.csgraph.connected_components
    chain = [[[max(x - 1, 0), x + 1], *[[x]] * waiting] for x in range(size - 1)] + [[]]
    monkeypatch.setattr(
        scipy.sparse.csgraph, "connected_components", lambda *given, **more: rounds.append(1) or search(*given, **more)
    )
    graph = graph_of(chain)
    label, inside = end_components(graph, np.ones(graph.owner.size, np.bool_))
    assert len(set(label[:-1].tolist())) == (size - 1 if waiting else 1)
    assert np.count_nonzero(inside) == (size - 1) * waiting
    assert label[-1] == -1
    assert len(rounds) <= 2
