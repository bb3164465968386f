"""Tables of allowed actions: their types, and that all forms agree; look-ups of damages."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ModelError, ModelMismatch
from almostsure.model.arrays import Arrays
from almostsure.shield import outcomes, table
from almostsure.shield.outcomes import Outcomes
from almostsure.shield.table import DenseTable, SparseTable, narrowest, table_of


@pytest.mark.parametrize(
    ("largest", "size"), [(0, 1), (254, 1), (255, 2), (65534, 2), (65535, 4), (INFINITE - 1, 4), (2**32, 4)]
)
def test_the_narrowest_type_has_room_for_never(largest: int, size: int) -> None:
    assert narrowest(largest) == np.dtype(f"u{size}")


@pytest.mark.parametrize(
    ("actions", "itemsize", "width"),
    [(1, 1, 1), (2, 1, 2), (3, 1, 4), (5, 1, 8), (8, 1, 8), (9, 1, 9), (1, 2, 1), (3, 2, 4), (5, 2, 5), (2, 4, 2),
     (3, 4, 3)],
)  # fmt: skip
def test_rows_are_filled_up_to_a_word(actions: int, itemsize: int, width: int) -> None:
    assert table._padded(actions, itemsize) == width


def test_tables_are_dense_unless_they_would_be_large_and_mostly_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = asure.from_transitions([0, 1, 2], [0, 1, 3], [1, 2, 0], [1] * 3, [0] * 3, [0] * 3)
    of_choice = np.zeros(3, np.int32)
    for anyway, share, kind in ((12, 0, DenseTable), (11, 3, SparseTable), (0, 4, DenseTable)):
        monkeypatch.setattr(table, "DENSE_ANYWAY", anyway)
        monkeypatch.setattr(table, "DENSE_SHARE", share)
        assert type(table_of(mdp, of_choice)) is kind


@pytest.mark.parametrize("actions", [1, 3, 8, 9])
@pytest.mark.parametrize("top", [3, 254, 255, 65534, 65535, INFINITE - 1])
def test_all_forms_compare_needs_with_budgets(actions: int, top: int) -> None:
    """Four states with all actions, whose needs are 0, a number in the middle, the largest one and ∞."""
    count = 4 * actions
    states, nothing = np.repeat(np.arange(4), actions), [0] * count
    mdp = asure.from_transitions(states, np.tile(np.arange(actions), 4), states, [1] * count, nothing, nothing)
    needs = np.array([0, top // 2, top, INFINITE], np.int32)[(states + np.tile(np.arange(actions), 4)) % 4]
    if actions == 1:
        needs[3] = top
    dense, sparse = DenseTable(mdp, needs), SparseTable(mdp, needs)
    assert dense.highest == min(np.iinfo(narrowest(top)).max, INFINITE) - 1 >= top
    for left in (0, top // 2 - 1, top // 2, top - 1, top):
        asked = np.arange(4)
        wanted = needs.reshape(4, actions) <= left
        for form in (dense, sparse):
            assert np.array_equal(form.allows(asked, np.asarray(left)), wanted)
            assert np.array_equal(form.allows(asked, np.full(4, left)), wanted)


# ---------------------------------------------------------------------- outcomes


@pytest.fixture
def mdp() -> asure.MDP:
    """From the door the damage is 1 or 3 by one action, and 255 by the other."""
    return asure.from_transitions(
        [0, 0, 0], [1, 1, 2], [1, 1, 1], [0.5, 0.5, 1], [0] * 3, [1, 3, 255], terminal=[1],
        state_names=["door", "end"], action_names=["wait", "slip", "fall"],
    )  # fmt: skip


@pytest.mark.parametrize("dense", [1 << 22, 12, 11])
def test_damages_of_many_steps(mdp: asure.MDP, monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(outcomes, "DENSE", dense)
    found = Outcomes(mdp)
    one = np.array([0, 0, 1])
    assert found.damages(one, np.array([2, 1, 0]), np.ones(3, int), [None, 3, 0]).tolist() == [255, 3, 0]
    assert (found._table is None) == (dense < 12)
    places = np.array([0]), np.array([1]), np.array([1])
    differ = (
        r"^the damage of a step must be reported if it may differ; choice 0 \(state 0 'door', action 'slip'\) to state "
    )
    with pytest.raises(ModelError, match=differ + "1 'end' may do 1, 3, and the environment's info has no 'damage'"):
        found.damages(*places)
    with pytest.raises(
        ModelMismatch, match=r"action 'slip'\) to state 1 'end' with damage 2, which the shield's model"
    ):
        found.damages(*places, [2])
    with pytest.raises(ModelMismatch, match=r"action 'slip'\) to state 0 'door', which the shield's model says is imp"):
        found.damages(places[0], places[1], np.array([0]))
    with pytest.raises(
        ModelError, match=r"^damage must be an integer 0 … 255; got 256 at choice 0 \(state 0 'door', ac"
    ):
        found.damages(*places, [256])


@pytest.mark.parametrize("dense", [1 << 22, 0])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]])
def test_damages_are_found_for_any_order_of_outcomes(
    monkeypatch: pytest.MonkeyPatch, dense: int, order: list[int]
) -> None:
    """Transitions with a single possible damage are in the table; all others are ASK."""
    monkeypatch.setattr(outcomes, "DENSE", dense)
    arrays = Arrays(
        choice_ptr=np.array([0, 1, 2, 3]), choice_action=np.array([1, 0, 2]), outcome_ptr=np.array([0, 4, 5, 6]),
        successor=np.array([0, 1, 2, 2, 1, 2])[[*order, 4, 5]], probability=np.array([0.25] * 4 + [1, 1]),
        reward=np.zeros(6), damage=np.array([7, 0, 3, 4, 9, 0], np.uint8)[[*order, 4, 5]],
    )  # fmt: skip
    found = Outcomes(asure.MDP(arrays, initial=(np.array([0]), np.ones(1))))
    places = np.array([(0, 1, 0), (0, 1, 1), (0, 1, 2), (1, 0, 1), (2, 2, 2), (0, 0, 0), (2, 2, 1), (1, 0, 3)]).T
    assert found._look_up(*places[:, :7]).tolist() == [7, 0, -1, 9, 0, -1, -1]
    assert found._look_up(*places).tolist() == [-1] * 8  # one is not a state, so all are ASK


def test_transitions_after_the_last_possible_one_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "DENSE", 0)
    mdp = asure.from_transitions([0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 0.5, 0.5], [0] * 3, [1, 2, 3], terminal=[1])
    found = Outcomes(mdp)
    assert found._look_up(np.array([1, 1, 0]), np.array([0, 1, 1]), np.array([1, 1, 1])).tolist() == [0, -1, 3]


def test_transitions_that_are_too_many_to_be_numbered_are_looked_up_one_by_one(mdp: asure.MDP) -> None:
    found = Outcomes(mdp)
    found._shape = 2**31, 2**16, 2**31
    assert found.damages(np.array([0, 0]), np.array([2, 1]), np.array([1, 1]), [None, 3]).tolist() == [255, 3]
