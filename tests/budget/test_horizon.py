"""The least damage that can be forced within T steps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import INFINITE, from_transitions, minimal_budget
from almostsure.budget import horizon_solve as module
from almostsure.budget.certificate import check_never_too_small_within
from almostsure.errors import ArgumentError, CertificateError, NotEnoughMemory
from almostsure.testing import mdps


def forced(mdp, steps, state):
    """By definition: a game of ``steps`` steps, by recursion."""
    if steps == 0:
        return 0
    return min(
        max(o.damage + forced(mdp, steps - 1, o.next_state) for o in mdp.outcomes(state, int(a)))
        for a in mdp.actions(state)
    )


@given(mdps(max_states=4, max_damage=3), st.integers(0, 4))
def test_it_is_the_game_played_out(mdp, steps):
    minimal = minimal_budget(mdp, horizon=steps)
    assert minimal.of_state.tolist() == [forced(mdp, steps, s) for s in range(mdp.num_states)]
    for c in range(mdp.num_choices if steps else 0):
        where = range(int(mdp.outcome_ptr[c]), int(mdp.outcome_ptr[c + 1]))
        worst = max(int(mdp.damage[o]) + forced(mdp, steps - 1, int(mdp.successor[o])) for o in where)
        assert minimal.of_choice[c] == worst
    asure.check_minimal_budget(mdp, minimal)


@given(mdps(max_states=6, max_damage=3), st.integers(0, 30), st.one_of(st.none(), st.integers(0, 6)))
def test_compiled_is_plain_and_every_smaller_number_of_steps_is_known(mdp, steps, cap):
    plain = minimal_budget(mdp, horizon=steps, cap=cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL_WORK", -1)
        compiled = minimal_budget(mdp, horizon=steps, cap=cap)
    for t in range(steps + 1):
        alone = minimal_budget(mdp, horizon=t, cap=cap)
        for found in (plain.at(t), compiled.at(t)):
            assert np.array_equal(found.of_state, alone.of_state)
            assert np.array_equal(found.of_choice, alone.of_choice)


@given(mdps(max_states=6, max_damage=2))
def test_it_rises_to_the_minimal_budget(mdp):
    exact = minimal_budget(mdp).of_state
    finite = exact < INFINITE
    far = minimal_budget(mdp, horizon=200)
    assert np.array_equal(far.of_state[finite], exact[finite])
    assert (far.of_state[~finite] >= 3).all() or not (~finite).any()
    if far.settled is not None:
        assert finite.all()
        assert np.array_equal(far.at(10**9).of_state, exact)


def test_a_pit_rises_for_ever_and_a_cap_ends_that():
    pit = from_transitions([0], [0], [0], [1], [0], [1])
    assert [minimal_budget(pit, horizon=100).at(t).of(0) for t in (0, 1, 7, 100)] == [0, 1, 7, 100]
    capped = minimal_budget(pit, horizon=10**6, cap=5)
    assert capped.of(0) == INFINITE
    assert capped.rises.step.size == 6
    assert capped.settled == 6


def test_forbidden_states_are_infinite_with_no_steps_left():
    mdp = from_transitions([0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1], labels={"forbidden": [1]})
    minimal = minimal_budget(mdp, horizon=1)
    assert minimal.at(0).of(1) == INFINITE
    assert minimal.of(0, 0) == INFINITE
    assert minimal.of(0) == 0


def test_tampered_answers_are_refused():
    mdp = asure.example("quicksand")
    minimal = minimal_budget(mdp, horizon=8)
    value = minimal.rises.value.copy()
    for at in range(0, value.size, 7):
        for change in (-1, 1):
            wrong = value.copy()
            wrong[at] += change
            with pytest.raises(
                CertificateError, match=r"with \d+ steps? left, state .* needs|of_state must be|must be ascending"
            ):
                asure.check_minimal_budget(mdp, replace(minimal, rises=minimal.rises._replace(value=wrong)))


def test_answers_in_another_form_are_refused():
    mdp = asure.example("quicksand")
    minimal = minimal_budget(mdp, horizon=8)
    ptr, step, value = minimal.rises
    for wrong, message in (
        ((ptr[:-1], step, value), "rises must be integers for each of"),
        ((ptr, step, value.astype(float)), "rises must be integers for each of"),
        ((ptr, step[:-1], value), "rises must be integers for each of"),
        ((ptr, np.where(step > 0, -step, step), value), "rises must be sorted by state"),
    ):
        with pytest.raises(CertificateError, match=message):
            asure.check_minimal_budget(mdp, replace(minimal, rises=type(minimal.rises)(*wrong)))
    for name in ("of_state", "of_choice"):
        array = getattr(minimal, name).copy()
        array[0] += 1
        with pytest.raises(
            CertificateError, match=r"of_state and of_choice must be the values of the rises|of_state must be"
        ):
            asure.check_minimal_budget(mdp, replace(minimal, **{name: array}))


FORM, TURN, ORDER = "^rises must be integers for each of 3 states$", "^rises must be sorted by", "ascending values"
PITS = {"ptr": [0, 3, 6, 6], "step": [1, 2, 3] * 2, "value": [1, 2, 3] * 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ptr": [0, 3, 6]}, FORM),
        ({"ptr": [1, 3, 6, 6]}, FORM),
        ({"ptr": [0, 3, 6, 7]}, FORM),
        ({"value": [1, 2, 3] * 2 + [4]}, FORM),
        ({"ptr": [0, 4, 3, 6]}, TURN),
        ({"step": [-1, 2, 3, 1, 2, 3]}, TURN),
        ({"step": [1, 2, 3, 1, 2, INFINITE]}, TURN),
        ({"step": [1, 1, 3, 1, 2, 3]}, ORDER),
        ({"step": [1, 3, 2, 1, 2, 3]}, ORDER),
        ({"value": [1, 1, 3, 1, 2, 3]}, ORDER),
        ({"value": [1, 3, 2, 1, 2, 3]}, ORDER),
        ({"value": [-1, 2, 3, 1, 2, 3]}, ORDER),
        ({"value": [1, 2, INFINITE + 1, 1, 2, 3]}, ORDER),
        ({"value": [1, 2, INFINITE, 1, 2, 3]}, "^with 3 steps left, state 0 needs 3; the budget claims ∞. Solve again"),
        ({"value": [1, 2, 3, 0, 2, 3]}, "^with 1 step left, state 1 needs 1; the budget claims 0. Solve again"),
        ({"step": [0, 2, 3, 1, 2, 3]}, "^with 0 steps left, state 0 needs 0; the budget claims 1. Solve again"),
        ({"ptr": [0, 3, 6, 7], "step": [1, 2, 3] * 2 + [2], "value": [1, 2, 3] * 2 + [1]},
         "^with 2 steps left, state 2 needs 0; the budget claims 1. Solve again"),
    ],
)  # fmt: skip
def test_each_way_in_which_rises_can_be_wrong(change, message):
    """Two states with damage in every step, and one without."""
    mdp = from_transitions([0, 1, 2], [0] * 3, [0, 1, 2], [1] * 3, [0] * 3, [1, 1, 0])
    minimal = minimal_budget(mdp, horizon=3)
    assert {name: array.tolist() for name, array in minimal.rises._asdict().items()} == PITS
    rises = type(minimal.rises)(**{name: np.array(array, np.int64) for name, array in (PITS | change).items()})
    with pytest.raises(CertificateError, match=message):
        asure.check_minimal_budget(mdp, replace(minimal, rises=rises))


def test_the_step_after_which_no_value_rises_is_checked():
    mdp = from_transitions([0, 1], [0, 0], [1, 2], [1, 1], [0, 0], [1, 2], terminal=[2])
    minimal = minimal_budget(mdp, horizon=9)
    assert (minimal.settled, minimal.rises.step.tolist(), minimal.rises.value.tolist()) == (2, [1, 2, 1], [1, 3, 2])
    for later in (2, 3, 9):
        asure.check_minimal_budget(mdp, replace(minimal, settled=later))
    for earlier in (0, 1):
        with pytest.raises(
            CertificateError, match=f"^no value may rise after {earlier} steps, as settled claims; one does"
        ):
            asure.check_minimal_budget(mdp, replace(minimal, settled=earlier))
    late = minimal.rises._replace(step=np.array([1, 5, 1], np.int32))
    with pytest.raises(CertificateError, match=r"^with 2 steps left, state 0 needs 3; the budget claims 1"):
        asure.check_minimal_budget(mdp, replace(minimal, rises=late))
    more = minimal.rises._replace(ptr=np.array([0, 3, 4, 4]), step=np.array([1, 2, 6, 1]), value=np.array([1, 3, 4, 2]))
    with pytest.raises(CertificateError, match=r"^with 6 steps left, state 0 needs 3; the budget claims 4"):
        asure.check_minimal_budget(mdp, replace(minimal, rises=more))


def test_a_claim_that_is_too_small_names_the_state():
    mdp = from_transitions(
        [0, 0, 1, 2], [0, 1, 0, 0], [1, 2, 1, 2], [1] * 4, [0] * 4, [0, 1, 0, 1],
        labels={"forbidden": [2]}, state_names=["edge", "ground", "pit"],
    )  # fmt: skip
    minimal = minimal_budget(mdp, horizon=2)
    check_never_too_small_within(minimal)
    nothing = minimal.rises._replace(ptr=np.zeros(4, np.int32), step=np.zeros(0, np.int32), value=np.zeros(0, np.int32))
    with pytest.raises(CertificateError, match=r"^state 2 'pit' is forbidden, and must need ∞$"):
        check_never_too_small_within(replace(minimal, rises=nothing))
    pit = from_transitions([0, 1], [0, 0], [0, 1], [1] * 2, [0] * 2, [0, 3], state_names=["ground", "pit"])
    minimal = minimal_budget(pit, horizon=2)
    late = minimal.rises._replace(value=np.array([3, 5], np.int32))
    words = r"^with 2 steps left, state 1 'pit' needs 6; the budget claims 5\. Solve again with minimal_budget"
    for check in (check_never_too_small_within, lambda claim: asure.check_minimal_budget(pit, claim)):
        with pytest.raises(CertificateError, match=words) as caught:
            check(replace(minimal, rises=late))
        assert caught.value.state == 1


def test_text_and_explanations():
    mdp = asure.example("quicksand")
    minimal = minimal_budget(mdp, horizon=20)
    assert repr(minimal).startswith("<HorizonBudget: the start needs a budget of 2 for 20 steps (86 states)")
    lines = minimal.explain(mdp.initial_state).splitlines()
    assert lines[0].endswith("nature can force 2 damage within 20 steps.")
    assert lines[-1].endswith("2 so far")


def test_explanations_name_every_step_and_states_where_no_budget_suffices():
    """Damage 2 once, then 1 in every step; no budget suffices in the pit, which is forbidden."""
    rows = [(0, 0, 1, 2), (1, 0, 1, 1), (1, 1, 2, 0), (2, 0, 2, 1)]
    s, a, t, d = zip(*rows, strict=True)
    names = ["cliff", "slope", "pit", "ground"]
    mdp = from_transitions(
        s, a, t, [1] * 4, [0] * 4, d, terminal=[3], labels={"forbidden": [2]}, state_names=names
    )  # fmt: skip
    minimal = minimal_budget(mdp, horizon=3)
    assert minimal.explain("cliff") == (
        "state 0 'cliff': nature can force 4 damage within 3 steps.\n"
        "  3 steps left, cliff: 0 → slope, damage 2; 2 so far\n"
        "  2 steps left, slope: 0 → slope, damage 1; 3 so far\n"
        "  1 step left, slope: 0 → slope, damage 1; 4 so far"
    )
    assert minimal.explain("ground") == "state 3 'ground': all damage can be avoided within 3 steps."
    assert minimal.explain("pit") == "state 2 'pit': no finite budget suffices within 3 steps."
    assert repr(minimal) == "<HorizonBudget: the start needs a budget of 4 for 3 steps (4 states)>"
    capped = minimal_budget(mdp, horizon=3000, cap=3)
    assert capped.explain("cliff") == "state 0 'cliff': no budget up to 3 suffices within 3,000 steps."
    assert capped.in_words() == (
        "no budget up to 3 suffices at the start for 3,000 steps (4 states); nothing rises after 4 steps"
    )


def test_bad_input():
    for steps in (-1, 1.5, "ten", True, float("nan")):
        with pytest.raises(ArgumentError, match=r"horizon must be (a whole number|at least 0); got"):
            minimal_budget("paper", horizon=steps)
    for option in ({"backend": "plain"}, {"check": "never"}):
        with pytest.raises(
            ArgumentError, match="backend and check are not for horizons; verify with check_minimal_budget"
        ):
            minimal_budget("paper", horizon=3, **option)
    with pytest.raises(ArgumentError, match=r"steps must be at most the horizon 3; got 4\. Solve with a larger one"):
        minimal_budget(from_transitions([0], [0], [0], [1], [0], [1]), horizon=3).at(4)
    with pytest.raises(ArgumentError, match=r"Shield\(minimal_budget\(mdp\)\); got HorizonBudget"):
        asure.Shield(minimal_budget("paper", horizon=3))


def test_large_problems_are_solved_by_compiled_code(monkeypatch):
    assert module.SMALL_WORK == 2_000_000
    pit = from_transitions([0], [0], [0], [1], [0], [1])
    monkeypatch.setattr(module, "iterate_compiled", lambda *_: pytest.fail("compiled"))
    for work, steps, compiled in ((3, 3, False), (2, 3, True)):
        monkeypatch.setattr(module, "SMALL_WORK", work)
        if compiled:
            with pytest.raises(pytest.fail.Exception, match="compiled"):
                minimal_budget(pit, horizon=steps)
        else:
            assert minimal_budget(pit, horizon=steps).of(0) == steps


def test_compiled_sweeps_are_those_of_the_plain_twin_and_stop_where_memory_ends(monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 7)
    ends = from_transitions([0, 0, 1], [0, 0, 0], [1, 0, 2], [0.5, 0.5, 1], [0, 0, 0], [1, 0, 3], terminal=[2])
    for mdp in (asure.example("quicksand"), ends):
        for steps in (1, 2, 3, 7, 8, 14, 50):
            ways = [
                way(mdp.support, module.first_values(mdp), steps, 1000)
                for way in (module.iterate_plain, module.iterate_compiled)
            ]
            plain, compiled = ({*zip(*(column.tolist() for column in way[:3]), strict=True)} for way in ways)
            assert plain == compiled
            assert ways[0][3] == ways[1][3]
    monkeypatch.setattr("almostsure.memory.available", lambda: 100_000)
    with pytest.raises(NotEnoughMemory, match=r"the next of 2,147,483,646 steps needs about.*Take a shorter horizon"):
        minimal_budget("quicksand", horizon=2**31 - 2)
    assert minimal_budget(ends, horizon=2**31 - 2).of(0) == 4
    for beyond in (2**31 - 1, 10**30):
        with pytest.raises(ArgumentError, match=r"horizon must be at most 2147483646; got \d+\. Without a horizon"):
            minimal_budget(ends, horizon=beyond)
