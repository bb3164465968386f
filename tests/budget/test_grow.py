"""A growing budget equals a new solution, keeps its certificate, and only examines states that may change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import almostsure as asure
from almostsure.budget import grow
from almostsure.errors import Interrupted, ModelError, UnknownName
from almostsure.testing import mdps
from almostsure.testing.families import garnet


def columns(mdp):
    choice = mdp.outcome_choices()
    states = mdp.choice_states()[choice]
    return states, mdp.choice_action[choice], mdp.successor, mdp.damage


def with_outcomes(mdp, extra):
    parts = [np.append(old, [row[i] for row in extra]) for i, old in enumerate(columns(mdp))]
    states, actions, successors, damages = parts
    ones = np.ones(states.size)
    return asure.from_transitions(
        states, actions, successors, ones, 0 * ones, damages, num_states=mdp.num_states, normalise=True
    )


def outcome(mdp):
    choice = st.integers(0, mdp.num_choices - 1)
    return st.tuples(choice, st.integers(0, mdp.num_states - 1), st.integers(0, 3)).map(
        lambda x: (int(mdp.choice_states()[x[0]]), int(mdp.choice_action[x[0]]), x[1], x[2])
    )


@given(st.data(), st.sampled_from([0, grow.LOCAL]))
def test_growing_equals_solving_anew(data, local):
    mdp = data.draw(mdps())
    extra = data.draw(st.lists(outcome(mdp), min_size=1, max_size=6))
    growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grow, "LOCAL", local)  # 0: every rise is solved anew by the compiled engine
        for i, row in enumerate(extra):
            before = growing.of_state.copy()
            raised = growing.add(*row)
            larger = with_outcomes(mdp, extra[: i + 1])
            anew = asure.minimal_budget(larger)
            assert np.array_equal(growing.of_state, anew.of_state)
            assert np.array_equal(growing.of_choice, anew.of_choice)
            assert raised == tuple(np.flatnonzero(before != growing.of_state).tolist())
            asure.check_minimal_budget(larger, growing.snapshot(larger))


@pytest.mark.parametrize("local", [0, grow.LOCAL])
def test_the_seeded_families_agree_too(local, monkeypatch):
    monkeypatch.setattr(grow, "LOCAL", local)  # 0: every rise is solved anew by the compiled engine
    rng, solves = np.random.default_rng(0), 0
    for seed in range(40):
        mdp = garnet(60, 3, 2, seed=seed, damage_rate=0.05, max_damage=3)
        growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
        extra = []
        for _ in range(30):
            choice = int(rng.integers(mdp.num_choices))
            state, action = int(mdp.choice_states()[choice]), int(mdp.choice_action[choice])
            extra.append((state, action, int(rng.integers(mdp.num_states)), int(rng.random() < 0.5)))
            before = growing.of_state.copy()
            raised = growing.add(*extra[-1])
            assert raised == tuple(np.flatnonzero(before != growing.of_state).tolist())
        solves += growing.solves
        larger = with_outcomes(mdp, extra)
        assert np.array_equal(growing.of_choice, asure.minimal_budget(larger).of_choice)
        asure.check_minimal_budget(larger, growing.snapshot(larger))
    assert (solves > 0) == (local == 0)


def test_from_nothing_known():
    # every choice a self-loop without damage: no damage is known
    mdp = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0])
    growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    assert growing.add(0, 0, 1, 2) == ()  # the other action still does no damage
    assert growing.add(0, 1, 1, 1) == (0,)
    assert growing.of_state.tolist() == [1, 0]
    assert growing.add(1, 0, 1, 1) == (0, 1)
    assert growing.of_state.tolist() == [asure.INFINITE, asure.INFINITE]


def test_a_known_outcome_changes_nothing():
    mdp = asure.example("paper")
    growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    assert growing.add("circle", "left", "circle", 1) == ()
    assert growing.add("circle", "left", "circle", 1) == ()
    assert growing.solves == 0


def stop(*_args, **_options):
    raise KeyboardInterrupt("stop")


@pytest.mark.parametrize("where", ["_Local._queue_predecessors", "_Local._has_support", "GrowingBudget._predecessors"])
@pytest.mark.parametrize("again", ["the same outcome", "another outcome", "a snapshot"])
def test_an_interrupted_rise_is_completed_by_the_next_call(where, again, monkeypatch):
    """Otherwise the outcome would count as known, but not in the budgets."""
    mdp = asure.from_transitions([0, 1, 2], [0, 0, 0], [1, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0])
    growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    with monkeypatch.context() as patch:
        patch.setattr(f"almostsure.budget.grow.{where}", stop)
        with pytest.raises(KeyboardInterrupt, match="stop"):
            growing.add(2, 0, 2, 1)
    if again == "the same outcome":
        growing.add(2, 0, 2, 1)
    elif again == "another outcome":
        growing.add(0, 0, 0, 0)
    snapshot = growing.snapshot()
    assert snapshot.of_choice.tolist() == snapshot.of_state.tolist() == [asure.INFINITE] * 3
    assert growing.of_state.tolist() == [asure.INFINITE] * 3
    assert growing.add(2, 0, 2, 1) == ()


def test_interrupted_while_solving_anew(monkeypatch):
    mdp = asure.from_transitions([0, 1, 2], [0, 0, 0], [1, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0])
    growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    monkeypatch.setattr(grow, "LOCAL", 0)
    with monkeypatch.context() as patch:
        patch.setattr("almostsure.budget.compiled.level_zero.sweep", stop)
        with pytest.raises(Interrupted, match=r"the next add\(\) or snapshot\(\) completes"):
            growing.add(2, 0, 2, 1)
    assert growing.add(2, 0, 2, 1) == (0, 1, 2)
    assert growing.of_state.tolist() == [asure.INFINITE] * 3


@pytest.mark.parametrize("damage", [-1, 256, 0.5, float("nan"), float("inf"), None, "1"])
def test_bad_damage_is_refused(damage):
    growing = asure.budget.GrowingBudget(asure.minimal_budget(asure.example("paper")))
    with pytest.raises(ModelError, match="damage must be an integer 0 … 255; got"):
        growing.add(0, 0, 0, damage)


def test_unknown_places_and_capped_budgets_are_refused():
    mdp = asure.example("paper")
    growing = asure.budget.GrowingBudget(asure.minimal_budget(mdp))
    with pytest.raises(UnknownName, match="unknown state 7"):
        growing.add(0, 0, 7, 0)
    with pytest.raises(ModelError, match="only a budget without a cap can grow"):
        asure.budget.GrowingBudget(asure.minimal_budget(mdp, cap=1))
