"""Reading policies: when functions get the remaining budget, and the text of messages."""

import numpy as np
import pytest

from almostsure.errors import AlmostSureError, ArgumentError, PolicyError
from almostsure.policy.policy import Policy, as_policy
from almostsure.policy.read import other_budget, takes_remaining, undefined


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda state: 0, False),
        (lambda state, left: 0, True),
        (lambda state, remaining=None: 0, True),
        (lambda state, left=3: 0, True),
        (lambda state, left=True: 0, False),
        (lambda state, table=(): 0, False),
        (lambda *given: 0, True),
        (lambda state, *more: 0, True),
        (lambda state, *, rng=None: 0, False),
        (lambda state, **more: 0, False),
        (dict.fromkeys, False),
    ],
)
def test_which_functions_get_the_remaining_budget(function, told):
    assert takes_remaining(function, 3) == told


def test_without_a_budget_no_function_gets_it():
    for function in (lambda state: 0, lambda state, remaining=2: 0, lambda *given: 0):
        assert not takes_remaining(function, None)
    with pytest.raises(ArgumentError, match=r"^this policy depends on the remaining budget: pass budget=$"):
        takes_remaining(lambda state, left: 0, None)


def refused(mdp, policy, message, **options):
    with pytest.raises(AlmostSureError, match=message) as caught:
        Policy.from_table(mdp, policy, **options)
    return caught.value


def test_messages_say_where_and_how_many(mdp):
    lacks = "^a policy must play only actions that the state has; got"
    error = refused(mdp, [2, 0, 0], rf"{lacks} dash at state 0 'home' \(and 1 more state\), which has: out, back\.$")
    assert (error.state, error.action) == (0, 2)
    refused(mdp, [1, 3, 0], rf"{lacks} 3 at state 1 'field', which has: back, dash\.$")
    refused(mdp, [1, -2, 0], rf"{lacks} -2 at state 1 'field', which has: back, dash\.$")
    refused(mdp, {"field": "out"}, rf"{lacks} out at state 1 'field', which has: back, dash\.$")
    half = np.full((3, 3), 0.5)
    refused(mdp, half, rf"{lacks} dash at state 0 'home' \(and 1 more state\), which has: out, back\.$")
    half[0, 2] = half[1, 0] = 0
    half[0, 1] = half[1, 1] = 0.25
    sums = r"^a policy's probabilities at state 0 'home' must sum to 1 within 1e-09; got 0\.75 \(and 1 more state\)\.$"
    refused(mdp, half, sums)
    half[1] = 0, 2, -1
    error = refused(mdp, half, r"must lie in 0 … 1; got 2 at choice 2 \(state 1 'field', action 'back'\) \(and 1 more")
    assert error.choice == 2


def test_distributions_must_fit_the_actions(mdp):
    assert as_policy(mdp, lambda state: [0.0, 1.0, 0]) == as_policy(mdp, lambda state: "back")
    assert as_policy(mdp, lambda state: {"back": 1 + 9e-10}).probabilities("home")[1] == 1 + 9e-10
    for decision, message in (
        ([0.5, 0.5], "^a distribution must have one probability for each of the 3 actions; got 2 at state 0 'home'$"),
        ({"back": 1 + 2e-9}, r"must be 0 or more and sum to 1; got \[1\.000000002\]$"),
        ({"back": 1.5, "out": -0.5}, r"at state 0 'home' must be 0 or more and sum to 1; got \[1\.5, -0\.5\]$"),
        ({"back": "much"}, r"must be 0 or more and sum to 1; got \['much'\]$"),
        (True, "must be an action or a distribution; got True at state 0 'home'$"),
    ):
        with pytest.raises(PolicyError, match=message):
            as_policy(mdp, lambda state, decision=decision: decision)


def test_tables_of_other_shapes(mdp):
    flat = r"^a policy's table must have shape \[3\] or \[budgets, 3\] \(one action per state\); got"
    for table, shape in (
        (np.zeros((1, 1, 3), int), r"\[1, 1, 3\]"),
        (np.zeros((0, 3), int), r"\[0, 3\]"),
        ([0], r"\[1\]"),
    ):
        refused(mdp, table, f"{flat} {shape}$")
    matrix = (
        r"^a policy's table must have shape \[3, 3\] or \[budgets, 3, 3\] \(one probability per action\); got \[3\]$"
    )
    refused(mdp, [0.5, 0.5, 0.5], matrix)
    refused(mdp, [[0], [0, 1]], "^a policy's table must be an array; ")
    refused(
        mdp, [0, 1, 0], "^with budget=0 a table must have a row for each of 0 … 0; got one action per state$", budget=0
    )
    refused(mdp, [[0, 1, 0]], "^with budget=1 a table must have a row for each of 0 … 1; got 1 row$", budget=1)
    assert Policy.from_table(mdp, [[0, 1, 0]], budget=0).budget == 0
    assert Policy.from_table(mdp, {("home", 1): "back"}, budget=1).budget == 1
    for beyond in (2, 700):
        refused(mdp, {("home", beyond): "back"}, f"^remaining must lie in 0 … 1; got {beyond}$", budget=1)
    refused(
        mdp, {"home": "back"}, r"^with a budget, a mapping's keys must be \(state, remaining\); got 'home'$", budget=1
    )


def test_the_error_of_an_undefined_policy_says_where_and_what_to_do(mdp):
    assert str(undefined(mdp, 1, None)) == "the policy reaches state 1 'field', where it is undefined"
    assert str(undefined(mdp, 1, 0)) == "the policy reaches state 1 'field' with 0 left, where it is undefined"
    assert (
        str(undefined(mdp, 1, -1, "!")) == "the policy reaches state 1 'field' once overspent, where it is undefined!"
    )
    assert other_budget(2, 2) == other_budget(None, 2) == other_budget(2, None) == ""
    assert other_budget(2, 3) == (
        ". It was made for a budget of 2: leave out the budget, or solve with everywhere=True"
    )


def test_the_error_of_a_failing_function_has_its_arguments(mdp):
    called = r"^the policy failed at state 0 'home', where it is called with the state's number, 0; the name is "
    with pytest.raises(AlmostSureError, match=called + r"mdp\.state_name\(0\): ZeroDivisionError"):
        as_policy(mdp, lambda state: 1 // state)
