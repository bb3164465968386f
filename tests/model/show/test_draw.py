"""Maps as text: the characters, or a value in each cell."""

import numpy as np
import pytest

from almostsure import INFINITE, example, from_map, from_transitions
from almostsure.errors import ModelError
from almostsure.model import draw_map
from almostsure.model.layout import Layout
from almostsure.model.show import draw as drawing

MAP = "S1\n#G"


def test_the_map_itself():
    assert draw_map(from_map(MAP)) == "S 1\n# G"
    assert draw_map("quicksand") == draw_map(example("quicksand"))


def test_a_value_in_each_cell():
    mdp = from_map(MAP)
    assert draw_map(mdp, [3, INFINITE, 12]) == " 3  ∞\n # 12"
    assert draw_map(mdp, np.array([0, INFINITE, 2], np.int32)) == "0 ∞\n# 2"
    assert draw_map(mdp, [0.5, np.nan, -np.inf]) == "0.5\n  #  −∞"
    assert draw_map(mdp, [np.inf, 1 / 3, 2.0]) == "     ∞ 0.3333\n     #      2"
    assert draw_map(mdp, ["→", "", "↓"]) == "→\n# ↓"
    assert draw_map(mdp, [True, False, True]) == "1 0\n# 1"


def test_all_modules_have_the_same_infinity():
    assert drawing.NO_BUDGET == INFINITE


def test_states_without_a_place_are_not_drawn():
    layout = Layout(rows=1, columns=3, cell=np.array([2, -1, 0], np.int32), text=("a.b",))
    mdp = from_transitions([0, 1], [0, 0], [1, 2], [1, 1], [0, 0], [0, 0], terminal=[2], layout=layout)
    assert draw_map(mdp) == "a . b"
    assert draw_map(mdp, [7, 8, 9]) == "9 . 7"


def test_models_that_cannot_be_drawn():
    mdp = from_map(MAP)
    with pytest.raises(ModelError, match=r"one number or text for each of the 3 states; got int64 of shape \(2,\)"):
        draw_map(mdp, [1, 2])
    with pytest.raises(ModelError, match=r"for each of the 3 states; got object of shape \(3,\)"):
        draw_map(mdp, [1, 2, None])
    with pytest.raises(ModelError, match="must have a layout to be drawn; it has none"):
        draw_map("paper")
    twice = Layout(rows=1, columns=1, cell=np.array([0, 0], np.int32), text=(".",))
    with pytest.raises(ModelError, match="several states share a cell"):
        draw_map(from_transitions([0], [0], [1], [1], [0], [0], terminal=[1], layout=twice))
