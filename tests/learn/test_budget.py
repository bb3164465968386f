"""learn_budget: what it returns, what it costs, what it promises, and how often it is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
import almostsure.learn.budget as budget_module
import almostsure.learn.plan as plan_module
from almostsure.errors import ArgumentError, FileError, Infeasible, Interrupted, LimitReached, ModelError
from almostsure.learn import learn_budget, samples_needed
from almostsure.learn.budget import reachable_choices
from almostsure.shield.explore import explore
from almostsure.shield.table import spans
from almostsure.testing import mdps


def explored(mdp, of_choice, total):
    """The choices that a shield allows where it leads, by walking through all pairs (state, remaining)."""

    def allowed(states, remaining):
        choice, _ = spans(mdp.choice_ptr, states)
        return choice[of_choice[choice] <= remaining]

    found = np.zeros(mdp.num_choices, bool)
    for step in explore(mdp, allowed, total):
        found[step.choices] = True
    return found


def agrees(learned, mdp, truth):
    """Whether the promises hold: k' ≥ k* everywhere, and equal where the true shield leads."""
    mine = learned.budget.of_choice[: mdp.num_choices]
    if learned.total is None:
        return np.array_equal(mine, truth.of_choice)
    here = reachable_choices(mdp, truth.of_choice, learned.total)
    return (mine >= truth.of_choice).all() and np.array_equal(mine[here], truth.of_choice[here])


# ---------------------------------------------------------------------- what it returns


@given(mdps(max_damage=3), st.integers(0, 6))
def test_reachable_choices(mdp, total):
    truth = asure.solve_budget(mdp)
    if truth.smallest_total() <= total:
        assert np.array_equal(reachable_choices(mdp, truth.of_choice, total), explored(mdp, truth.of_choice, total))


@settings(max_examples=150)
@given(mdps(max_damage=2), st.integers(0, 5), st.integers(0, 2**40))
def test_the_promise_on_random_models(mdp, total, seed):
    truth, mu = asure.solve_budget(mdp), rarest(mdp)
    # The examples are always the same, and 150 · 10⁻⁴ is little.
    everything = learn_budget(mdp, mu=mu, delta=1e-4, seed=seed, workers=1)
    assert agrees(everything, mdp, truth)
    if truth.smallest_total() > total:
        with pytest.raises(Infeasible, match="enough at the start: what was seen forces") as caught:
            learn_budget(mdp, mu=mu, delta=1e-4, seed=seed, total=total, workers=1)
        assert total < caught.value.needed <= truth.smallest_total() or truth.smallest_total() == asure.INFINITE
        return
    learned = learn_budget(mdp, mu=mu, delta=1e-4, seed=seed, total=total, workers=1)
    assert agrees(learned, mdp, truth)
    asure.check_budget(learned.mdp, learned.budget)
    shield, real = learned.shield, asure.Shield(mdp, truth)
    for start in mdp.initial_states.tolist():
        for left in range(int(truth.of_state[start]), total + 1):
            assert shield.allowed(start, left).tolist() == real.allowed(start, left).tolist()


def rarest(mdp):
    key = (mdp.outcome_choices().astype(np.int64) * mdp.num_states + mdp.successor) * 256 + mdp.damage
    _, group = np.unique(key, return_inverse=True)
    return min(float(np.bincount(group, weights=mdp.probability).min()) * (1 - 1e-9), 0.999)


def test_the_seed_decides(hazard, simulator, monkeypatch):
    monkeypatch.setattr(plan_module, "OTHER_CHUNK", 300)
    first, second = (learn_budget(hazard, mu=0.1, delta=0.1, total=1, seed=3, workers=w) for w in (1, 2))
    assert np.array_equal(first.kernel.count, second.kernel.count)
    assert first.samples == second.samples
    small = asure.example("corridor")
    third, fourth = (learn_budget(simulator(small), mu=0.5, delta=0.1, total=2, seed=3, workers=w) for w in (1, 2))
    assert np.array_equal(third.kernel.count, fourth.kernel.count)
    assert np.array_equal(third.budget.of_choice, fourth.budget.of_choice)


def test_a_smaller_total_is_covered_too(hazard):
    truth, learned = asure.solve_budget(hazard), learn_budget(hazard, mu=0.1, delta=0.001, total=4, seed=1)
    for total in range(5):
        here = reachable_choices(hazard, truth.of_choice, total)
        assert np.array_equal(learned.budget.of_choice[: hazard.num_choices][here], truth.of_choice[here])


def test_rounds_of_simulators_are_bounded(hazard, simulator, monkeypatch):
    monkeypatch.setattr(budget_module, "MOST_AT_ONCE", 100)
    small = asure.example("corridor")
    learned = learn_budget(simulator(small), mu=0.9, delta=0.1, seed=3)
    assert np.array_equal(learned.budget.of_choice, asure.solve_budget(small).of_choice)


# ---------------------------------------------------------------------- what it costs


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize("total", [0, 1, 2, 3, 6])
def test_at_most_half_of_the_paper_on_the_hazard_map(hazard, delta, total):
    learned = learn_budget(hazard, mu=0.1, delta=delta, total=total, seed=1)
    each = samples_needed(134, 4, mu=0.1, delta=delta, bound="paper", num_damages=4)
    assert learned.uniform_samples["paper"] == each * hazard.num_choices
    assert learned.samples <= 0.5 * learned.uniform_samples["paper"]


