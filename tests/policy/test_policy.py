"""``Policy``: from tables, mappings and functions; invalid input; rest; text."""

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almostsure import AlmostSure, Shield, evaluate, example, from_transitions, minimal_budget, simulate, solve_policy
from almostsure.errors import (
    ArgumentError,
    Infeasible,
    ModelMismatch,
    NoSafeAction,
    NotEnoughMemory,
    PolicyError,
)
from almostsure.learn import learn_from_logs
from almostsure.policy.policy import Policy, as_policy
from almostsure.policy.rows import Rest
from almostsure.testing import mdps


def test_one_action_per_state(mdp):
    policy = Policy.from_table(mdp, [0, 2, 0])
    assert policy.is_stationary
    assert policy.is_deterministic
    assert [policy.act(s) for s in ("home", "field", "end")] == [0, 2, 0]


def test_names_in_a_table(mdp):
    assert Policy.from_table(mdp, ["out", "dash", "out"]) == Policy.from_table(mdp, [0, 2, 0])


def test_one_row_for_each_remaining_budget(mdp):
    policy = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0], [0, 2, 0]])
    assert policy.budget == 2
    assert [policy.act("field", k) for k in range(5)] == [1, 1, 2, 2, 2]  # larger budgets use the top layer


def test_one_block_of_rows_for_some_numbers_of_steps_left(mdp):
    one, two = Policy.from_table(mdp, [[1, 1, 0], [0, 2, 0]]), Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0]])
    choice = np.concatenate([one.choice, two.choice])
    policy = Policy(mdp, choice=choice, budget=1, block=[1, 0, 1])
    assert [policy.act("field", 1, steps_left=t) for t in (1, 2, 3)] == [1, 2, 1]
    assert [policy.act("home", 0, steps_left=t) for t in (1, 2, 3)] == [1, 1, 1]
    with pytest.raises(ArgumentError, match="horizon of 3 steps: pass steps_left="):
        policy.act("field", 1)
    for wrong in (0, 4):
        with pytest.raises(ArgumentError, match=f"steps_left must lie in 1 … 3, the policy's horizon; got {wrong}"):
            policy.act("field", 1, steps_left=wrong)


def test_a_mapping_may_be_partial_and_random(mdp):
    policy = Policy.from_table(mdp, {"home": {"out": 0.25, "back": 0.75}, "field": "back"})
    assert policy.probabilities("home").tolist() == [0.25, 0.75, 0]
    assert not policy.is_deterministic
    half = Policy.from_table(mdp, {"home": {"out": 0.25, "back": 0.75}})
    with pytest.raises(NoSafeAction, match="the policy is undefined at state 1 'field'"):
        half.act("field")


@pytest.mark.parametrize(
    "policy",
    [
        [0, 1, 1],
        [0, 1, -7],
        ["out", "back", "dash"],
        np.array([[1.0, 0, 0], [0, 1, 0], [0.3, 0.3, 0.3]]),
        np.array([[1.0, 0, 0], [0, 1, 0], [np.nan, 0, 0]]),
        {"home": "out", "field": "back", "end": "dash"},
        {"home": "out", "field": {"back": 1.0}, "end": {"dash": 0.5}},
        {"home": "out", "field": "back"},
        lambda state: ["out", "back"][state],
    ],
)
def test_entries_of_terminal_states_are_ignored(mdp, policy):
    assert as_policy(mdp, policy) == Policy.from_table(mdp, [0, 1, 0])
    assert as_policy(mdp, policy).act("end") == 0


@given(mdps())
def test_uniform_play_and_a_single_action_are_policies_unless_a_state_that_is_not_terminal_lacks_an_action(mdp):
    living = [s for s in range(mdp.num_states) if not mdp.is_terminal()[s]]
    if all(len(mdp.actions(s)) == mdp.num_actions for s in living):
        uniform = Policy.from_table(mdp, np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions))
        assert all((uniform.probabilities(s) > 0).all() for s in living)
    if all(0 in mdp.actions(s) for s in living):
        assert all(Policy.from_function(mdp, lambda state: 0).act(s) == 0 for s in living)
    else:
        with pytest.raises(PolicyError, match="only actions that the state has"):
            Policy.from_function(mdp, lambda state: 0)


