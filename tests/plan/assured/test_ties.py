"""Ties: compared with all policies of small models in fractions, and on grids where one can wander for ever."""

import itertools

import numpy as np
import pytest

from almostsure import AlmostSure, Policy, evaluate, from_transitions, minimal_budget, simulate, solve_policy
from almostsure.errors import Infeasible, UnboundedReturn
from almostsure.model.build.grid import grid_family
from almostsure.plan.assured import engine, layers, ties
from almostsure.plan.assured import tie_kernels as kernels
from almostsure.testing.families import garnet

from ...policy.evaluation.exact import evaluate_exactly

POLICIES = 300  # a model with more of them is left out


def tied_model(rng):
    """A small model with few different rewards, so that many policies are equally good."""
    size = int(rng.integers(2, 4))
    rewards = np.array([[0], [0, 1], [-1], [0, -1]][rng.integers(0, 4)], dtype=object)
    rows = []
    for s in range(size):
        for a in range(int(rng.integers(1, 4))):
            count = int(rng.integers(1, 3))
            p = [1.0] if count == 1 else [[0.5, 0.5], [0.25, 0.75]][rng.integers(0, 2)]
            for share in p:
                t, r, d = int(rng.integers(0, size + 1)), float(rng.choice(rewards)), int(rng.random() < 0.3)
                rows.append((s, a, t, share, r, d))
    return from_transitions(*zip(*rows, strict=True), num_states=size + 1, terminal=[size])


def policies_of(mdp, of_choice, budget):
    """All feasible deterministic policies on the pairs that the start can reach."""
    start = (int(mdp.initial_states[0]), budget)
    found, queue = {}, [start]
    while queue:
        state, left = queue.pop()
        if (state, left) in found:
            continue
        found[state, left] = [c for c in mdp.choices(state) if of_choice[c] <= left]
        for c in found[state, left]:
            for o in range(mdp.outcome_ptr[c], mdp.outcome_ptr[c + 1]):
                queue.append((int(mdp.successor[o]), left - int(mdp.damage[o])))
    count = int(np.prod([len(choices) for choices in found.values()], dtype=float))
    if count > POLICIES:
        return
    table = np.full((budget + 1, mdp.num_states), -1, np.int32)
    for chosen in itertools.product(*found.values()):
        for (state, left), choice in zip(found, chosen, strict=True):
            table[left, state] = choice
        yield Policy(mdp, choice=table.copy(), budget=budget)


def rank(found):
    """What is best: the return, the probability to end, and where that is 1, little length and then little damage."""
    if found.ends < 1:
        return found.expected_return, found.ends, 0, 0
    return found.expected_return, found.ends, -found.expected_length, -found.expected_damage


@pytest.mark.parametrize("compiled", [False, True])
def test_small_models_beside_all_their_policies(compiled, monkeypatch):
    if compiled:
        monkeypatch.setattr(engine, "PLAIN", 0)
    compared = 0
    for seed in range(100 * compiled, 100 * compiled + 100):
        rng = np.random.default_rng(seed)
        mdp, budget = tied_model(rng), int(rng.integers(0, 3))
        try:
            found = solve_policy(mdp, AlmostSure(budget))
        except (Infeasible, UnboundedReturn):
            continue
        results = [evaluate_exactly(mdp, p, budget) for p in policies_of(mdp, minimal_budget(mdp).of_choice, budget)]
        results = [x for x in results if x.expected_return is not None]
        if len(results) < 2:
            continue
        compared += 1
        best = max(map(rank, results))
        assert rank(evaluate_exactly(mdp, found.policy, budget)) == best, seed
        assert found.lower <= best[0] <= found.upper
    assert compared > 40


