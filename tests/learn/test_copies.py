"""Copies whose random generators go on."""

import copy
import random
from collections import namedtuple

import numpy as np
import pytest

from almostsure.learn.copies import Frozen, generators, reseed

KINDS = {
    "generator": lambda: np.random.default_rng(0),
    "old": lambda: np.random.Generator(np.random.MT19937(0)),
    "state": lambda: np.random.RandomState(0),
    "random": lambda: random.Random(0),
}


class Slots:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


class OwnCopy:
    """It says how it is copied, and counts how often."""

    copied = 0

    def __init__(self, held):
        self.held = held

    def __deepcopy__(self, memo):
        type(self).copied += 1
        return OwnCopy(copy.deepcopy(self.held, memo))


def in_array(held):
    result = np.empty(1, object)
    result[0] = held
    return result


def deep(held):
    for _ in range(20):
        held = {"inner": [held]}
    return held


HOLDERS = {
    "dict": lambda g: {"rng": g},
    "tuple": lambda g: (1, (g,)),
    "slots": Slots,
    "array": in_array,
    "deep": deep,
    "bound method": lambda g: [Slots(g).__init__, g.random],
    "its own copy": OwnCopy,
    "named tuple in a function": lambda g: namedtuple("Local", "g")(g),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_generators_are_found_wherever_they_are_and_never_copied(kind, holder):
    rng = KINDS[kind]()
    frozen = Frozen(HOLDERS[holder](rng))
    for made in (frozen(), frozen()):
        assert list(generators(made)) == [rng]
        assert next(generators(made)) is rng


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_is_another_stream_and_the_same_seed_is_the_same(kind):
    rng = KINDS[kind]()
    drawn = []
    for seed in ((3,), (4,), (3,), (3, 1)):
        reseed({"held": rng}, *seed)
        drawn.append([rng.random() for _ in range(5)])
    assert drawn[0] == drawn[2]
    assert len(set(map(tuple, drawn))) == 3


def test_everything_else_is_copied():
    class Inner:  # pickle alone could not find it
        def __init__(self):
            self.at, self.rule = np.zeros(2), lambda x: x + 1

    thing = {"inner": Inner(), "log": []}
    thing["self"] = thing
    frozen = Frozen(thing)
    thing["inner"].at[0], first = 5.0, frozen()
    first["log"].append("changed")
    second = frozen()
    assert second["log"] == []
    assert second["self"] is second
    assert second["inner"].at.tolist() == [0, 0]
    assert second["inner"].rule is thing["inner"].rule


def test_what_says_how_it_is_copied_is_copied_that_way():
    before = OwnCopy.copied
    frozen = Frozen([OwnCopy([1])])
    first, second = frozen(), frozen()
    assert OwnCopy.copied == before + 3
    assert first[0].held == second[0].held == [1]
    assert first[0].held is not second[0].held


def test_what_cannot_be_copied():
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        Frozen(number for number in range(3))
