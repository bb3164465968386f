"""``trim`` and ``restrict`` keep exactly the safe states and choices."""

import numpy as np
import pytest

import almostsure as asure
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, CertificateError, Infeasible
from almostsure.model.build.examples import example
from almostsure.model.origin import Origin
from almostsure.policy.augment import augment
from almostsure.shield import Restricted, Shield, Trimmed, restrict, trim
from almostsure.testing.families import ladder


def test_trimming_keeps_exactly_the_safe_states_and_choices(make) -> None:
    trimmed = 0
    for seed in range(500):
        mdp = make(seed)
        minimal = asure.minimal_budget(mdp)
        for budget in (0, 1, 2, 5):
            if minimal.smallest_budget() > budget:
                continue
            small = trim(minimal, budget)
            np.testing.assert_array_equal(small.states, np.flatnonzero(minimal.of_state <= budget))
            np.testing.assert_array_equal(small.choices, np.flatnonzero(minimal.of_choice <= budget))
            # All kept states have the same needs and outcomes as before.
            again = asure.minimal_budget(small.mdp)
            np.testing.assert_array_equal(again.of_state, minimal.of_state[small.states])
            np.testing.assert_array_equal(again.of_choice, minimal.of_choice[small.choices])
            check_outcomes(mdp, small)
            trimmed += small.mdp.num_choices < mdp.num_choices
    assert trimmed > 100


def check_outcomes(mdp: asure.MDP, small: Trimmed) -> None:
    for state, original in enumerate(small.states.tolist()):
        for action in small.mdp.actions(state).tolist():
            found = [(int(small.states[o.next_state]), *o[1:]) for o in small.mdp.outcomes(state, action)]
            assert found == [tuple(o) for o in mdp.outcomes(original, action)]
    np.testing.assert_array_equal(small.states[small.mdp.initial_states], mdp.initial_states)
    np.testing.assert_array_equal(small.mdp.initial_probabilities, mdp.initial_probabilities)


def test_names_and_layout_are_kept() -> None:
    mdp = example("quicksand")
    minimal = asure.minimal_budget(mdp)
    small = Shield(minimal).trim(2)
    assert 0 < small.mdp.num_states < mdp.num_states
    assert small.mdp.state_names == tuple(mdp.state_names[s] for s in small.states.tolist())
    assert small.mdp.action_names == mdp.action_names
    assert small.mdp.layout.text == mdp.layout.text
    for state, original in enumerate(small.states.tolist()):
        assert small.mdp.layout.place(state) == mdp.layout.place(original)


def test_trimming_everything_safe_is_the_identity() -> None:
    mdp = ladder(4)
    small = trim(asure.minimal_budget(mdp), 10)
    assert small.mdp == mdp
    with pytest.raises(ValueError, match="read-only"):
        small.states[0] = 1


@pytest.mark.parametrize("function", [trim, restrict])
def test_an_unsafe_start_says_what_would_suffice(function) -> None:
    mdp = ladder(4)
    minimal = asure.minimal_budget(mdp)
    with pytest.raises(Infeasible, match=r"a budget of 3 is not enough at the start: state 4 needs 4\.") as caught:
        function(minimal, 3)
    assert caught.value.needed == 4
    with pytest.raises(Infeasible, match="needs more than the cap 2") as caught:
        function(asure.minimal_budget(mdp, cap=2), 2)
    assert caught.value.needed is None
    lost = asure.from_transitions([0], [0], [0], [1], [0], [1])
    with pytest.raises(Infeasible, match="no budget is enough at the start: state 0 needs ∞") as caught:
        function(asure.minimal_budget(lost), 10**6)
    assert caught.value.needed == float("inf")


@pytest.mark.parametrize("function", [trim, restrict])
def test_invalid_budgets(function) -> None:
    mdp = ladder(4)
    minimal = asure.minimal_budget(mdp)
    for budget in (-1, 0.5, float("nan"), True, "4", None):
        with pytest.raises(ArgumentError, match="budget must be"):
            function(minimal, budget)
    with pytest.raises(ArgumentError, match=r"budget must be at most the cap 4 .* got 5\. Solve again"):
        function(asure.minimal_budget(mdp, cap=4), 5)
    wrong = asure.MinimalBudget(
        mdp=mdp, of_state=np.zeros(6, np.int32), of_choice=np.zeros(mdp.num_choices, np.int32), rank=minimal.rank
    )
    with pytest.raises(CertificateError, match="too small"):
        function(wrong, 4)


