"""Copies that share their random generators."""

import copy
import gc
import random
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from almostsure.learn.copies import Frozen, generators_in, reseed

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
    """It has its own ``__deepcopy__``, and counts its copies."""

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


def in_scalar(held):
    result = np.empty((), object)
    result[()] = held
    return result


def in_field(held):
    return np.array([(1, held)], [("number", int), ("held", object)])


def deep(held):
    for _ in range(20):
        held = {"inner": [held]}
    return held


HOLDERS = {
    "dict": lambda g: {"rng": g},
    "tuple": lambda g: (1, (g,)),
    "scalar": in_scalar,
    "slots": Slots,
    "array": in_array,
    "field of an array": in_field,
    "array in a tuple": lambda g: {"fixed": (1, in_array(g))},
    "long list": lambda g: [*range(100), [g]],
    "array in a long list": lambda g: [*range(100), in_array(g)],
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
        gc.collect()  # untracks some tuples and dictionaries
        assert [one is rng for one in generators_in(made)] == [True]


PLACES = {
    "the table": lambda table, g: table.update(rng=g),
    "in place of a value": lambda table, g: table.update({5: g}),
    "a list": lambda table, g: table[7].append(g),
    "a list in a tuple": lambda table, g: table[9][1].append([g]),
    "an array": lambda table, g: table.update({3: in_array(g)}),
}


@pytest.mark.parametrize("place", PLACES)
def test_generators_that_come_into_a_table_later_are_found(place):
    table = {number: [0.5, number] for number in range(2 * 100)}
    table[9] = (1, [2.0])
    world, rng = {"inner": [table]}, np.random.default_rng(0)
    for _ in range(3):
        assert list(generators_in(world)) == []
    PLACES[place](table, rng)
    for _ in range(3):
        assert [one is rng for one in generators_in(world)] == [True]


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


def test_an_object_with_its_own_deepcopy_is_copied_by_it():
    before = OwnCopy.copied
    frozen = Frozen([OwnCopy([1])])
    first, second = frozen(), frozen()
    assert OwnCopy.copied == before + 3
    assert first[0].held == second[0].held == [1]
    assert first[0].held is not second[0].held


def test_what_cannot_be_copied():
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        Frozen(number for number in range(3))


def test_a_table_at_the_address_of_a_freed_one_is_searched():
    """CPython gives a new tuple the address of one that was freed: nothing may be remembered by address."""
    rng = np.random.default_rng(0)
    holder = SimpleNamespace(state=None)
    for number in range(200):
        holder.state = tuple(range(1000 + number, 1150 + number))
        assert list(generators_in(holder)) == []
        holder.state = None
        holder.state = (rng, *[0.5] * 149)
        assert list(generators_in(holder)) == [rng]
