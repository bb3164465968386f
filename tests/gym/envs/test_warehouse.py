"""The warehouse environment."""

import gymnasium
import numpy as np
import pytest

import almostsure as asure
from almostsure.errors import ArgumentError
from almostsure.gym.envs.warehouse import MAP, read_floor, warehouse


def test_larger_budgets_have_larger_returns():
    mdp, situations = warehouse()
    assert len(situations) == mdp.num_states
    minimal = asure.minimal_budget(mdp)
    assert minimal.smallest_budget() == 0
    curve = asure.solve_policy(mdp, asure.AlmostSure(2)).curve
    assert (np.diff(curve) > 1).all()
    assert curve[0] > 0


def test_the_robot_is_bumped_when_it_meets_the_forklift():
    mdp, situations = warehouse(pause=0.0)
    floor = read_floor()
    number = {at: i for i, at in enumerate(situations)}
    hit = next(at for at in situations if at and at.phase < 5 and at.robot == floor.tour[at.phase + 1])
    (outcome,) = mdp.outcomes(number[hit], "stay")
    assert (outcome.damage, outcome.reward) == (1, -1.0)
    after = situations[outcome.next_state]
    assert after.robot == hit.robot
    assert floor.tour[after.phase] == floor.tour[hit.phase]  # both stay, and the forklift turns round
    assert floor.tour[(after.phase + 1) % len(floor.tour)] != hit.robot
    assert all(at is None or floor.tour[at.phase] != at.robot for at in situations)
    assert len(MAP[0]) == 13
    with pytest.raises(ArgumentError, match="pause must be a probability below 1"):
        gymnasium.make("almostsure/Warehouse-v0", pause=1.0)