def pairs(small: Restricted) -> list[tuple[int, int]]:
    return list(zip(small.states.tolist(), small.remaining.tolist(), strict=True))


def test_restricted_models_have_exactly_the_allowed_choices(make) -> None:
    seen = 0
    for seed in range(400):
        mdp = make(seed)
        shield = Shield(asure.minimal_budget(mdp))
        budget = seed % 5
        if shield.minimal.smallest_budget() > budget:
            continue
        small = shield.restrict(budget)
        index = {pair: i for i, pair in enumerate(pairs(small))}
        assert len(index) == small.mdp.num_states
        for (state, left), i in index.items():
            np.testing.assert_array_equal(small.mdp.actions(i), shield.allowed(state, left))
            for action in small.mdp.actions(i).tolist():
                expected = [(index[o.next_state, left - o.damage], *o[1:]) for o in mdp.outcomes(state, action)]
                assert sorted(tuple(o) for o in small.mdp.outcomes(i, action)) == sorted(expected)
        assert {index[int(s), budget] for s in mdp.initial_states} == set(small.mdp.initial_states.tolist())
        reached = set(small.mdp.initial_states.tolist()) | set(small.mdp.successor.tolist())
        assert reached == set(range(small.mdp.num_states))  # no unreachable pairs
        seen += 1
    assert seen > 100


def test_restricting_is_the_safe_part_of_the_augmented_model() -> None:
    """The damage of the augmented model is overspending, so the shield allows its choices with a need of 0."""
    mdp = example("quicksand")
    shield, budget = Shield(asure.minimal_budget(mdp)), 4
    small = shield.restrict(budget)
    large = augment(mdp, budget)
    safe = Shield(asure.minimal_budget(large))
    for i, (state, left) in enumerate(pairs(small)):
        np.testing.assert_array_equal(small.mdp.actions(i), safe.allowed(left * mdp.num_states + state, 0))


def test_restricted_models_never_take_more() -> None:
    mdp = ladder(6, width=2)
    small = Shield(asure.minimal_budget(mdp)).restrict(8)
    everything = asure.minimal_budget(small.mdp).of_state
    assert everything.max() < INFINITE
    assert small.mdp.state_names[small.mdp.initial_state] == "13 @8"
    assert small.mdp == Shield(asure.minimal_budget(small.mdp)).trim(8).mdp


def test_a_restricted_model_that_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    monkeypatch.setattr("almostsure.shield.inside.BYTES_PER_OUTCOME", 2**60)
    monkeypatch.setattr("almostsure.shield.inside.FREE", 100)
    with pytest.raises(MemoryError, match=r"the restricted model needs about .* Restrict to a smaller budget"):
        Shield(asure.minimal_budget(mdp)).restrict(10**6)


def test_short_reprs() -> None:
    mdp = example("quicksand")
    shield = Shield(asure.minimal_budget(mdp))
    small = shield.trim(3)
    assert repr(small).endswith(
        f", starts in {small.mdp.state_name(small.mdp.initial_state)}; states and choices have the original indices>"
    )
    assert repr(small).startswith("<Trimmed: mdp 64 states, 144 choices")
    assert repr(shield.restrict(3)).startswith("<Restricted: mdp 180 states")
    assert len(repr(shield.restrict(3))) < 200


def test_labels_rewards_and_variables_stay() -> None:
    origin = Origin(rewards={"time": np.array([1.0, 2.0, 3.0])}, variables={"x": np.array([5, 6])})
    mdp = asure.from_transitions(
        [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0], labels={"done": [1]}
    ).with_origin(origin)
    shield = Shield(asure.minimal_budget(mdp))
    for small, states in ((shield.trim(0), [0, 1]), (shield.restrict(1), [0, 0, 1, 1])):
        assert small.mdp.labels["done"].tolist() == [s == 1 for s in small.states.tolist()]
        assert small.mdp.origin.variables["x"].tolist() == [5 + s for s in small.states.tolist()]
        assert sorted(small.states.tolist()) == states
    assert shield.trim(0).mdp.origin.rewards["time"].tolist() == [2.0, 3.0]
    augmented = asure.paper.augment(mdp, 1)
    assert augmented.label("done").tolist() == [False, True, False, True, False]
    assert augmented.label("overspent").tolist() == [False] * 4 + [True]