def untied(mdp, budget, **options):
    """The solution with its ties as they were found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "break_ties", lambda engine, found, starts, aims, tolerance: found)
        return solve_policy(mdp, AlmostSure(budget), **options)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("seed", range(6))
def test_the_value_stays_and_the_length_is_never_longer(seed, discount):
    mdp = garnet(60, branching=2, seed=seed, damage_rate=0.1, terminal_rate=0.1)
    mdp = mdp.with_reward(-(np.random.default_rng(seed).random(mdp.num_outcomes) < 0.1).astype(float))
    budget = int(minimal_budget(mdp).smallest_budget()) + 1
    try:
        old, new = untied(mdp, budget, discount=discount), solve_policy(mdp, AlmostSure(budget), discount=discount)
    except UnboundedReturn:
        return
    before, after = old.evaluate(), new.evaluate()
    assert new.lower - 1e-12 <= after.expected_return
    assert after.expected_return == pytest.approx(before.expected_return, rel=1e-8, abs=1e-8)
    assert new.upper - new.lower <= 1e-8 * max(1, abs(new.lower))
    assert after.ends >= before.ends - 1e-9
    assert after.ends < 1 or after.expected_length <= before.expected_length * (1 + 1e-6) + 1e-6


def test_on_a_grid_nobody_wanders():
    mdp = grid_family(40, seed=0)
    budget = int(minimal_budget(mdp).smallest_budget()) + 2
    found = solve_policy(mdp, AlmostSure(budget))
    played = simulate(mdp, found.policy, 200, seed=0)
    assert played.lengths.max() < 4 * 40
    assert (played.returns == 1).all()
    steps = solve_policy(mdp.with_reward(-1.0), AlmostSure(budget))
    assert found.evaluate().expected_length == pytest.approx(-steps.value, rel=1e-2)


def test_a_tie_that_would_cost_too_much_is_left_alone(monkeypatch):
    """Every step of the short way costs a little more than the tolerance allows in all."""
    mdp = grid_family(20, seed=0)
    budget = int(minimal_budget(mdp).smallest_budget())
    monkeypatch.setattr(ties._Ties, "decide", lambda ties: ties.found.lower - 1.0)
    found = solve_policy(mdp, AlmostSure(budget))
    assert found.upper - found.lower <= 1e-8
    assert evaluate(mdp, found.policy).expected_return == pytest.approx(1.0)


def test_who_need_not_end_ends_as_likely_as_can_be():
    """From 0, resting for ever is worth as much as ending; from 1 half of the ways lead to a trap without an end."""
    rows = [
        (0, 0, 0, 1, 0, 0), (0, 1, 1, 1, 0, 0),
        (1, 0, 0, 1, 0, 0), (1, 1, 2, 0.5, 0, 0), (1, 1, 3, 0.5, 0, 0), (1, 2, 2, 0.75, 0, 0), (1, 2, 3, 0.25, 0, 0),
        (2, 0, 4, 1, 0, 0), (4, 0, 2, 1, 0, 0),
    ]  # fmt: skip
    mdp = from_transitions(*zip(*rows, strict=True), num_states=5, terminal=[3])
    found = solve_policy(mdp, AlmostSure(0))
    result = found.evaluate()
    assert (found.lower, found.upper, result.ends) == (0, 0, 0.5)
    assert str(found).endswith("ends         with probability 0.5 only")


def test_where_nothing_returns_a_number_it_ends_with_the_greatest_probability():
    rows = [(0, 0, 0, 1, -1, 0), (0, 1, 1, 0.5, -1, 0), (0, 1, 2, 0.5, -1, 0), (2, 0, 2, 1, -1, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[1])
    assert solve_policy(mdp, AlmostSure(0)).evaluate().ends == 0.5


def test_little_damage_at_the_end_of_a_long_way():
    size = 150
    rows = [(i, 0, i + 1, 1, -1, 0) for i in range(size)] + [(size - 1, 1, size, 1, -1, 1)]
    mdp = from_transitions(*zip(*rows, strict=True), terminal=[size])
    harmful_first = [(s, 1 - a if s == size - 1 else a, *rest) for s, a, *rest in rows]
    for some in (mdp, from_transitions(*zip(*harmful_first, strict=True), terminal=[size])):
        assert solve_policy(some, AlmostSure(1)).evaluate().expected_damage == 0


def test_free_steps_before_costly_ones_do_not_hide_that_cycles_cost_nothing():
    """Only the first step costs something; then 0 and 1 may go round for ever, or end."""
    rows = [(0, 0, 1, 1, 0, 0), (0, 1, 3, 1, 0, 0), (1, 0, 0, 1, 0, 0), (1, 1, 3, 1, 0, 0), (2, 0, 0, 1, -1, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), num_states=4, terminal=[3], initial=2)
    solution = solve_policy(mdp, AlmostSure(1))
    assert solution.value == -1
    assert solution.evaluate().ends == 1
    assert solution.evaluate().expected_length == pytest.approx(2)


def test_costs_that_differ_by_rounding_are_the_same():
    ptr, over = np.array([0, 2, 3, 4]), np.array([False, False, True])
    rounded = -np.nextafter(1.0, 0.0)
    gain = np.array([-1.0, rounded, -1.0, 0.0])
    assert kernels.cost_of_steps.py_func(ptr, gain, over) == -rounded
    assert kernels.cost_of_steps.py_func(ptr, np.array([-1.0, -1.0 - 1e-9, -1.0, 0.0]), over) == 0
    assert kernels.cost_of_steps.py_func(ptr, np.array([-1.0, 0.0, -1.0, 0.0]), over) == 0
    assert kernels.cost_of_steps.py_func(ptr, np.array([-1.0, -1.0, -1.0, -1.0]), over) == 0
    assert kernels.cost_of_steps.py_func(ptr, np.array([1.0, 1.0, 1.0, 0.0]), over) == 0


@pytest.mark.parametrize("plain", [0, 20_000])
def test_where_lengths_are_unknown_old_choices_may_lead_to_new_ones(plain, monkeypatch):
    """The bounds of the pairs with old choices are checked as well: the new policy returned 23, and not 157."""
    monkeypatch.setattr(engine, "PLAIN", plain)
    rows = [(0, 0, 1, 1.788782796921417e-05, 0, 0), (0, 0, 3, 0.00010307335834870419, 0, 0), (0, 0, 6, 2.0**-46, 0, 0)]
    rows += [(1, 0, 3, 1, 0, 0), (1, 1, 4, 1, 0, 0), (2, 2, 1, 1, 0, 0), (3, 0, 3, 1, 0, 1), (3, 1, 0, 1, 0, 0)]
    rows += [(4, 0, 5, 1 - 2.0**-29, 0, 0), (4, 0, 7, 2.0**-29, 0, 0), (5, 0, 5, 1, 0, 0)]
    rows += [(5, 0, 4, 8.798240270045897e-17, 0, 0), (5, 2, 5, 1, 0, 1)]
    rows += [(6, 0, 8, 1, 1.6591091390510818e-05, 0), (7, 0, 8, 1, 157.6112947839906, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), num_states=9, terminal=[8], normalise=True)
    found = solve_policy(mdp, AlmostSure(1), tolerance=1e-4)
    assert found.lower <= evaluate(mdp, found.policy).expected_return <= found.upper
