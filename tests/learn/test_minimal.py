"""learn_minimal_budget: its results, its number of samples, its guarantee, and how often it is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
import almostsure.learn.minimal as budget_module
import almostsure.learn.sampling.count as sampling_module
from almostsure.errors import ArgumentError, FileError, Infeasible, Interrupted, LimitReached, ModelError
from almostsure.learn import learn_minimal_budget, samples_needed
from almostsure.learn.minimal import reachable_choices
from almostsure.model import Steps, product
from almostsure.model.arrays import spans
from almostsure.model.origin import NO_STATEMENT
from almostsure.plan import suggest_budget
from almostsure.policy.explore import Played, explore
from almostsure.testing import mdps


def explored(mdp, of_choice, budget):
    """The choices that a shield allows on runs from the start, by a search over all pairs (state, remaining)."""

    def allowed(states, remaining):
        choice, owner = spans(mdp.choice_ptr, states)
        return Played(choice[of_choice[choice] <= remaining], owner[of_choice[choice] <= remaining])

    found = np.zeros(mdp.num_choices, bool)
    for step in explore(mdp, allowed, budget):
        found[step.choice] = True
    return found


def agrees(learned, mdp, truth):
    """Whether the guarantee holds: k' ≥ k* everywhere, and equality on runs under the true shield."""
    mine = learned.minimal.of_choice[: mdp.num_choices]
    if learned.budget is None:
        return np.array_equal(mine, truth.of_choice)
    here = reachable_choices(mdp, truth.of_choice, learned.budget)
    return (mine >= truth.of_choice).all() and np.array_equal(mine[here], truth.of_choice[here])


# ---------------------------------------------------------------------- results


@given(mdps(max_damage=3), st.integers(0, 6))
def test_reachable_choices(mdp, budget):
    truth = asure.minimal_budget(mdp)
    if truth.smallest_budget() <= budget:
        assert np.array_equal(reachable_choices(mdp, truth.of_choice, budget), explored(mdp, truth.of_choice, budget))


@settings(max_examples=150)
@given(mdps(max_damage=2), st.integers(0, 5), st.integers(0, 2**40))
def test_the_guarantee_on_random_models(mdp, budget, seed):
    truth, mu = asure.minimal_budget(mdp), rarest(mdp)
    # The examples are always the same, and 150 · 10⁻⁴ is little.
    everything = learn_minimal_budget(mdp, mu=mu, delta=1e-4, seed=seed, workers=1)
    assert agrees(everything, mdp, truth)
    if truth.smallest_budget() > budget:
        with pytest.raises(Infeasible, match="enough at the start: the observed outcomes force") as caught:
            learn_minimal_budget(mdp, mu=mu, delta=1e-4, seed=seed, budget=budget, workers=1)
        assert budget < caught.value.needed <= truth.smallest_budget() or truth.smallest_budget() == asure.INFINITE
        return
    learned = learn_minimal_budget(mdp, mu=mu, delta=1e-4, seed=seed, budget=budget, workers=1)
    assert agrees(learned, mdp, truth)
    asure.check_minimal_budget(learned.mdp, learned.minimal)
    shield, real = learned.shield, asure.Shield(truth)
    for start in mdp.initial_states.tolist():
        for left in range(int(truth.of_state[start]), budget + 1):
            assert shield.allowed(start, left).tolist() == real.allowed(start, left).tolist()


def rarest(mdp):
    key = (mdp.outcome_choices().astype(np.int64) * mdp.num_states + mdp.successor) * 256 + mdp.damage
    _, group = np.unique(key, return_inverse=True)
    return min(float(np.bincount(group, weights=mdp.probability).min()) * (1 - 1e-9), 0.999)


def test_the_seed_decides(hazard, simulator, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 300)
    first, second = (learn_minimal_budget(hazard, mu=0.1, delta=0.1, budget=1, seed=3, workers=w) for w in (1, 2))
    assert np.array_equal(first.counts.times, second.counts.times)
    assert first.samples == second.samples
    small = asure.example("corridor")
    third, fourth = (
        learn_minimal_budget(simulator(small), mu=0.5, delta=0.1, budget=2, seed=3, workers=w) for w in (1, 2)
    )
    assert np.array_equal(third.counts.times, fourth.counts.times)
    assert np.array_equal(third.minimal.of_choice, fourth.minimal.of_choice)