def test_nothing_is_chosen_in_the_state_unknown_of_a_learned_model():
    log = {"s": [0, 0, 1, 1] * 40, "a": [0, 1] * 80, "s'": [1, 1, 0, 0] * 40, "d": [0] * 160, "episode": range(160)}
    learned = learn_from_logs(log, mu=0.2, delta=0.05, num_states=3, actions=2)
    unknown = learned.mdp.unknown
    assert unknown is not None
    always = [1] * learned.mdp.num_states
    stationary = Policy.from_table(learned.mdp, always)
    assert Policy.from_function(learned.mdp, lambda state: always[:unknown][state]) == stationary
    assert stationary.act(unknown) == 0
    assert [stationary.act(state) for state in (0, 1)] == [1, 1]
    assert Policy.from_table(learned.mdp, [*always[:unknown], -1]) != stationary  # undefined there
    uniform = Policy.from_table(learned.mdp, np.full((learned.mdp.num_states, 2), 0.5))
    assert uniform.probabilities(0).tolist() == [0.5, 0.5]
    assert simulate(learned.mdp, lambda state: 1, 10, max_steps=5, seed=0).damages.max() == 0
    assert learned.shield.is_feasible(stationary, budget=0)


def test_a_function_that_raises_no_safe_action_is_undefined_there(mdp):
    shield = Shield(minimal_budget(mdp))
    policy = as_policy(mdp, lambda state, remaining: shield.allowed(state, remaining)[-1], budget=3)
    assert policy.act("home", 0) == 1
    assert evaluate(mdp, policy).overspends == 0

    def careful(state, remaining):
        raise NoSafeAction("not here", state=state)

    with pytest.raises(NoSafeAction, match="state 0 'home' with 3 left, where it is undefined"):
        evaluate(mdp, careful, budget=3)


@given(mdps(), st.integers(0, 6))
def test_the_random_shielded_policy_never_overspends(mdp, budget):
    shield = Shield(minimal_budget(mdp))
    needed = shield.minimal.smallest_budget()
    if needed > budget:
        with pytest.raises(Infeasible, match=r"enough at the start"):
            shield.random_policy(budget)
        return
    policy = shield.random_policy(budget)
    assert evaluate(mdp, policy).overspends == 0
    assert shield.is_feasible(policy)
    for state in range(mdp.num_states):
        for remaining in range(budget + 1):
            if shield.minimal.of_state[state] <= remaining:
                shares = policy.probabilities(state, remaining)
                assert np.flatnonzero(shares).tolist() == shield.allowed(state, remaining).tolist()
                assert np.ptp(shares[shares > 0]) == 0


def test_no_shielded_policy_beyond_the_cap(mdp):
    with pytest.raises(ArgumentError, match="budget must be at most the cap 1"):
        Shield(minimal_budget(mdp, cap=1)).random_policy(2)


def test_a_solution_stands_for_its_policy(mdp):
    solution = solve_policy(mdp, AlmostSure(2))
    assert as_policy(mdp, solution) is solution.policy
    assert evaluate(mdp, solution).expected_return == solution.value
    assert simulate(mdp, solution, 3, seed=1).returns.max() <= solution.upper


def test_models_by_name(tmp_path):
    policy = Policy.from_function("paper", lambda state: "right")
    assert policy == Policy.from_table("paper", ["right", "right"])
    policy.save(tmp_path / "right.policy")
    for loader in (Policy, policy):
        assert loader.load(tmp_path / "right.policy", "paper") == policy


def test_a_mapping_for_a_budget_that_no_memory_suffices_for(mdp, monkeypatch):
    monkeypatch.setattr("almostsure.memory.available", lambda: 10**6)
    for decision in (0, {0: 0.5, 1: 0.5}):
        assert Policy.from_table(mdp, {(0, 999): decision}).budget == 999
        with pytest.raises(NotEnoughMemory, match=r"a policy for budgets up to 999,999 needs about .*\. Use a smaller"):
            Policy.from_table(mdp, {(0, 999_999): decision})


