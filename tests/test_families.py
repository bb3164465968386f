"""Families of models: seeded, well-formed, and with the documented minimal budgets."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from almostsure.errors import ModelError
from almostsure.testing.families import chain, garnet, ladder, rings

CAP = 100


def budgets(mdp):
    """k* by iterating the operator from 0; CAP means that or more."""
    k = np.zeros(mdp.num_states, np.int64)
    while True:
        of_choice = np.maximum.reduceat(k[mdp.successor] + mdp.damage, mdp.outcome_ptr[:-1])
        new = np.minimum(np.minimum.reduceat(of_choice, mdp.choice_ptr[:-1]), CAP)
        if np.array_equal(new, k):
            return k
        k = new


def num_components(mdp):
    source = np.repeat(mdp.choice_states(), np.diff(mdp.outcome_ptr))
    graph = coo_array((np.ones(mdp.num_outcomes), (source, mdp.successor)), shape=(mdp.num_states,) * 2)
    return connected_components(graph, connection="strong")[0]


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_a_ladder_needs_every_budget(width, connected):
    mdp = ladder(6, width=width, connected=connected)
    assert budgets(mdp).tolist() == [*np.repeat(np.arange(7), width).tolist(), 0]
    assert budgets(mdp)[mdp.initial_state] == 6


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("damage", [0, 1, 3])
def test_a_chain_needs_all_damage_ahead(damage, connected):
    mdp = chain(9, damage=damage, connected=connected)
    assert budgets(mdp).tolist() == [damage * i for i in range(9, -1, -1)]
    assert mdp.initial_state == 0


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_rings_need_their_depth(size, connected):
    mdp = rings(5, size=size, connected=connected)
    assert budgets(mdp).tolist() == [*np.repeat(np.arange(5), size).tolist(), 0]


@pytest.mark.parametrize("family", [lambda **o: ladder(5, **o), lambda **o: chain(5, **o), lambda **o: rings(4, **o)])
def test_shuffling_only_renumbers(family):
    plain, shuffled = family(), family(shuffled_seed=1)
    assert shuffled == family(shuffled_seed=1)
    assert shuffled != plain
    assert sorted(budgets(shuffled)) == sorted(budgets(plain))
    assert budgets(shuffled)[shuffled.initial_state] == budgets(plain)[plain.initial_state]


@pytest.mark.parametrize("family", [lambda **o: ladder(5, **o), lambda **o: chain(5, **o), lambda **o: rings(4, **o)])
def test_resets_make_one_component_except_for_the_end(family):
    assert num_components(family(connected=True)) == 2


def test_garnets_are_seeded_and_have_their_rates():
    mdp = garnet(2000, 3, 4, seed=5, damage_rate=0.2, max_damage=4, terminal_rate=0.1)
    assert mdp == garnet(2000, 3, 4, seed=5, damage_rate=0.2, max_damage=4, terminal_rate=0.1)
    assert mdp != garnet(2000, 3, 4, seed=6, damage_rate=0.2, max_damage=4, terminal_rate=0.1)
    living = ~mdp.is_terminal()
    assert 0.85 < living.mean() < 0.95
    assert 0.15 < (mdp.damage > 0).mean() < 0.25
    assert set(np.unique(mdp.damage)) == {0, 1, 2, 3, 4}
    assert (np.diff(mdp.choice_ptr)[living] == 3).all()
    assert mdp.initial_state == 0
    assert living[0]


def test_garnets_without_damage_without_terminal_states_and_of_one_state():
    assert garnet(50, max_damage=0).max_damage == 0
    assert garnet(50, damage_rate=0).max_damage == 0
    assert not garnet(50, terminal_rate=0).is_terminal().any()
    assert garnet(1, 1, 1).num_states == 1


def test_reach_bounds_the_distance_of_successors():
    mdp = garnet(300, reach=2, terminal_rate=0)
    source = np.repeat(mdp.choice_states(), np.diff(mdp.outcome_ptr))
    distance = (mdp.successor - source) % 300
    assert np.isin(distance, [298, 299, 0, 1, 2]).all()


def test_bad_sizes_are_refused():
    with pytest.raises(ModelError, match="num_states must be at least 1; got 0"):
        garnet(0)
    with pytest.raises(ModelError, match=r"max_damage must lie in 0 … 255; got 256"):
        garnet(5, max_damage=256)
    with pytest.raises(ModelError, match=r"damage_rate must lie in 0 … 1; got 1.5"):
        garnet(5, damage_rate=1.5)
    with pytest.raises(ModelError, match="length must be at least 1; got 0"):
        chain(0)
    with pytest.raises(ModelError, match="depth must be at least 1; got 0"):
        rings(0)
    with pytest.raises(ModelError, match="width must be at least 1; got 0"):
        ladder(3, width=0)