def test_the_guarantee_includes_smaller_budgets(hazard):
    truth, learned = asure.minimal_budget(hazard), learn_minimal_budget(hazard, mu=0.1, delta=0.001, budget=4, seed=1)
    for budget in range(5):
        here = reachable_choices(hazard, truth.of_choice, budget)
        assert np.array_equal(learned.minimal.of_choice[: hazard.num_choices][here], truth.of_choice[here])


def test_rounds_of_simulators_are_bounded(hazard, simulator, monkeypatch):
    monkeypatch.setattr(budget_module, "MOST_AT_ONCE", 100)
    small = asure.example("corridor")
    learned = learn_minimal_budget(simulator(small), mu=0.9, delta=0.1, seed=3)
    assert np.array_equal(learned.minimal.of_choice, asure.minimal_budget(small).of_choice)


# ---------------------------------------------------------------------- the number of samples


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize("budget", [0, 1, 2, 3, 6])
def test_at_most_half_of_the_paper_on_the_hazard_map(hazard, delta, budget):
    learned = learn_minimal_budget(hazard, mu=0.1, delta=delta, budget=budget, seed=1)
    each = samples_needed(134, 4, mu=0.1, delta=delta, bound="paper", num_damages=4)
    assert learned.uniform_samples["paper"] == each * hazard.num_choices
    assert learned.samples <= 0.5 * learned.uniform_samples["paper"]


@pytest.mark.parametrize("budget", [0, 3, 10])
def test_at_most_half_of_the_paper_on_the_archipelago(budget):
    mdp = asure.example("archipelago")
    learned = learn_minimal_budget(mdp, mu=0.05, delta=0.05, budget=budget, seed=1)
    assert learned.samples <= 0.5 * learned.uniform_samples["paper"]
    assert agrees(learned, mdp, asure.minimal_budget(mdp))


def test_unreachable_states_are_not_sampled():
    mdp = asure.example("archipelago")
    learned = learn_minimal_budget(mdp, mu=0.05, delta=0.05, budget=0, seed=1)
    assert np.count_nonzero(learned.counts.samples) < 0.05 * mdp.num_choices


# ---------------------------------------------------------------------- how often it is wrong


def rare_world(choices=12):
    """Choices with a rare outcome into the pit each, beside a safe one: a learner that misses one outcome is wrong."""
    rows = [(s, 0, t, p, 0, 0) for s in range(choices) for t, p in ((s + 1, 0.8), (choices + 1, 0.2))]
    rows += [(s, 1, s, 1.0, 0, 0) for s in range(choices)]
    rows += [(choices + 1, 0, choices + 1, 1.0, 0, 1)]
    return asure.from_transitions(*zip(*rows, strict=True), terminal=[choices])


@pytest.mark.parametrize("budget", [None, 0])
def test_failures_are_rarer_than_delta(budget):
    mdp = rare_world()
    truth, delta, runs = asure.minimal_budget(mdp), 0.3, 120
    wrong = sum(
        not agrees(learn_minimal_budget(mdp, mu=0.2, delta=delta, budget=budget, seed=seed, workers=1), mdp, truth)
        for seed in range(runs)
    )
    assert wrong <= delta * runs


def test_too_large_a_mu_does_fail():
    # The guarantee has a condition, and the test above can fail.
    mdp = rare_world()
    truth = asure.minimal_budget(mdp)
    wrong = sum(
        not agrees(learn_minimal_budget(mdp, mu=0.5, delta=0.3, seed=seed, workers=1), mdp, truth) for seed in range(20)
    )
    assert wrong > 10
    for seed in range(20):  # above 1/2, a second outcome of any choice refutes it
        with pytest.raises(ArgumentError, match="one choice showed 2 different outcomes"):
            learn_minimal_budget(mdp, mu=0.8, delta=0.3, seed=seed, workers=1)


# ---------------------------------------------------------------------- text, errors, checkpoints


def test_the_statement():
    mdp = asure.example("paper")
    assert learn_minimal_budget(mdp, mu=0.01, delta=0.001, seed=1).statement == (
        "If no outcome is rarer than 1 %, this budget equals k* with probability at least 0.999."
    )
    learned = learn_minimal_budget(mdp, mu=0.01, delta=0.001, budget=3, seed=1)
    assert learned.statement == (
        "If no outcome is rarer than 1 %, this budget is nowhere below k*, and from the start with a budget of 3 or "
        "less its shield allows exactly what is safe, with probability at least 0.999."
    )
    assert learned.confidence.delta == 0.001
    assert f"{learned.samples:,} samples" in str(learned)