def test_a_mapping_on_state_and_remaining(mdp):
    policy = Policy.from_table(mdp, {("home", 0): "back", ("home", 3): "out"})
    assert policy.budget == 3
    assert policy.act("home", 3) == 0
    with pytest.raises(NoSafeAction, match="is undefined at state 0 'home' with 2 left"):
        policy.act("home", 2)


def test_a_matrix_of_probabilities(mdp):
    matrix = np.array([[0.5, 0.5, 0], [0, 0.1, 0.9], [1, 0, 0]])
    policy = Policy.from_table(mdp, matrix)
    assert np.array_equal([policy.probabilities(s) for s in range(3)], matrix)
    layered = Policy.from_table(mdp, np.stack([matrix, matrix]))
    assert layered.budget == 1


def test_probabilities_of_zero_and_one_make_a_deterministic_policy(mdp):
    assert Policy.from_table(mdp, np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]])).is_deterministic


def test_functions(mdp):
    of_state = Policy.from_function(mdp, lambda s: "back" if s != 2 else "out")
    assert of_state.act("field") == 1
    both = Policy.from_function(mdp, lambda s, k: (2 if k > 1 else 1) if s == 1 else None, budget=2)
    assert [both.act(1, k) for k in range(3)] == [1, 1, 2]


def test_a_layer_for_an_overspent_budget(mdp):
    policy = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0]], overspent=["out", "dash", "out"])
    assert policy.knows_overspent
    assert policy.act("field", -3) == 2
    assured = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0]])
    with pytest.raises(NoSafeAction, match="overspent by 3, for which this policy is undefined"):
        assured.act("field", -3)


def test_policies_that_depend_on_the_budget_require_it(mdp):
    policy = Policy.from_table(mdp, [[1, 1, 0]])
    with pytest.raises(ArgumentError, match="depends on the remaining budget: pass remaining="):
        policy.act("home")
    for wrong in ("1", [1], 0.5, True):
        with pytest.raises(ArgumentError, match=rf"^remaining must be a whole number; got {re.escape(repr(wrong))}$"):
            policy.act("home", wrong)
    assert policy.act("home", np.int64(0)) == policy.act("home", 0.0) == policy.act("home", 0)
    with pytest.raises(ArgumentError, match="depends on the remaining budget: pass budget="):
        as_policy(mdp, lambda s, k: 0)


def test_randomness_is_an_argument(mdp):
    policy = Policy.from_table(mdp, {0: {0: 0.5, 1: 0.5}})
    with pytest.raises(ArgumentError, match="is randomised: pass rng="):
        policy.act(0)
    rng = np.random.default_rng(0)
    share = np.mean([policy.act(0, rng=rng) for _ in range(2000)])
    assert abs(share - 0.5) < 0.06


# ---------------------------------------------------------------------- invalid input


def test_a_word_is_not_a_policy():
    with pytest.raises(PolicyError, match="a policy must be a Policy, a function, a mapping or an array; got 'best'"):
        evaluate(example("paper"), "best")


def test_an_action_that_the_state_lacks(mdp):
    with pytest.raises(PolicyError, match=r"got out at state 1 'field', which has: back, dash") as caught:
        Policy.from_table(mdp, [0, 0, 0])
    assert caught.value.state == 1
    with pytest.raises(PolicyError, match="got dash at state 0 'home'"):
        Policy.from_table(mdp, np.array([[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]]))
    with pytest.raises(PolicyError, match="got out at state 1 'field'"):
        Policy.from_function(mdp, lambda s: {"out": 1.0})


def test_nan_is_named_and_states_are_counted(mdp):
    with pytest.raises(PolicyError, match=r"must lie in 0 … 1; got nan at state 0 'home' \(and 1 more state\)\."):
        Policy.from_table(mdp, np.full((3, 3), np.nan))
    with pytest.raises(PolicyError, match=r"got dash at state 0 'home', which has"):
        Policy.from_table(mdp, np.array([[[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]]] * 2))  # one state, twice


