"""``least_levels`` and ``least_capacity`` of a tank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from almostsure import INFINITE, from_transitions, minimal_budget, product
from almostsure.budget import least_capacity, least_levels
from almostsure.errors import Infeasible
from almostsure.model import Refill
from almostsure.testing import mdps


@given(mdps(max_states=4), st.integers(0, 10**6), st.integers(0, 3))
@settings(max_examples=60)
def test_it_is_the_least_level_with_which_the_product_can_be_kept(mdp, seed, capacity):
    rng = np.random.default_rng(seed)
    free = mdp.with_reward(1.0).with_damage(0)  # with rewards, nothing becomes terminal
    at, cost = [int(rng.integers(mdp.num_states))], rng.integers(0, 3, free.num_outcomes)
    levels = least_levels(free, Refill(cost, capacity, at))

    def kept(level):
        tank = product(free, Refill(cost, capacity, at, level))
        return minimal_budget(tank).smallest_budget() == 0

    start = max(int(levels[s]) for s in mdp.initial_states)
    assert [kept(level) for level in range(capacity + 1)] == [level >= start for level in range(capacity + 1)]
    try:
        enough = least_capacity(free, Refill(cost, 0, at))
    except Infeasible:
        assert start == INFINITE
        return
    full = [minimal_budget(product(free, Refill(cost, c, at))).smallest_budget() == 0 for c in range(enough + 2)]
    assert full == [c >= enough for c in range(enough + 2)]


def consumption(edges):
    """A consumption MDP: from (state, successors, cost) to a model and the cost of each outcome."""
    rows, number = [], {}
    for state, after, cost in edges:
        action = number.setdefault(state, 0)
        number[state] += 1
        rows += [(state, action, t, 1 / len(after), 1, cost) for t in after]
    mdp = from_transitions(*zip(*rows, strict=True))
    return mdp, mdp.damage


def test_published_examples_of_consumption_mdps():
    """The example of FiMDP's tests of safety, whose numbers are known: reloads at 0, 3, 4, 9 and 11.

    There a good reload state has level 0, since it fills the tank; here it has the level needed to leave it.
    """
    edges = [
        (1, (0, 2, 12), 1), (2, (4,), 2), (12, (3,), 1), (3, (3, 4), 1), (4, (1,), 0), (7, (3,), 1), (7, (6,), 1),
        (6, (4, 5), 5), (5, (1,), 6), (8, (9,), 1), (8, (1,), 3), (10, (1, 11), 2), (0, (0,), 0), (9, (9,), 0),
        (11, (11,), 1),
    ]  # fmt: skip
    inf = INFINITE
    mdp, cost = consumption(edges)
    whole = least_levels(mdp, Refill(cost, 1000, [0, 3, 4, 9, 11])).tolist()
    assert whole == [0, 3, 2, 1, 3, 9, 14, 1, 1, 0, 5, 1, 1]
    for capacity, sixth in ((1000, 14), (14, 14), (13, inf)):
        found = least_levels(mdp, Refill(cost, capacity, [0, 3, 4, 9])).tolist()
        assert found == [0, 3, 2, 1, 3, 9, sixth, 1, 1, 0, inf, inf, 1]
    useless, dear = consumption([(s, t, 15 if s == 3 else c) for s, t, c in edges])
    found = least_levels(useless, Refill(dear, 14, [0, 3, 4, 9])).tolist()
    assert found == [0, inf, inf, inf, inf, inf, inf, inf, 1, 0, inf, inf, inf]


def test_no_capacity():
    mdp = from_transitions([0], [0], [0], [1], [1], [0], num_states=2, terminal=[1])
    with pytest.raises(Infeasible, match="no capacity suffices"):
        least_capacity(mdp, Refill(1, 5, at=[1]))
