"""Action sequences, and what is left of those that have begun."""

import itertools

import numpy as np
import pytest

from almostsure.abstract.patterns import Patterns
from almostsure.errors import ArgumentError


def test_all_sequences_of_a_length():
    patterns = Patterns(3, 2)
    assert patterns.count == 8
    assert len(patterns.rests) == 4 + 2
    assert patterns.longest == 3
    assert Patterns(1, 4).words == 0


def test_rests_are_followed_as_sequences_are():
    patterns = Patterns([(0, 1, 1), (0, 1, 0), (1,), (0, 0)], 2)
    safe = np.ones((1, 4), bool)
    none = np.zeros((1, len(patterns.rests)), bool)
    left = patterns.after(safe, none, np.array([0]))
    assert {patterns.rests[i] for i in np.flatnonzero(left[0])} == {(1, 1), (1, 0), (0,)}
    left = patterns.after(~safe, left, np.array([1]))
    assert {patterns.rests[i] for i in np.flatnonzero(left[0])} == {(1,), (0,)}
    assert patterns.actions(~safe, left)[0].tolist() == [True, True]
    assert not patterns.after(~safe, left, np.array([1])).any()


@pytest.mark.parametrize(("length", "actions"), [(5, 2), (4, 3), (3, 5)])
def test_packing_is_reversible(length, actions):
    patterns = Patterns(length, actions)
    bits = np.random.default_rng(0).random((20, len(patterns.rests))) < 0.5
    words = patterns.packed(bits)
    assert len(words) == patterns.words
    assert np.array_equal(patterns.unpacked(words, 20), bits)


def test_listed_sequences_are_kept_once():
    assert Patterns([(0,), (1,), (0,)], 2).sequences == ((0,), (1,))
    assert Patterns(2, 2).sequences == tuple(itertools.product(range(2), repeat=2))
    assert Patterns(np.array([[0, 1], [1, 1]]), 2).sequences == ((0, 1), (1, 1))


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        (0, "pattern must be a length of at least 1"),
        (2.5, "pattern must be a whole number"),
        ([], "at least one action"),
        ([()], "at least one action"),
        ([(0, 7)], "action ids 0 … 1; got 7"),
        ([0, 1], r"pattern must be a length, or a list of sequences such as \[\(0, 1\), \(1,\)\]; got \[0, 1\]"),
        (30, r"2\^30 = 1,073,741,824 sequences; at most 4,096"),
    ],
)
def test_patterns_that_are_none_are_refused(pattern, match):
    with pytest.raises(ArgumentError, match=match):
        Patterns(pattern, 2)
