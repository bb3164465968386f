"""A policy is feasible exactly if it never overspends, in every form in which policies are written."""

from typing import Any

import numpy as np
import pytest

import almostsure as asure
from almostsure.budget.minimal import INFINITE
from almostsure.errors import ArgumentError, ModelMismatch, NoSafeAction, PolicyError, UnknownName
from almostsure.policy.policy import Policy
from almostsure.shield import Shield
from almostsure.testing.families import chain, garnet


def overspends(mdp: asure.MDP, play, budget: int) -> bool:
    """Whether a negative remaining budget can be reached: by search, without minimal budgets."""
    todo = [(int(s), budget) for s in mdp.initial_states]
    seen = set(todo)
    while todo:
        state, left = todo.pop()
        for action in play(state, left):
            for outcome in mdp.outcomes(state, action):
                pair = outcome.next_state, left - outcome.damage
                if pair[1] < 0:
                    return True
                if pair not in seen:
                    seen.add(pair)
                    todo.append(pair)
    return False


def random_table(mdp: asure.MDP, layers: int, rng: np.random.Generator) -> np.ndarray:
    rows = [[int(rng.choice(mdp.actions(s))) for s in range(mdp.num_states)] for _ in range(layers)]
    return np.array(rows)


def lean_table(shield: Shield, layers: int, rng: np.random.Generator) -> np.ndarray:
    """Allowed actions in almost all entries, so that many tables are feasible."""
    table = random_table(shield.mdp, layers, rng)
    for left in range(layers):
        for state in range(shield.mdp.num_states):
            if shield.minimal.of_state[state] <= left and rng.random() < 0.97:
                table[left, state] = rng.choice(shield.allowed(state, left))
    return table


def test_feasible_policies_are_those_that_never_overspend(make) -> None:
    found = {True: 0, False: 0}
    for seed in range(1500):
        shield = Shield(asure.minimal_budget(mdp := make(seed)))
        rng = np.random.default_rng(seed)
        budget = int(rng.integers(0, 6))
        table = lean_table(shield, budget + 1, rng)
        good = not overspends(mdp, lambda s, k, t=table: [int(t[k, s])], budget)
        assert shield.is_feasible(table) == good
        assert shield.is_feasible(Policy.from_table(mdp, table)) == good
        assert shield.is_feasible(lambda s, remaining, t=table: t[remaining, s], budget) == good
        found[good] += 1
    assert min(found.values()) > 200


def test_stationary_and_randomised_policies(make) -> None:
    found = {True: 0, False: 0}
    for seed in range(600):
        shield = Shield(asure.minimal_budget(mdp := make(seed)))
        rng = np.random.default_rng(seed)
        budget = int(rng.integers(0, 6))
        matrix = np.zeros((mdp.num_states, mdp.num_actions))
        for state in range(mdp.num_states):
            matrix[state, rng.choice(mdp.actions(state), 2)] = 0.5
            matrix[state] /= matrix[state].sum()
        good = not overspends(mdp, lambda s, k, m=matrix: np.flatnonzero(m[s]).tolist(), budget)
        assert shield.is_feasible(matrix, budget) == good
        assert shield.is_feasible(Policy.from_table(mdp, matrix), budget) == good
        assert shield.is_feasible(lambda s, m=matrix: m[s], budget) == good
        found[good] += 1
    assert min(found.values()) > 50


FORMS: dict[str, Any] = {
    "list": [0, 0, 1, 0],
    "array": np.array([0, 0, 1, 0], np.uint8),
    "names": ["jump", "jump", "climb", "jump"],
    "layers": [[0, 0, 1, 0], [0, 0, 1, 0]],
    "undefined where unreachable": [0, -1, None, 0],
    "matrix": np.eye(3)[[0, 0, 1, 0]],
    "layers of matrices": np.eye(3)[[[0, 0, 1, 0], [0, 0, 1, 0]]],
    "mapping": {"start": "jump", 3: 0},
    "mapping to distributions": {"start": {"jump": 1.0, "climb": 0.0}, 3: [1, 0, 0]},
    "mapping from pairs": {("start", 1): 0, ("start", 0): 0, ("end", 0): 0, ("end", 1): 0},
    "function of the state": lambda state: 0,
    "function with an option": lambda state, rng=None: 0,
    "function of both": lambda state, remaining: 0,
    "function that wants both": lambda state, remaining=None: 0 if remaining is not None else 1,
    "function of anything": lambda *pair: 0 if len(pair) == 2 else 1,
    "method without a signature": {0: 0, 3: 0}.get,
}


@pytest.mark.parametrize("form", FORMS)
def test_ways_to_write_a_policy(shield: Shield, form: str) -> None:
    assert shield.is_feasible(FORMS[form], 1)
    assert not shield.is_feasible(FORMS[form], 0)