def test_an_action_that_no_state_has(mdp):
    with pytest.raises(PolicyError, match="got 7 at state 0"):
        Policy.from_table(mdp, [7, 1, 0])
    with pytest.raises(PolicyError, match=r"unknown action 'bak'\. Did you mean 'back'"):
        Policy.from_table(mdp, {"home": "bak"})
    with pytest.raises(PolicyError, match=r"must be an action or a distribution; got <object .* at state 0 'home'"):
        Policy.from_function(mdp, lambda s: object())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.4, 0], r"at state 0 'home' must sum to 1 within 1e-09; got 0\.9"),
        ([1.5, -0.5, 0], r"must lie in 0 … 1; got 1\.5 at choice 0"),
        ([float("nan"), 1, 0], "must lie in 0 … 1; got nan"),
    ],
)
def test_probabilities_that_are_not_a_distribution(mdp, row, message):
    with pytest.raises(PolicyError, match=message):
        Policy.from_table(mdp, np.array([row, [0, 1, 0], [1, 0, 0]]))


def test_a_distribution_without_mass(mdp):
    with pytest.raises(PolicyError, match=r"must be 0 or more and sum to 1; got \[0.0\]"):
        Policy.from_table(mdp, {"home": {"out": 0.0}})


def test_shapes(mdp):
    with pytest.raises(PolicyError, match=r"must have shape \[3\] or \[budgets, 3\]"):
        Policy.from_table(mdp, [0, 1])
    with pytest.raises(PolicyError, match=r"must have shape \[3, 3\] or \[budgets, 3, 3\]"):
        Policy.from_table(mdp, np.ones((3, 2)))
    with pytest.raises(PolicyError, match=r"with budget=4 a table must have a row for each of 0 … 4; got 2 rows"):
        Policy.from_table(mdp, [[1, 1, 0], [1, 1, 0]], budget=4)
    with pytest.raises(PolicyError, match=r"must hold actions .* or probabilities"):
        Policy.from_table(mdp, np.array([1j, 1j, 0]))
    with pytest.raises(PolicyError, match=r"keys must be \(state, remaining\); got 0"):
        Policy.from_table(mdp, {0: 1}, budget=2)
    with pytest.raises(PolicyError, match="choice at state 0 'home' must lie in 0 … 1"):
        Policy(mdp, choice=np.array([[3, 2, 4]]))


def test_another_models_policy(mdp, paper):
    policy = Policy.from_table(paper(), [0, 0])
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        as_policy(mdp, policy)


def test_policies_are_immutable(mdp):
    policy = Policy.from_table(mdp, [0, 1, 0])
    with pytest.raises(AttributeError, match="a policy is immutable"):
        policy.budget = 3
    with pytest.raises(ValueError, match="read-only"):
        policy.choice[0, 0] = 1


# ---------------------------------------------------------------------- rest


def test_a_policy_that_rests_plays_by_start(coin):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([0, -1]))
    policy = Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)
    with pytest.raises(PolicyError, match=r"may come to rest, which needs memory. Play it with start\(\)"):
        policy.act(0)
    rng = np.random.default_rng(1)
    first = [policy.start(rng=rng) for _ in range(400)]
    waits = [play for play in first if play.act(0) == 0]
    assert 150 < len(waits) < 250
    assert all(play.act(0) == 0 for play in waits for _ in range(20))  # in all later steps


def test_a_rest_must_be_harmless(coin):
    rest = Rest(probability=np.array([[0.5, 0.0]]), choice=np.array([1, 2]))
    with pytest.raises(PolicyError, match="a policy that has come to rest must never take damage"):
        Policy(coin, choice=np.array([[1, 2]], np.int32), rest=rest)


def test_a_play_keeps_the_budget(mdp):
    play = Policy.from_table(mdp, [[1, 1, 0], [0, 1, 0], [0, 2, 0]]).start()
    assert play.act("home") == 0
    play.observe(1)
    assert play.act("field") == 1
    assert play.remaining == 1


