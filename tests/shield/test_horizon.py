"""``HorizonShield``: never overspends within the steps, and forbids no more than necessary."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import INFINITE, from_transitions, minimal_budget
from almostsure.errors import ArgumentError, CertificateError, ModelMismatch, NoSafeAction
from almostsure.shield import HorizonShield
from almostsure.shield.protocol import Guard
from almostsure.testing import mdps


@given(mdps(max_states=5, max_damage=2), st.integers(0, 6), st.integers(0, 4))
def test_allowed_actions_follow_from_the_horizon_budget(mdp, steps, remaining):
    minimal = minimal_budget(mdp, horizon=steps)
    shield = HorizonShield(minimal)
    assert isinstance(shield, Guard)
    for left in range(1, steps + 1):
        exact = minimal.at(left)
        for s in range(mdp.num_states):
            safe = [int(a) for a in mdp.actions(s) if exact.of(s, int(a)) <= remaining]
            if safe:
                assert shield.allowed(s, remaining, left).tolist() == safe
            else:
                with pytest.raises(NoSafeAction, match=rf"is safe for {left} steps? with {remaining} left: it n"):
                    shield.allowed(s, remaining, left)


@given(mdps(max_states=6, max_damage=2), st.integers(1, 12), st.randoms(use_true_random=False))
def test_random_play_never_overspends_within_the_steps(mdp, steps, random):
    shield = HorizonShield(minimal_budget(mdp, horizon=steps))
    start = int(mdp.initial_states[0])
    need = shield.minimal.of(start)
    run = shield.begin(start, need)
    for _ in range(steps):
        action = random.choice(shield.allowed(*run).tolist())
        outcome = random.choice(mdp.outcomes(run[0], action))
        run = shield.after(run, action, outcome.next_state, outcome.damage)
        assert run[1] >= 0
    with pytest.raises(ArgumentError, match="the horizon is over"):
        shield.after(run, 0, run[0])
    if need:
        with pytest.raises(NoSafeAction, match=f"it needs {need}"):
            shield.begin(start, need - 1)


def test_forbidden_states_are_refused_with_any_budget():
    rows = [(0, 0, 0, 1, 0, 0), (0, 1, 1, 1, 0, 0), (1, 0, 1, 1, 0, 1)]
    mdp = asure.from_transitions(*zip(*rows, strict=True), labels={"forbidden": [1]})
    shield = HorizonShield(minimal_budget(mdp, horizon=5))
    for remaining in (0, 1, asure.INFINITE - 1, asure.INFINITE, 2**40):
        assert shield.allowed(0, remaining, 5).tolist() == [0]
        with pytest.raises(NoSafeAction, match=r"of state 1 is safe .*no finite budget suffices"):
            shield.allowed(1, remaining, 5)


def test_a_remaining_budget_may_be_any_whole_number():
    shield = HorizonShield(minimal_budget("quicksand", horizon=4))
    state = shield.mdp.initial_state
    assert shield.allowed(state, 2**70, 4).tolist() == shield.allowed(state, 9, 4).tolist()


def test_many_runs_are_each_one_run():
    mdp = asure.example("quicksand")
    shield = HorizonShield(minimal_budget(mdp, horizon=30))
    rng = np.random.default_rng(0)
    runs = shield.begin(np.full(32, mdp.initial_state), 2)
    for _ in range(30):
        masks = shield.mask(*runs)
        action = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        choice = np.array([mdp.choice(int(s), int(a)) for s, a in zip(runs[0], action, strict=True)])
        outcome = rng.integers(mdp.outcome_ptr[choice], mdp.outcome_ptr[choice + 1])
        ahead = shield.after(
            runs, action, mdp.successor[outcome].astype(np.int64), mdp.damage[outcome].astype(np.int64)
        )
        for i in range(0, 32, 5):
            one = tuple(int(column[i]) for column in runs)
            assert shield.allowed(*one).tolist() == np.flatnonzero(masks[i]).tolist()
            last = int(outcome[i])
            after = shield.after(one, int(action[i]), int(mdp.successor[last]), int(mdp.damage[last]))
            assert after == tuple(int(column[i]) for column in ahead)
        runs = ahead
        assert (runs[1] >= 0).all()


def test_refusals():
    with pytest.raises(ArgumentError, match=r"as minimal_budget\(mdp, horizon=T\) returns; got MinimalBudget"):
        HorizonShield(minimal_budget("paper"))
    pit = from_transitions([0], [0], [0], [1], [0], [1])
    shield = HorizonShield(minimal_budget(pit, horizon=4, cap=2))
    assert shield.minimal.of(0) == INFINITE
    with pytest.raises(NoSafeAction, match="no budget up to 2 suffices"):
        shield.begin(0, 10)
    with pytest.raises(ArgumentError, match="steps_left must be at most the horizon 4; got 5"):
        shield.allowed(0, 1, 5)
    known = minimal_budget(pit, horizon=4)
    forged = replace(known, rises=known.rises._replace(value=known.rises.value // 2))
    for budget in (forged, forged.at(3)):
        with pytest.raises(CertificateError, match=r"the budget claims|rises must be ascending"):
            HorizonShield(budget)
    HorizonShield(replace(known))  # verified here
    calm = HorizonShield(minimal_budget("quicksand", horizon=4))
    run = calm.begin(calm.mdp.initial_state, 9)
    with pytest.raises(ModelMismatch, match="impossible"):
        calm.after(run, 0, int(np.flatnonzero(calm.mdp.is_terminal())[0]), 0)


def test_a_horizon_shield_in_words_and_at_its_limits():
    pit = from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [0, 1], state_names=["rim", "pit"])
    shield = HorizonShield(minimal_budget(pit, horizon=4))
    assert repr(shield) == "<HorizonShield: for 4 steps; the start needs a budget of 2 for 4 steps (2 states)>"
    assert shield.begin("rim", 2) == (0, 2, 4)
    with pytest.raises(
        NoSafeAction, match=r"^no action of state 0 'rim' is safe for 4 steps with 1 left: it needs 2\.$"
    ):
        shield.begin("rim", 1)
    assert [shield.allowed("pit", 2, steps).tolist() for steps in (1, 2, 3, 4)] == [[0]] * 4
    with pytest.raises(
        NoSafeAction, match=r"^no action of state 1 'pit' is safe for 3 steps with 1 left: it needs 2\.$"
    ):
        shield.allowed("pit", 1, 3)
    with pytest.raises(
        NoSafeAction, match=r"^no action of state 1 'pit' is safe for 1 step with -1 left: the budget is over"
    ):
        shield.allowed("pit", -1, 1)
    with pytest.raises(ArgumentError, match=r"^steps_left must be at most the horizon 4; got 5$"):
        shield.allowed("rim", 2, 5)
    with pytest.raises(
        NoSafeAction, match=r"^no step is left of the horizon 4 at state 1 'pit': the shield guarantees nothing beyond"
    ):
        shield.mask([0, 1], [2, 2], [1, 0])
    assert shield.within(4) is shield.within(5) is shield
    assert (shield.within(3).horizon, shield.within(0).horizon) == (3, 0)
    run = shield.begin("rim", 2)
    for state in (1, 0, 1, 0):
        run = shield.after(run, 0, state)
    assert run == (0, 0, 0)
    with pytest.raises(ArgumentError, match=r"^the horizon is over: the run must have steps left; it has none"):
        shield.after(run, 0, 1)