class Duck:
    def probabilities(self, state: int, remaining: int) -> list[float]:
        return [0.5, 0.5, 0.0] if state == 0 and remaining >= 2 else [1.0, 0.0, 0.0]


def test_an_object_with_probabilities(shield: Shield) -> None:
    assert shield.is_feasible(Duck(), 2)
    assert shield.is_feasible(Duck(), 1)


def test_a_table_carries_its_budget(shield: Shield) -> None:
    table = [[0, 0, 1, 0], [0, 0, 1, 0], [1, 0, 1, 0]]
    assert shield.is_feasible(table)
    assert shield.is_feasible(table, 5)  # with more than it knows it plays its top row
    assert shield.first_violation(table, 0).remaining == 0
    assert shield.is_feasible(Policy.from_table(shield.mdp, table))


def test_the_violation_says_where(shield: Shield) -> None:
    found = shield.first_violation(["climb", "jump", "climb", "jump"], 1)
    assert found is not None
    assert (found.state, found.remaining, found.action, found.needed) == (0, 1, 1, 2)
    assert str(found) == "with 1 left the policy may play choice 1 (state 0 'start', action 'climb'), which needs 2"
    found = shield.first_violation({0: {"jump": 0.5, "wait": 0.5}, 3: 0}, 10**9)
    assert found is not None
    assert found.needed == INFINITE
    assert str(found).endswith("'wait'), which needs ∞")
    assert shield.first_violation([0, 0, 1, 0], 1) is None


def test_unreachable_pairs_do_not_matter(shield: Shield) -> None:
    assert shield.is_feasible({0: 0, 3: 0, 1: 0}, 1)
    assert shield.is_feasible([[2, 0, 1, 0], [0, 0, 1, 0]])  # waits only with nothing left


def test_a_policy_that_comes_to_rest(fall: asure.MDP) -> None:
    from almostsure.policy.policy import Rest

    mdp = asure.from_transitions([0, 0, 1], [0, 1, 0], [0, 1, 1], [1] * 3, [0] * 3, [0, 1, 0], action_names=["a", "b"])
    shield = Shield(asure.minimal_budget(mdp))
    for chance, good in ((1.0, True), (0.5, False)):
        rest = Rest(probability=np.array([[chance, 0.0]]), choice=np.array([0, 2]))
        policy = Policy(mdp, choice=np.array([[1, 2]]), rest=rest)
        assert shield.is_feasible(policy, 0) == good
        assert shield.is_feasible(policy, 1)


def test_large_budgets_and_long_plays() -> None:
    mdp = chain(3000)
    shield = Shield(asure.minimal_budget(mdp))
    table = np.zeros(mdp.num_states, np.int64)
    assert shield.is_feasible(table, 2**40)
    assert shield.is_feasible(table, 3000)
    assert not shield.is_feasible(table, 2999)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 0, 1], r"must have shape \[4\] or \[budgets, 4\] \(one action per state\); got \[3\]"),
        ([[0.5] * 4], r"must have shape \[4, 3\] or \[budgets, 4, 3\] .* got \[1, 4\]"),
        (np.zeros((0, 4), int), "must have shape"),
        (np.zeros((1, 1, 4), int), "must have shape"),
        (7, "must be a Policy, a function, a mapping or an array; got 7"),
        ([[0], [0, 1]], "must be an array"),
        ([True] * 4, r"must hold actions \(integers or names\) or probabilities \(floats\); got bool"),
        ([1, 1, 1, 0], "only actions that the state has; got climb at state 1 'ledge'"),
        ([5, 0, 1, 0], "only actions that the state has; got 5 at state 0 'start'"),
        ([-2, 0, 1, 0], "only actions that the state has; got -2 at state 0 'start'"),
        (np.array([2**64 - 2, 0, 1, 0], np.uint64), "only actions that the state has"),
        (["jmp", "jump", "climb", "jump"], "at state 0 'start': unknown action 'jmp'. Did you mean 'jump'"),
        (np.full((4, 3), 0.5), "only actions that the state has"),
        (
            np.diag([0.5, 1, 1])[[0, 0, 1, 0]],
            "at state 0 'start' must sum to 1 within 1e-09; got 0.5",
        ),
        (np.diag([np.nan, 1, 1])[[0, 0, 1, 0]], "must lie in 0 … 1; got nan"),
        (lambda s: True, "must be an action or a distribution; got True"),
        (lambda s: {1, 2}, "must be an action or a distribution"),
        (lambda s: float("nan"), "unknown action nan"),
        (lambda s: [0.5, 0.5], "one probability for each of the 3 actions; got 2 at state 0 'start'"),
        (lambda s: {"jump": 0.5}, "must be 0 or more and sum to 1; got .0.5."),
        (lambda s: {"jump": "half"}, "must be 0 or more and sum to 1"),
        (lambda s: np.eye(2), "must be an action or a distribution"),
    ],
)
def test_invalid_policies(shield: Shield, policy: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        shield.is_feasible(policy, 2)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([-1, 0, 1, 0], "reaches state 0 'start', where it is undefined"),
        ([None, 0, 1, 0], "reaches state 0 'start', where it is undefined"),
        (np.zeros((4, 3)), "where it is undefined"),
        ({}, "where it is undefined"),
        ({0: 1}, "reaches state 1 'ledge', where it is undefined"),
        ({(0, 2): 1, (1, 1): 0}, "reaches state 1 'ledge' with 2 left, where it is undefined"),
        (lambda s: None, "where it is undefined"),
    ],
)
def test_policies_that_are_undefined_at_reachable_pairs(shield: Shield, policy: Any, message: str) -> None:
    with pytest.raises(NoSafeAction, match=message):
        shield.is_feasible(policy, 2)


