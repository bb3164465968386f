"""The one-step mask is the same for tabular and deep learners."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.learn.learners.one_step import one_step_mask


@pytest.mark.parametrize("name", ["corridor", "hazard-map", "quicksand"])
def test_the_one_step_mask_of_tables_and_networks(name):
    deep = pytest.importorskip("almostsure.gym.deep")
    mdp, budget = asure.example(name), 2
    table = one_step_mask(mdp, budget)
    mask = deep.OneStepPPO().regime(mdp, budget).mask
    states, owner = np.arange(mdp.num_states), mdp.choice_states()
    for layer, remaining in enumerate([0, 1, 2, -1]):
        rows = mask(states, np.full(states.size, remaining))
        assert np.array_equal(rows[owner, mdp.choice_action], table[layer])
    assert np.logical_or.reduceat(table, mdp.choice_ptr[:-1].astype(np.int64), axis=1).all()