def test_invalid_tables_of_choices(mdp):
    with pytest.raises(PolicyError, match="choice must hold integers; got float64"):
        Policy(mdp, choice=np.zeros((1, 3)))
    with pytest.raises(PolicyError, match=r"choice must have shape \[1, 3\]; got \[2, 3\]"):
        Policy(mdp, choice=np.zeros((2, 3), np.int32))
    with pytest.raises(PolicyError, match=r"a policy's choice at state 1 'field' must lie in 2 … 3, .*; got 0"):
        Policy(mdp, choice=np.zeros((1, 3), np.int32))


@pytest.mark.parametrize("block", [[], [-1, 0], [0.5], [[0, 1]], [2**31]])
def test_invalid_blocks(mdp, block):
    with pytest.raises(PolicyError, match="block must hold a whole number, 0 or more, for each number of steps left"):
        Policy(mdp, choice=np.full((1, 3), -1, np.int32), budget=0, block=block)


def test_invalid_rests(coin):
    choice, table = np.array([0, -1]), np.array([[0, 2]], np.int32)
    for rest, message in (
        (Rest(probability=np.zeros((2, 2)), choice=choice), "rest must have one probability per layer and state"),
        (
            Rest(probability=np.zeros((1, 2)), choice=np.array([0])),
            "rest must have one probability per layer and state",
        ),
        (
            Rest(probability=np.array([[1.5, 0]]), choice=choice),
            "the probabilities of coming to rest must lie in 0 … 1",
        ),
        (
            Rest(probability=np.array([[-0.5, 0]]), choice=choice),
            "the probabilities of coming to rest must lie in 0 … 1",
        ),
        (
            Rest(probability=np.array([[0, 0.5]]), choice=choice),
            "a state in which the policy comes to rest must have a choice to rest",
        ),
    ):
        with pytest.raises(PolicyError, match=message):
            Policy(coin, choice=table, rest=rest)


def test_layers_for_an_overspent_budget_that_cannot_be_added(mdp):
    with pytest.raises(PolicyError, match="cannot be added to this policy: it is stationary"):
        Policy.from_table(mdp, [1, 1, 1]).with_overspent([1, 1, 1])
    with pytest.raises(PolicyError, match="policy for an overspent budget must be stationary"):
        Policy.from_table(mdp, [[1, 1, 1]]).with_overspent(Policy.from_table(mdp, [[1, 1, 1]]))


def test_keys_and_decisions_of_mappings(mdp):
    with pytest.raises(PolicyError, match=r"remaining must lie in 0 … 1; got 2"):
        Policy.from_table(mdp, {("home", 2): "back"}, budget=1)
    assert as_policy(mdp, {"home": np.array(1)}) == as_policy(mdp, {"home": "back"})
    assert as_policy(mdp, {"home": "back"}) != "back"
    assert as_policy(mdp, lambda state, table=None: 1) == as_policy(mdp, [1, 1, 1])


def test_a_play_counts_the_steps(mdp):
    one, two = Policy.from_table(mdp, [[1, 1, 0]]), Policy.from_table(mdp, [[0, 1, 0]])
    play = Policy(mdp, choice=np.concatenate([one.choice, two.choice]), budget=0, block=[0, 1]).start()
    first = play.act("home")
    play.observe(0)
    assert (first, play.act("home"), play.steps_left) == (0, 1, 1)


# ---------------------------------------------------------------------- properties