@pytest.mark.parametrize("total", [0, 3, 10])
def test_at_most_half_of_the_paper_on_the_archipelago(total):
    mdp = asure.example("archipelago")
    learned = learn_budget(mdp, mu=0.05, delta=0.05, total=total, seed=1)
    assert learned.samples <= 0.5 * learned.uniform_samples["paper"]
    assert agrees(learned, mdp, asure.solve_budget(mdp))


def test_where_nobody_gets_nothing_is_sampled():
    mdp = asure.example("archipelago")
    learned = learn_budget(mdp, mu=0.05, delta=0.05, total=0, seed=1)
    assert np.count_nonzero(learned.kernel.samples) < 0.05 * mdp.num_choices


# ---------------------------------------------------------------------- how often it is wrong


def rare_world(choices=12):
    """Choices that each hide a rare way into the pit, beside a safe one: whoever misses one is wrong."""
    rows = [(s, 0, t, p, 0, 0) for s in range(choices) for t, p in ((s + 1, 0.8), (choices + 1, 0.2))]
    rows += [(s, 1, s, 1.0, 0, 0) for s in range(choices)]
    rows += [(choices + 1, 0, choices + 1, 1.0, 0, 1)]
    return asure.from_transitions(*zip(*rows, strict=True), terminal=[choices])


@pytest.mark.parametrize("total", [None, 0])
def test_failures_are_rarer_than_delta(total):
    mdp = rare_world()
    truth, delta, runs = asure.solve_budget(mdp), 0.3, 120
    wrong = sum(
        not agrees(learn_budget(mdp, mu=0.2, delta=delta, total=total, seed=seed, workers=1), mdp, truth)
        for seed in range(runs)
    )
    assert wrong <= delta * runs


def test_too_large_a_mu_does_fail():
    # The promise has a condition, and the test above can fail.
    mdp = rare_world()
    truth = asure.solve_budget(mdp)
    wrong = sum(
        not agrees(learn_budget(mdp, mu=0.8, delta=0.3, seed=seed, workers=1), mdp, truth) for seed in range(20)
    )
    assert wrong > 10


# ---------------------------------------------------------------------- words, errors, checkpoints


def test_the_statement():
    mdp = asure.example("paper")
    assert learn_budget(mdp, mu=0.01, delta=0.001, seed=1).statement == (
        "If no outcome is rarer than 1 %, this budget equals k* with probability at least 0.999."
    )
    learned = learn_budget(mdp, mu=0.01, delta=0.001, total=3, seed=1)
    assert learned.statement == (
        "If no outcome is rarer than 1 %, this budget is nowhere below k*, and from the start with a total of 3 or "
        "less its shield allows exactly what is safe, with probability at least 0.999."
    )
    assert learned.confidence.delta == 0.001
    assert f"{learned.samples:,} samples" in str(learned)


def test_bad_arguments(hazard):
    for bad in (0, 1, -1, 2, float("nan"), "0.1", None):
        with pytest.raises(ArgumentError, match="mu must"):
            learn_budget(hazard, mu=bad, delta=0.1)
        with pytest.raises(ArgumentError, match="delta must"):
            learn_budget(hazard, mu=0.1, delta=bad)
    for bad in (-1, 0.5, "2"):
        with pytest.raises(ArgumentError, match="total must"):
            learn_budget(hazard, mu=0.1, delta=0.1, total=bad)
    with pytest.raises(LimitReached, match="mu=1e-17 would take"):
        learn_budget(hazard, mu=1e-17, delta=0.1)
    with pytest.raises(ModelError, match="a sampler must be"):
        learn_budget(3, mu=0.1, delta=0.1)


def test_a_total_that_is_not_enough_is_certain():
    mdp = asure.example("quicksand")  # needs 2
    with pytest.raises(Infeasible, match="a total of 1 is not enough at the start: what was seen forces 2") as caught:
        learn_budget(mdp, mu=0.1, delta=0.01, total=1, seed=1)
    assert caught.value.needed == 2
    doomed = asure.from_transitions([0], [0], [0], [1], [0], [1])
    with pytest.raises(Infeasible, match="no total is enough"):
        learn_budget(doomed, mu=0.1, delta=0.01, total=5, seed=1)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_a_resumed_run_equals_a_straight_one(simulator, tmp_path, monkeypatch, part):
    monkeypatch.setattr(plan_module, "OTHER_CHUNK", 20)  # a round has several
    mdp, path = asure.example("corridor"), tmp_path / "run"
    options = {"mu": 0.5, "delta": 0.1, "total": 3, "seed": 3}
    straight = learn_budget(simulator(mdp), **options)
    sampler, calls = simulator(mdp), [0]
    inner = sampler._step

    def step(state, action, rng):
        calls[0] += 1
        if calls[0] == int(straight.samples * part):
            raise KeyboardInterrupt
        return inner(state, action, rng)

    sampler._step = step
    with pytest.raises(Interrupted, match="which are in the checkpoint") as stop:
        learn_budget(sampler, **options, checkpoint=path, checkpoint_seconds=0)
    assert calls[0] - 20 <= stop.value.kept.total < calls[0]  # of the samples, one chunk is lost at most
    resumed = learn_budget(simulator(mdp), **options, checkpoint=path)
    assert np.array_equal(resumed.kernel.count, straight.kernel.count)
    assert np.array_equal(resumed.kernel.reward, straight.kernel.reward)
    assert np.array_equal(resumed.budget.of_choice, straight.budget.of_choice)
    with pytest.raises(FileError, match=r"its delta is '0.1', this one's is '0.2'"):
        learn_budget(simulator(mdp), **{**options, "delta": 0.2}, checkpoint=path)
