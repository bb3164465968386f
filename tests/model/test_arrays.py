"""Offsets, groups and terminal states."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.model import arrays
from almostsure.model.arrays import ascending, frozen, grouped, ptr_of, spans


def test_offsets_groups_and_spans():
    owners = np.array([2, 0, 2, 3, 0, 2])
    begin, order = grouped(owners, 5)
    assert (begin.tolist(), order.tolist()) == ([0, 2, 2, 5, 6, 6], [1, 4, 0, 2, 5, 3])
    items, owner = spans(begin, np.array([2, 1, 0, 2]))
    assert (items.tolist(), owner.tolist()) == ([2, 3, 4, 0, 1, 2, 3, 4], [0, 0, 0, 2, 2, 3, 3, 3])
    assert [part.tolist() for part in spans(begin, np.zeros(0, int))] == [[], []]
    assert ptr_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert (ptr_of([]).tolist(), ptr_of([]).dtype) == ([0], np.int32)
    assert [ptr_of([size]).dtype for size in (2**31 - 2, 2**31 - 1)] == [np.int32, np.int64]
    assert not frozen(np.zeros(1)).flags.writeable
    assert (ascending(owners).tolist(), ascending(owners[:0]).tolist()) == ([0, 2, 3], [])


@pytest.mark.parametrize("few", [1, 2, 3, 4, 100])
def test_terminal_states_for_every_chunk_size(monkeypatch, few):
    """Loops with a reward, with damage, with a way out first, in between or last, and terminal states of each kind."""
    monkeypatch.setattr(arrays, "FEW", few)
    rows = [
        (0, 0, 0, 1, 1, 0), (1, 0, 1, 1, 0, 1), (2, 0, 0, 0.5, 0, 0), (2, 0, 2, 0.5, 0, 0), (3, 0, 3, 0.5, 0, 0),
        (3, 0, 4, 0.5, 0, 0), (4, 0, 4, 1, 0, 0), (4, 1, 5, 1, 0, 0), (4, 2, 4, 1, 0, 0), (5, 0, 5, 1, 0, 0),
        (5, 1, 5, 1, 0, 0), (6, 0, 6, 1, 0, 0),
    ]  # fmt: skip
    mdp = asure.from_transitions(*zip(*rows, strict=True))
    assert np.flatnonzero(mdp.is_terminal()).tolist() == [5, 6]


@pytest.mark.parametrize("chunk", [1, 2, 3, 1 << 20])
def test_fingerprints_have_not_changed(monkeypatch, chunk):
    """Files of budgets, policies and shields contain them, and must stay loadable."""
    monkeypatch.setattr(arrays, "CHUNK", chunk)
    mdp = asure.from_transitions(
        [0, 0, 1], [0, 300, 0], [1, 2, 2], [1] * 3, [0, 0.5, -1], [0, 255, 1], terminal=[2], initial={0: 0.25, 1: 0.75}
    )
    assert mdp.fingerprint == "7e594422b57c4a40a3bfcbeeb9703a5efeaf46888ab8a33f4bfc33abfd46ecc3"
    assert mdp.space.fingerprint == "c9d23fddc36d6f9e17c29fb8b9d0a00f681e3fb9a5bdf1e336d0ff56d12861dd"
    assert (mdp.arrays.nbytes, mdp.arrays.num_states, mdp.arrays.num_choices) == (4 * 21 + 4 * 2 + 5 * 4 + 4 * 4, 3, 4)