def test_the_kind_of_a_policy(mdp, coin):
    rows = [[1, 1, 0], [0, 1, 0]]
    one = from_transitions([0], [0], [0], [1], [0], [0])
    table = Policy.from_table(mdp, rows)
    both = np.concatenate([table.choice, table.choice])
    timed = Policy(mdp, choice=both, budget=1, block=[0, 1, 1])
    spent = Policy.from_table(mdp, rows, overspent=["out", "dash", "out"])
    rest = Rest(probability=np.array([[1.0, 0.0]]), choice=np.array([0, -1]))
    for policy, words, layers, per_block, horizon, overspent in (
        (Policy.from_table(one, [0]), "deterministic, on states, of 1 state", 1, 1, None, True),
        (Policy.from_table(mdp, [0, 1, 0]), "deterministic, on states, of 3 states", 1, 1, None, True),
        (Policy.from_table(mdp, {"home": {0: 0.5, 1: 0.5}}), "randomised, on states, of 3 states", 1, 1, None, True),
        (table, "deterministic, on (state, remaining 0 … 1), of 3 states", 2, 2, None, False),
        (spent, "deterministic, on (state, remaining 0 … 1) and once overspent, of 3 states", 3, 3, None, True),
        (timed, "deterministic, on (state, remaining 0 … 1), for 3 steps, of 3 states", 4, 2, 3, False),
        (Policy(coin, choice=np.array([[1, 2]]), rest=rest), "randomised, on states, of 2 states", 1, 1, None, True),
    ):
        assert repr(policy) == f"<Policy: {words}>"
        assert (policy.num_layers, policy.layers_per_block, policy.horizon) == (layers, per_block, horizon)
        assert policy.knows_overspent == overspent
        assert policy.is_stationary == (words.split(",")[1] == " on states")
    with pytest.raises(PolicyError, match="cannot be added to this policy: with a horizon, it belongs in the"):
        timed.with_overspent([0, 1, 0])
    with pytest.raises(PolicyError, match="a policy with a horizon cannot come to rest: it ends with its steps"):
        Policy(coin, choice=np.array([[1, 2]]), rest=rest, block=[0])
    for tables in ({}, {"choice": np.array([[1, 2]]), "probability": np.array([[0, 1, 1.0]])}):
        with pytest.raises(PolicyError, match="a policy must have either choices or probabilities"):
            Policy(coin, **tables)


def test_policies_are_equal_if_all_their_parts_are(mdp, coin):
    row, other = [1, 1, 0], [0, 1, 0]
    policies = [
        Policy.from_table(mdp, row),
        Policy.from_table(mdp, other),
        Policy.from_table(mdp, [row]),
        Policy.from_table(mdp, [row, row]),
        Policy(mdp, choice=Policy.from_table(mdp, [row]).choice, budget=0, block=[0]),
        Policy(mdp, choice=Policy.from_table(mdp, [row]).choice, budget=0, block=[0, 0]),
        Policy.from_table(mdp, {"home": {0: 0.5, 1: 0.5}}),
        Policy.from_table(mdp, {"home": {0: 0.25, 1: 0.75}}),
        Policy(coin, choice=np.array([[1, 2]])),
        *(
            Policy(coin, choice=np.array([[1, 2]]), rest=Rest(probability=np.array([[share, 0.0]]), choice=choice))
            for share, choice in ((0.5, np.array([0, -1])), (0.25, np.array([0, -1])), (0.5, np.array([0, 2])))
        ),
    ]
    for i, policy in enumerate(policies):
        assert [j for j, found in enumerate(policies) if found == policy] == [i]
        assert pickle.loads(pickle.dumps(policy)) == policy


# ---------------------------------------------------------------------- text


def test_tables_as_text(mdp):
    policy = Policy.from_table(mdp, {("home", 0): "back", ("home", 1): {"out": 0.25, "back": 0.75}})
    text = str(policy)
    assert "state  0 left  1 left" in text
    assert "home   back    out 0.25, back 0.75" in text
    assert "field  ·       ·" in text


def test_long_tables_are_cut():
    count = 100
    mdp = from_transitions(range(99), [0] * 99, range(1, 100), [1] * 99, [0] * 99, [0] * 99, terminal=[99])
    policy = Policy.from_table(mdp, np.zeros((21, count), np.int64))
    assert "… and 76 more states, 13 more columns" in str(policy)
    assert "20 left" in str(policy)
    assert "10 left" not in str(policy)


def test_each_block_has_its_own_layer_for_an_overspent_budget():
    mdp = example("paper")
    policy = Policy(mdp, choice=np.tile([0, 2], (6, 1)), budget=1, block=np.array([0, 1]))
    assert [policy.layer(remaining, steps) for steps in (1, 2) for remaining in (0, 1, -1)] == [0, 1, 2, 3, 4, 5]
