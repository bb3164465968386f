"""The best policy for a number of steps: solved, evaluated, played, saved."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import almostsure as asure
from almostsure import AlmostSure, Chance, Expected, Policy, evaluate, from_transitions, minimal_budget, simulate
from almostsure.errors import ArgumentError, CorruptFile, Infeasible, NoSafeAction, NotEnoughMemory, PolicyError
from almostsure.model import Steps, product
from almostsure.plan import within as module
from almostsure.policy.evaluation.worst import worst_damage
from almostsure.shield import HorizonShield
from almostsure.testing import mdps


def best(mdp, steps, state, left, discount=1.0):
    """By definition: the best return of this many steps, −∞ where the budget does not suffice."""
    if left < 0:
        return -math.inf
    if steps == 0:
        return 0.0
    return max(
        math.fsum(
            o.probability * (o.reward + discount * best(mdp, steps - 1, o.next_state, left - o.damage, discount))
            for o in mdp.outcomes(state, int(a))
        )
        for a in mdp.actions(state)
    )


@given(mdps(max_states=3, max_damage=2), st.integers(1, 4), st.integers(0, 3), st.sampled_from([1.0, 0.9]))
def test_it_is_the_best_of_all_plays(mdp, steps, budget, discount):
    assume(minimal_budget(mdp, horizon=steps).smallest_budget() <= budget)
    solution = asure.solve_policy(mdp, AlmostSure(budget), horizon=steps, discount=discount, everywhere=True)
    values = solution.within.values
    for t in range(steps + 1):
        for k in range(budget + 1):
            expected = [best(mdp, t, s, k, discount) for s in range(mdp.num_states)]
            np.testing.assert_allclose(values[t, k], expected, rtol=1e-12, atol=1e-12)
            assert ((values[t, k] > -math.inf) == (minimal_budget(mdp, horizon=t).of_state <= k)).all()
    assert solution.lower <= solution.value <= solution.upper <= solution.lower + 1e-9
    assert math.isclose(solution.evaluate().expected_return, solution.value, rel_tol=1e-12, abs_tol=1e-12)
    assert worst_damage(mdp, solution) <= budget


def least(mdp, steps, state, left):
    """By definition: the best return of this many steps, and the least length, then damage, that comes with it."""
    if left < 0:
        return -math.inf, 0, 0
    if steps == 0 or mdp.is_terminal()[state]:
        return 0, 0, 0
    found = []
    for a in mdp.actions(state):
        after = [(o, least(mdp, steps - 1, o.next_state, left - o.damage)) for o in mdp.outcomes(state, int(a))]
        worth = sum(o.probability * (o.reward + value) for o, (value, _, _) in after)
        length = 1 + sum(o.probability * more for o, (_, more, _) in after)
        damage = sum(o.probability * (o.damage + more) for o, (_, _, more) in after)
        found.append((-worth, length, damage))
    worth, length, damage = min(found)
    return -worth, length, damage


@pytest.mark.parametrize("plain_work", [-1, 10**9])
def test_of_equally_good_choices_those_are_played_that_end_soon_and_hurt_little(plain_work, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_WORK", plain_work)
    ties = 0
    for seed in range(60):
        rng, rows = np.random.default_rng(seed), []
        for state, action in np.ndindex(3, 3):
            targets = rng.integers(4, size=2)  # halves, and whole rewards: nothing is rounded
            rows += [(state, action, int(t), 0.5, -1.0, int(rng.integers(2))) for t in targets]
        mdp = from_transitions(*zip(*rows, strict=True), num_states=4, terminal=[3], normalise=True)
        if minimal_budget(mdp, horizon=4).smallest_budget() > 2:
            continue
        value, length, damage = least(mdp, 4, 0, 2)
        found = asure.solve_policy(mdp, AlmostSure(2), horizon=4).evaluate()
        assert found.expected_return == value == -length
        assert found.expected_damage == pytest.approx(damage, abs=1e-12)
        ties += damage < 2
    assert ties > 10


@given(mdps(max_states=5, max_damage=2), st.integers(1, 12), st.integers(0, 4))
def test_compiled_is_plain_and_counting_steps_in_the_model_is_the_same(mdp, steps, budget):
    assume(minimal_budget(mdp, horizon=steps).smallest_budget() <= budget)
    solution = asure.solve_policy(mdp, AlmostSure(budget), horizon=steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PLAIN_WORK", -1)
        compiled = asure.solve_policy(mdp, AlmostSure(budget), horizon=steps)
    counted = asure.solve_policy(product(mdp, Steps(steps)), AlmostSure(budget))
    for other in (compiled, counted):
        assert other.lower <= solution.upper
        assert solution.lower <= other.upper
        np.testing.assert_allclose(other.curve, solution.curve, rtol=1e-8, atol=1e-8)
    assert solution.policy.is_deterministic
    played = simulate(mdp, solution, 50, seed=1)
    assert (played.damages <= budget).all()
    assert (played.lengths <= steps).all()
    shield = HorizonShield(minimal_budget(mdp, horizon=steps))
    run = shield.begin(int(mdp.initial_states[0]), budget)
    assert solution.policy.act(run[0], run[1], steps_left=run[2]) in shield.allowed(*run)


@pytest.mark.parametrize("constraint", [Expected(1.5), Chance(1, 0.3), Chance(2, 0)])
def test_expectation_and_chance_have_horizons_too(paper, constraint):
    mdp = paper(0.5)
    solution = asure.solve_policy(mdp, constraint, horizon=6)
    counted = asure.solve_policy(product(mdp, Steps(6)), constraint)
    assert math.isclose(solution.value, counted.value, rel_tol=1e-9)
    result = evaluate(mdp, solution)
    assert math.isclose(result.expected_return, solution.value, rel_tol=1e-9)
    assert result.accuracy < 1e-11
    used = result.expected_damage if isinstance(constraint, Expected) else result.overspends
    assert math.isclose(used, solution.used, rel_tol=1e-9, abs_tol=1e-9)
    same = asure.evaluate(product(mdp, Steps(6)), counted)
    np.testing.assert_allclose(result.damage_distribution[: same.damage_distribution.size].sum(), 1)
    np.testing.assert_allclose(solution.curve, counted.curve, rtol=1e-9)


@given(mdps(max_states=4, max_damage=3), st.integers(1, 6), st.integers(0, 3))
def test_evaluating_is_evaluating_the_model_that_counts_steps(mdp, steps, budget):
    """A policy that plays at random, and goes on once overspent."""
    uniform = np.repeat(1 / np.diff(mdp.choice_ptr), np.diff(mdp.choice_ptr))
    table = np.tile(uniform, (steps * (budget + 2), 1))
    policy = Policy(mdp, probability=table, budget=budget, block=np.arange(steps))
    counted = product(mdp, Steps(steps))
    mean = np.repeat(1 / np.diff(counted.choice_ptr), np.diff(counted.choice_ptr))
    expected = evaluate(counted, Policy(counted, probability=mean[None]), budget=budget)
    found = evaluate(mdp, policy)
    for name in ("expected_return", "expected_damage", "overspends"):
        assert math.isclose(getattr(found, name), getattr(expected, name), rel_tol=1e-10, abs_tol=1e-10), name
    assert found.lower <= found.expected_return <= found.upper
    size = min(found.damage_distribution.size, expected.damage_distribution.size)
    np.testing.assert_allclose(found.damage_distribution[:size], expected.damage_distribution[:size], atol=1e-12)


def test_what_repeats_is_kept_once_and_files_keep_it(paper, tmp_path):
    mdp = paper()
    solution = asure.solve_policy(mdp, AlmostSure(2), horizon=1000)
    assert solution.policy.horizon == 1000
    assert solution.policy.num_layers <= 3 * 4
    solution.policy.save(tmp_path / "policy.safetensors")
    loaded = Policy.load(tmp_path / "policy.safetensors", mdp)
    assert loaded == solution.policy
    assert loaded != asure.solve_policy(mdp, AlmostSure(2), horizon=999).policy
    wrong = Policy(mdp, choice=np.array([[0, 2]] * 3), budget=2, block=[0] * 5)
    wrong.save(tmp_path / "wrong.safetensors")
    raw = (tmp_path / "wrong.safetensors").read_bytes()
    (tmp_path / "wrong.safetensors").write_bytes(raw.replace(b'"assured":"no"', b'"assured":"ye"'))
    with pytest.raises(CorruptFile, match="does not have the checksum"):
        Policy.load(tmp_path / "wrong.safetensors", mdp)


def test_playing_counts_the_steps_down(paper):
    policy = asure.solve_policy(paper(), AlmostSure(2), horizon=3).policy
    play = policy.start()
    actions = []
    for damage in (1, 1, 0):
        actions.append(play.act(0))
        play.observe(damage)
    assert actions[:2] == [0, 0]
    with pytest.raises(ArgumentError, match=r"steps_left must lie in 1 … 3"):
        play.act(0)
    with pytest.raises(ArgumentError, match="pass steps_left="):
        policy.act(0, 2)
    assert "for 3 steps" in repr(policy)
    assert "2 left" in str(policy)
    with pytest.raises(PolicyError, match="does not count steps"):
        policy.save_scheduler("never.json")


@pytest.mark.parametrize("constraint", [Expected(0), Expected(0.5), Chance(0, 0.5)])
def test_a_state_where_nothing_happens_may_have_many_actions(constraint):
    rows = [(0, 0, 1, 1, 1, 1), (0, 1, 1, 1, 0, 0), (1, 0, 1, 1, 0, 0), (1, 1, 1, 1, 0, 0)]
    mdp = from_transitions(*zip(*rows, strict=True), initial={0: 0.5, 1: 0.5})
    solution = asure.solve_policy(mdp, constraint, horizon=3)
    assert solution.value == pytest.approx(0.0 if constraint == Expected(0) else 0.5)
    assert solution.evaluate().expected_return == pytest.approx(solution.value)


def test_what_would_not_fit_is_refused_before_the_first_step(paper, monkeypatch):
    monkeypatch.setattr("almostsure.memory.available", lambda: 10**9)
    with pytest.raises(NotEnoughMemory, match=r"a solution for 1,000,000,000 steps needs about .* Solve for fewer"):
        asure.solve_policy(paper(), AlmostSure(1), horizon=10**9)


def test_bad_horizons_and_budgets(paper):
    for bad in (-1, 0, 2.5):
        with pytest.raises(ArgumentError, match=r"horizon must be (at least 1|a whole number); got"):
            asure.solve_policy(paper(), AlmostSure(1), horizon=bad)
    for constraint in (AlmostSure(1), Expected(1)):
        with pytest.raises(ArgumentError, match=r"horizon must be at most 2147483646; got 10{30}"):
            asure.solve_policy(paper(), constraint, horizon=10**30)
    pit = from_transitions([0], [0], [0], [1], [0], [1])
    with pytest.raises(Infeasible, match=r"does not suffice for 5 steps[\s\S]*nature can force 5 damage") as caught:
        asure.solve_policy(pit, AlmostSure(4), horizon=5)
    assert caught.value.needed == 5
    policy = asure.solve_policy(pit, AlmostSure(5), horizon=5).policy
    with pytest.raises(NoSafeAction, match="at which it is undefined"):
        simulate(pit, policy, 3, budget=2, seed=0)
    with pytest.raises(PolicyError, match="block must hold"):
        Policy(pit, choice=np.zeros((1, 1), np.int32), block=[])