def test_feasible_and_simulate_ask_a_function_alike(shield: Shield) -> None:
    def bold(state: int, left: int = 0) -> int:
        return [1 if left else 0, 0, 1, 0][state]  # climbs, which needs 2, with anything left

    assert shield.is_feasible(bold, 2)
    assert asure.simulate(shield.mdp, bold, 100, budget=2, seed=0).damages.max() <= 2
    assert not shield.is_feasible(bold, 1)
    with pytest.raises(NoSafeAction, match="overspent its budget"):
        asure.simulate(shield.mdp, bold, 2000, budget=1, seed=0)


@pytest.mark.parametrize(
    "policy",
    [
        [0, 0, 1, 2],
        [0, 0, 1, -1],
        {0: 0},
        lambda state: {0: "jump"}[state],
        np.diag([1.0, 1, 7])[[0, 0, 1, 2]],
    ],
)
def test_entries_of_terminal_states_are_ignored(shield: Shield, policy: Any) -> None:
    assert shield.is_feasible(policy, 1)
    assert str(shield.first_violation(policy, 0)).startswith("with 0 left the policy may play choice 0")


def test_a_model_that_starts_at_its_end() -> None:
    mdp = asure.from_transitions([], [], [], [], [], [], num_states=1, terminal=[0])
    assert Shield(asure.minimal_budget(mdp)).is_feasible([5], 0)


def test_a_solution_is_judged_by_its_policy(fall: asure.MDP, shield: Shield) -> None:
    solution = asure.solve_policy(fall, asure.AlmostSure(2))
    assert shield.is_feasible(solution)
    assert shield.is_feasible(asure.solve_policy(fall, asure.Expected(1)), 0) is False


def test_the_shield_as_a_function_is_feasible(shield: Shield) -> None:
    assert shield.is_feasible(lambda state, remaining: shield.allowed(state, remaining)[0], 2)


def test_an_unknown_state_in_a_mapping(shield: Shield) -> None:
    with pytest.raises(UnknownName, match="unknown state 'strat'"):
        shield.is_feasible({"strat": 0}, 2)


@pytest.mark.parametrize("budget", [-1, 0.5, float("nan"), True, "2"])
def test_invalid_budgets(shield: Shield, budget: Any) -> None:
    with pytest.raises(ArgumentError, match="budget must be"):
        shield.is_feasible([0, 0, 1, 0], budget)


def test_a_stationary_policy_needs_a_budget(shield: Shield) -> None:
    for policy in ([0, 0, 1, 0], Policy.from_table(shield.mdp, [0, 0, 1, 0])):
        with pytest.raises(ArgumentError, match="must be given with a policy that does not carry one"):
            shield.is_feasible(policy)


def test_another_models_policy(shield: Shield) -> None:
    other = garnet(4, 3, 2)
    with pytest.raises(ModelMismatch, match="the policy belongs to another model"):
        shield.is_feasible(Policy.from_function(other, lambda s: int(other.actions(s)[0])), 2)


def test_errors_of_the_policy_itself_come_through(shield: Shield) -> None:
    def policy(state: int) -> int:
        raise NoSafeAction("I do not know", state=state)

    with pytest.raises(NoSafeAction, match="I do not know"):
        shield.is_feasible(policy, 2)


def test_beyond_the_cap_policies_are_not_judged(fall: asure.MDP) -> None:
    shield = Shield(asure.minimal_budget(fall, cap=1))
    assert shield.is_feasible([0, 0, 1, 0], 5)
    assert not shield.is_feasible([1, 0, 1, 0], 1)
    assert "needs more than the cap 1" in str(shield.first_violation([1, 0, 1, 0], 1))
    with pytest.raises(ArgumentError, match=r"budgets must be known up to 5 .* cap 1 only, and choice 1 .* needs more"):
        shield.is_feasible([1, 0, 1, 0], 5)