def test_a_learned_model_keeps_the_statement():
    learned = learn_minimal_budget(asure.example("paper"), mu=0.2, delta=0.1, seed=0)
    said = f"Learned from {learned.samples:,} samples. If no outcome is rarer than 20 %, its minimal budget equals k* "
    assert learned.mdp.origin.learned == f"{said}with probability at least 0.9."
    assert learned.mdp.origin.learned in str(asure.solve_policy(learned.mdp, asure.AlmostSure(1)))
    assert "bounds       in the model, which was learned from samples: " in str(
        asure.solve_policy(learned.mdp, asure.AlmostSure(1))
    )
    assert learned.mdp.origin.learned in repr(suggest_budget(learned.mdp))
    assert "the model was learned from samples" in repr(learned.minimal)
    changed = learned.mdp.with_damage(2 * learned.mdp.damage)  # for which there is no statement
    assert changed.origin.learned == product(learned.mdp, Steps(2)).origin.learned == NO_STATEMENT
    assert learned.counts.to_mdp().origin.learned == NO_STATEMENT
    assert asure.example("paper").origin.learned == ""


def test_bad_arguments(hazard):
    for bad in (0, 1, -1, 2, float("nan"), "0.1", None):
        with pytest.raises(ArgumentError, match="mu must"):
            learn_minimal_budget(hazard, mu=bad, delta=0.1)
        with pytest.raises(ArgumentError, match="delta must"):
            learn_minimal_budget(hazard, mu=0.1, delta=bad)
    for bad in (-1, 0.5, "2"):
        with pytest.raises(ArgumentError, match="budget must"):
            learn_minimal_budget(hazard, mu=0.1, delta=0.1, budget=bad)
    with pytest.raises(LimitReached, match="mu=1e-17 would take"):
        learn_minimal_budget(hazard, mu=1e-17, delta=0.1)
    with pytest.raises(
        LimitReached, match=r"at most 1e\+14 samples or so; mu=1e-12 would take 7\.9e\+15\. Choose a larger"
    ):
        learn_minimal_budget(hazard, mu=1e-12, delta=0.1)
    learned = asure.learn_minimal_budget("corridor", mu=0.3, delta=0.1, seed=0)
    with pytest.raises(ArgumentError, match=r"got LearnedBudget\. Its shield is its attribute shield"):
        asure.Shield(learned)
    with pytest.raises(ModelError, match=r"got LearnedBudget\. Its model is its attribute mdp"):
        asure.compare(learned, 2)
    with pytest.raises(ModelError, match="a sampler must be"):
        learn_minimal_budget(3, mu=0.1, delta=0.1)


def test_a_budget_that_is_not_enough_is_refused_with_certainty():
    mdp = asure.example("quicksand")  # needs 2
    with pytest.raises(
        Infeasible, match="a budget of 1 is not enough at the start: the observed outcomes force 2"
    ) as caught:
        learn_minimal_budget(mdp, mu=0.1, delta=0.01, budget=1, seed=1)
    assert caught.value.needed == 2
    doomed = asure.from_transitions([0], [0], [0], [1], [0], [1])
    with pytest.raises(Infeasible, match="no budget is enough"):
        learn_minimal_budget(doomed, mu=0.1, delta=0.01, budget=5, seed=1)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_a_resumed_run_equals_a_straight_one(simulator, tmp_path, monkeypatch, part):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 20)  # a round has several
    mdp, path = asure.example("corridor"), tmp_path / "run"
    options = {"mu": 0.5, "delta": 0.1, "budget": 3, "seed": 3}
    straight = learn_minimal_budget(simulator(mdp), **options)
    sampler, calls = simulator(mdp), [0]
    inner = sampler._step

    def step(state, action, rng):
        calls[0] += 1
        if calls[0] == int(straight.samples * part):
            raise KeyboardInterrupt
        return inner(state, action, rng)

    sampler._step = step
    with pytest.raises(Interrupted, match="which are in the checkpoint") as stop:
        learn_minimal_budget(sampler, **options, checkpoint=path, checkpoint_seconds=0)
    assert calls[0] - 20 <= stop.value.kept.total < calls[0]  # of the samples, one chunk is lost at most
    resumed = learn_minimal_budget(simulator(mdp), **options, checkpoint=path)
    assert np.array_equal(resumed.counts.times, straight.counts.times)
    assert np.array_equal(resumed.counts.reward, straight.counts.reward)
    assert np.array_equal(resumed.minimal.of_choice, straight.minimal.of_choice)
    with pytest.raises(FileError, match=r"its delta is '0.1', this one's is '0.2'"):
        learn_minimal_budget(simulator(mdp), **{**options, "delta": 0.2}, checkpoint=path)
