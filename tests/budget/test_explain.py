"""Explanations: their plays are possible in the model, and do the damage that they claim."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import almostsure as asure
from almostsure.errors import CertificateError, Infeasible, UnknownName
from almostsure.learn import Counts
from almostsure.testing import mdps

INFINITE = asure.INFINITE


def is_possible(mdp, step):
    outcomes = mdp.outcomes(step.state, step.action)
    return any(o.next_state == step.next_state and o.damage == step.damage for o in outcomes)


@given(mdps())
def test_a_play_consists_of_outcomes_of_the_model_and_does_the_damage(mdp):
    minimal = asure.minimal_budget(mdp)
    for state in range(mdp.num_states):
        why = minimal.explain(state)
        assert all(is_possible(mdp, step) for step in why.steps)
        assert all(a.next_state == b.state for a, b in zip(why.steps, why.steps[1:], strict=False))
        if minimal.of(state) < INFINITE:
            assert why.damage == minimal.of(state)
            assert not why.trap
        else:
            assert why.trap


@given(mdps())
def test_an_action_is_explained_by_what_it_needs(mdp):
    minimal = asure.minimal_budget(mdp)
    for state in range(mdp.num_states):
        for action in mdp.actions(state).tolist():
            why = minimal.explain(state, action)
            needs = minimal.of(state, action)
            assert bool(why.trap) if needs == INFINITE else why.damage == needs
            assert needs == 0 or why.steps[0].action == action


@given(mdps())
def test_the_agent_plays_its_best_and_the_trap_hurts(mdp):
    minimal = asure.minimal_budget(mdp)
    for state in range(mdp.num_states):
        why = minimal.explain(state)
        assert all(step.needs == minimal.of(step.state) for step in why.steps)
        assert all(k >= step.needs for step in why.steps for _, k in step.others)
        if why.trap:
            around = why.steps[-len(why.trap) :]
            assert around[-1].next_state == around[0].state
            assert sum(step.damage for step in around) > 0


@given(mdps())
def test_with_a_cap_more_than_the_cap_is_shown(mdp):
    minimal = asure.minimal_budget(mdp, cap=1)
    for state in range(mdp.num_states):
        why = minimal.explain(state)
        assert why.damage == minimal.of(state) if minimal.of(state) < INFINITE else why.damage > 1


def test_the_text_names_states_actions_and_damage():
    mdp = asure.from_transitions(
        [0, 0, 1], [0, 1, 0], [1, 2, 2], [1, 1, 1], [0, 0, 0], [1, 2, 1], terminal=[2],
        state_names=["dock", "ramp", "floor"], action_names=["roll", "drop"],
    )  # fmt: skip
    minimal = asure.minimal_budget(mdp)
    text = str(minimal.explain("dock"))
    assert text.startswith("dock needs 2: nature can force 2 damage")
    assert "dock: roll (needs 2; drop needs 2) → ramp, damage 1; 1 so far" in text
    assert "ramp: roll (needs 1) → floor, damage 1; 2 so far" in text
    assert str(minimal.explain("floor")) == "floor needs 0: the agent can avoid all damage from there."
    assert str(minimal.explain("dock", "drop")).startswith("drop at dock needs 2")


def test_a_trap_is_named():
    mdp = asure.from_transitions([0, 1], [0, 0], [1, 0], [1, 1], [0, 0], [1, 0], state_names=["a", "b"])
    text = str(asure.minimal_budget(mdp).explain("a"))
    assert "needs ∞" in text
    assert "This cycle repeats for ever, with damage each time: a → b → a." in text


def test_a_long_play_is_shortened_when_printed_and_cut_when_endless():
    n = 30_000
    mdp = asure.from_transitions(
        list(range(n)), [0] * n, list(range(1, n + 1)), [1] * n, [0] * n, [1] * n, terminal=[n]
    )
    why = asure.minimal_budget(mdp).explain(0)
    assert not why.complete
    assert len(str(why).splitlines()) < 40
    assert "cut after 20,000 steps" in str(why)


def falls(count):
    """Steps of damage 1 to the end."""
    nothing = [0] * count
    after = range(1, count + 1)
    return asure.from_transitions(range(count), nothing, after, [1] * count, nothing, [1] * count, terminal=[count])


@pytest.mark.parametrize(
    ("steps", "shown"), [(24, range(1, 25)), (25, range(1, 26)), (26, [*range(1, 13), 2, *range(15, 27)])]
)
def test_up_to_25_steps_are_printed_and_12_at_either_end_of_more(steps, shown):
    why = asure.minimal_budget(falls(steps)).explain(0)
    lines = [
        f"  {i}. {i - 1}: 0 (needs {steps + 1 - i}) → {i if i < steps else steps}, damage 1; {i} so far" for i in shown
    ]
    if len(lines) == 25 and steps > 25:
        lines[12] = "     … 2 steps …"
    assert str(why).splitlines()[1:] == lines
    assert repr(why) == (
        f"<Explanation: 0 needs {steps}: nature can force {steps} damage, whatever the agent does afterwards. "
        f"{steps} steps; print it>"
    )


@pytest.mark.parametrize(("longest", "complete"), [(3, True), (2, False)])
def test_a_play_of_the_longest_length_is_complete(monkeypatch, longest, complete):
    monkeypatch.setattr("almostsure.budget.explain.LONGEST", longest)
    why = asure.minimal_budget(falls(3)).explain(0)
    assert (why.complete, len(why.steps), why.damage) == (complete, longest, longest)
    assert ("cut after 2 steps and 2 damage." in str(why)) == (not complete)


@pytest.mark.parametrize(("others", "tail"), [(6, ""), (7, ", …")])
def test_up_to_six_other_actions_are_listed(others, tail):
    count = others + 1
    hurts = [1 if a == 3 else a + 2 for a in range(count)]
    mdp = asure.from_transitions([0] * count, range(count), [1] * count, [1] * count, [0] * count, hurts, terminal=[1])
    listed = ", ".join(f"{a} needs {a + 2}" for a in range(count) if a != 3 and a < 7)
    assert str(asure.minimal_budget(mdp).explain(0)).splitlines()[1] == (
        f"  1. 0: 3 (needs 1; {listed}{tail}) → end, damage 1; 1 so far".replace("end", mdp.state_name(1))
    )


def test_a_long_trap_names_twelve_states_and_the_first_again():
    mdp = asure.from_transitions(range(14), [0] * 14, [*range(1, 14), 0], [1] * 14, [0] * 14, [1] + [0] * 13)
    around = " → ".join(map(str, [*range(12), 0]))
    assert str(asure.minimal_budget(mdp).explain(0)).endswith(f"with damage each time: {around}.")


def test_needs_above_a_cap_are_reported_as_such():
    mdp = asure.from_transitions([0, 0], [0, 1], [1, 1], [1, 1], [0, 0], [3, 4], terminal=[1], action_names=["a", "b"])
    assert str(asure.minimal_budget(mdp, cap=2).explain(0)) == (
        "0 needs more than 2, the cap: nature can force more, whatever the agent does afterwards.\n"
        "  1. 0: a (needs more than 2; b needs more than 2) → 1, damage 3; 3 so far"
    )
    assert "needs 3; b needs more than 3" in str(asure.minimal_budget(mdp, cap=3).explain(0))


def test_unobserved_outcomes_are_called_unknown(tmp_path):
    """Also in a learned model that was loaded: nothing forces damage there, too little is known."""
    counts = Counts(
        asure.from_transitions([0, 0, 1], [0, 1, 0], [1] * 3, [1] * 3, [0] * 3, [0] * 3, state_names=["a", "b"])
    )
    counts.see(0, 1, 0)
    counts.to_mdp("refuse").save(tmp_path / "learned.umb")
    mdp = asure.load(tmp_path / "learned.umb")
    minimal = asure.minimal_budget(mdp)
    why = minimal.explain("a")
    assert str(why).splitlines()[0] == "what a needs is unknown: the learned model does not know enough from b on."
    assert "∞" not in str(why)
    assert (why.trap, why.complete, why.damage) == ((), True, 0)
    assert minimal.explain("unknown").headline.startswith("what unknown needs is unknown: ")
    assert asure.minimal_budget(mdp, cap=3).explain("a").is_unknown
    within = asure.minimal_budget(mdp, horizon=2)
    assert within.explain("a") == "state 0 'a': no finite budget is known to suffice within 2 steps."
    with pytest.raises(Infeasible, match=r"^no budget is known to be enough from state 0 'a'\.\nwhat a needs is"):
        asure.solve_policy(mdp, asure.AlmostSure(1))
    with pytest.raises(Infeasible, match=r"^a budget of 1 is not known to suffice for 2 steps"):
        asure.solve_policy(mdp, asure.AlmostSure(1), horizon=2)


@pytest.mark.parametrize("cap", [None, 2])
def test_what_is_unknown_is_not_called_infinite(cap):
    """Damage that is forced only if the agent avoids what is unknown is not forced; one that is forced anyway is."""
    rng, said = np.random.default_rng(5), Counter()
    for _ in range(60):
        world = asure.from_transitions(np.repeat(range(6), 2), [0, 1] * 6, [0] * 12, [1] * 12, [0] * 12, [0] * 12)
        counts = Counts(world)
        for choice in np.flatnonzero(rng.random(12) < 0.8).tolist():
            for _ in range(2):
                counts.see(choice, int(rng.integers(6)), int(rng.random() < 0.4))
        minimal = asure.minimal_budget(counts.to_mdp("refuse"), cap=cap)
        hope = asure.minimal_budget(counts.to_mdp("allow"), cap=cap).of_state
        for state in np.flatnonzero(minimal.of_state[:6] == asure.INFINITE).tolist():
            why = minimal.explain(state)
            assert why.is_unknown == (hope[state] < asure.INFINITE)
            assert why.complete
            if why.is_unknown:
                assert (why.steps[-1].next_state, why.trap) == (minimal.mdp.unknown, ())
                assert why.damage <= hope[state]
                assert "∞" not in str(why)
            else:
                assert minimal.mdp.unknown not in (step.next_state for step in why.steps)
                assert "unknown" not in str(why)
                assert why.trap or why.damage > cap
            said[why.is_unknown] += 1
        for state in np.flatnonzero(minimal.of_state < asure.INFINITE).tolist():
            assert "∞" not in str(minimal.explain(state))
    assert min(said.values()) > 10
    assert len(said) == 2


def test_unknown_states_and_actions_are_refused():
    minimal = asure.minimal_budget(asure.example("paper"))
    with pytest.raises(UnknownName, match=r"unknown state 'cirle'\. Did you mean 'circle'"):
        minimal.explain("cirle")
    with pytest.raises(UnknownName, match=r"unknown action 'lift'\. Did you mean 'left'"):
        minimal.explain("circle", "lift")


def test_a_budget_that_claims_too_much_cannot_be_explained():
    mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [0, 0], terminal=[1])
    minimal = asure.minimal_budget(mdp)
    claimed = replace(minimal, of_state=minimal.of_state + 1, of_choice=minimal.of_choice + 1)
    with pytest.raises(
        CertificateError, match=r"choice 0 .* cannot be explained: nothing forces 1 .*check_minimal_budget"
    ):
        claimed.explain(0)
