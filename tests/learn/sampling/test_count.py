"""Algorithm 2: counts, workers and interruptions."""

import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import almostsure as asure
import almostsure.learn.counts as counts_module
import almostsure.learn.sampling.count as sampling_module
from almostsure.errors import (
    ArgumentError,
    FileError,
    LimitReached,
    ModelError,
    ModelMismatch,
    UnknownName,
)
from almostsure.learn import FunctionSampler, count_outcomes
from almostsure.learn.counts import Counts
from almostsure.learn.sampling.count import Counter, Schedule
from almostsure.learn.sampling.samplers import as_sampler
from almostsure.testing import mdps

from ..alike import same

# ---------------------------------------------------------------------- counting


@given(mdps(), st.integers(1, 30), st.integers(0, 2**40))
def test_counted_outcomes_are_possible_and_k_is_never_above(mdp, samples, seed):
    counts = count_outcomes(mdp, samples, seed=seed, workers=1)
    possible = set(zip(mdp.outcome_choices().tolist(), mdp.successor.tolist(), mdp.damage.tolist(), strict=True))
    seen = set(zip(counts.choice.tolist(), counts.next_state.tolist(), counts.damage.tolist(), strict=True))
    assert seen <= possible
    assert (counts.samples == samples).all()
    assert np.array_equal(np.bincount(counts.choice, weights=counts.times), counts.samples)
    learned, truth = asure.minimal_budget(counts.to_mdp()), asure.minimal_budget(mdp)
    assert (learned.of_choice <= truth.of_choice).all()
    if seen == possible:
        assert np.array_equal(learned.of_choice, truth.of_choice)


@given(mdps(max_outcomes=4), st.integers(0, 2**40))
def test_compiled_and_plain_count_alike(mdp, seed):
    source = as_sampler(mdp)
    counter = Counter(source)
    lengths = np.arange(mdp.num_choices) % 7 + 1
    schedule = Schedule(np.arange(mdp.num_choices), lengths, seed, 3, 5)
    for chunk in schedule.chunks():
        plain, compiled = counter.count(chunk), counter.count(chunk._replace(compiled=True))
        assert all(np.array_equal(x, y) for x, y in zip(plain, compiled, strict=True))


def test_frequencies_approach_probabilities(hazard):
    counts = count_outcomes(hazard, 20_000, seed=1)
    mdp = counts.to_mdp()
    assert mdp.num_outcomes == hazard.num_outcomes
    assert np.abs(mdp.probability - hazard.probability).max() < 0.02
    assert np.array_equal(mdp.successor, hazard.successor)
    assert np.allclose(mdp.reward, hazard.reward)
    assert mdp.state_names == hazard.state_names


def test_an_empirical_model_keeps_names_and_labels():
    wet = asure.from_transitions(
        [0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [0, 1], terminal=[1], state_names=["bank", "river"], labels={"wet": [1]}
    )  # fmt: skip
    assert count_outcomes(wet, 1, seed=0).to_mdp().label("wet").tolist() == [False, True]
    nothing_known = Counts(wet).to_mdp()
    assert nothing_known.state_names == ("bank", "river", "unknown")
    assert nothing_known.label("wet").tolist() == [False, True, False]


def test_rewards_are_averaged():
    mdp = asure.from_transitions([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0, 4], [1, 1])
    counts = count_outcomes(mdp, 1000, seed=1)
    assert counts.times.tolist() == [1000]
    assert 1.5 < counts.reward[0] < 2.5


def test_the_newest_outcome_of_a_scripted_simulator():
    script = [0, 0, 0, 1, 0, 2, 0, 0]  # the third outcome comes with the sixth sample
    calls = iter(script * 2)
    sampler = FunctionSampler(lambda s, a, rng: (0, 0.0, next(calls)), 1, 1)
    counter = Counter(as_sampler(sampler))
    counts = as_sampler(sampler).new_counts(None)
    for chunk in Schedule(np.array([0]), np.array([8]), 0, 0, 5).chunks():
        counts.add(counter.count(chunk))
    counts.merge()
    assert counts.latest.tolist() == [6]
    counts.add(counter.count(Schedule(np.array([0]), np.array([8]), 0, 1, 8).chunk(0)))
    counts.merge()
    assert counts.latest.tolist() == [6]
    assert counts.samples.tolist() == [16]
    assert counts.times.tolist() == [12, 2, 2]


# ---------------------------------------------------------------------- unknown choices


def test_unknown_choices_are_refused_by_default(hazard):
    counts = count_outcomes(hazard, 200, seed=1)
    truth = asure.minimal_budget(hazard)
    known = np.arange(hazard.num_choices) % 3 != 0
    refused = asure.minimal_budget(counts.to_mdp(known=known))
    assert refused.mdp.num_states == hazard.num_states + 1
    assert refused.mdp.state_names[-1] == "unknown"
    assert (refused.of_choice[:-1][~known] == asure.INFINITE).all()
    assert (refused.of_choice[:-1] >= truth.of_choice).all()
    allowed = asure.minimal_budget(counts.to_mdp("allow", known=known))
    assert (allowed.of_choice <= truth.of_choice).all()
    asure.check_minimal_budget(refused.mdp, refused)
    with pytest.raises(UnknownName, match="There are: refuse, allow"):
        counts.to_mdp("perhaps")
    with pytest.raises(ArgumentError, match="known must be 533 booleans"):
        counts.to_mdp(known=known[:5])


# ---------------------------------------------------------------------- workers


def test_workers_do_not_matter_for_a_model(hazard, monkeypatch):
    monkeypatch.setattr(sampling_module, "MODEL_CHUNK", 1000)
    first, *others = (count_outcomes(hazard, 50, seed=4, workers=workers) for workers in (1, 2, 5))
    assert all(same(first, other) for other in others)
    assert not same(first, count_outcomes(hazard, 50, seed=5))


def test_workers_do_not_matter_for_a_simulator(hazard, simulator, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 500)
    first, second = (count_outcomes(simulator(hazard), 5, seed=4, workers=workers) for workers in (1, 3))
    assert same(first, second)


def test_errors_come_back_from_workers(hazard):
    def fails(state, action, rng):
        raise UnknownName("thing", "x", ["y"])

    sampler = FunctionSampler(fails, hazard.num_states, 4)
    with pytest.raises(ModelError, match="unknown thing 'x'"):
        count_outcomes(sampler, 20, workers=2)


def test_a_worker_that_is_killed_is_replaced(hazard, simulator, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 200)
    parent, flag = os.getpid(), tmp_path / "killed"
    whole = simulator(hazard)
    straight = count_outcomes(whole, 4, seed=2)
    inner = whole._step

    def dies_once(state, action, rng):
        if os.getpid() != parent and state == 60 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(state, action, rng)

    whole._step = dies_once
    assert same(count_outcomes(whole, 4, seed=2, workers=2), straight)
    assert flag.exists()


# ---------------------------------------------------------------------- parts of a run


@settings(max_examples=20)
@given(mdps(), st.integers(0, 20), st.integers(1, 9))
def test_it_does_not_matter_where_a_run_was_interrupted(mdp, cut, size):
    counter = Counter(as_sampler(mdp))
    schedule = Schedule(np.arange(mdp.num_choices), np.full(mdp.num_choices, 10), 5, 0, size)
    straight, first, second = (Counts(mdp) for _ in range(3))
    for chunk in schedule.chunks():
        straight.add(counter.count(chunk))
    for chunk in list(schedule.chunks())[:cut]:
        first.add(counter.count(chunk))
    second.restore(first.to_arrays())
    for chunk in schedule.chunks(min(cut, len(list(schedule.chunks())))):
        second.add(counter.count(chunk))
    assert all(np.array_equal(second.to_arrays()[name], array) for name, array in straight.to_arrays().items())


def test_restored_counts_replace_those_before():
    counts, other = (Counts(asure.example("paper")) for _ in range(2))
    counts.see(0, 0, 1)
    other.see(1, 1, 0, times=2)
    counts.restore(other.to_arrays())
    assert not counts.has_seen(0, 0, 1)
    assert (counts.total, counts.num_outcomes) == (2, 1)


@settings(max_examples=20)
@given(mdps(), st.integers(0, 20), st.integers(1, 9))
def test_a_sum_of_counts_is_worth_all_of_their_samples(mdp, cut, size):
    counter = Counter(as_sampler(mdp))
    schedule = Schedule(np.arange(mdp.num_choices), np.full(mdp.num_choices, 10), 5, 0, size)
    every, first, second = (Counts(mdp) for _ in range(3))
    for number, chunk in enumerate(schedule.chunks()):
        block = counter.count(chunk)
        every.add(block)
        (first if number < cut else second).add(block)
    before = first.total, second.total
    added = first + second
    assert (first.total, second.total) == before
    for name, array in every.to_arrays().items():
        assert np.allclose(added.to_arrays()[name], array, rtol=1e-12, atol=1e-12), name
    minimal, whole = asure.minimal_budget(added.to_mdp()), asure.minimal_budget(every.to_mdp())
    assert np.array_equal(minimal.of_choice, whole.of_choice)
    assert added.confidence(0.01) == every.confidence(0.01)


def test_a_sum_keeps_the_caveats_of_its_parts():
    first, second = (Counts(asure.example("paper"), max_damage=1, caveat=text) for text in ("If dry.", "If warm."))
    first.see(0, 0, 1, reward=1.0)
    second.see(0, 0, 3, reward=2.0, times=2)
    added = first + second + Counts(asure.example("paper"), caveat="If dry.")
    assert added.caveat == "If dry. If warm."
    assert (added.max_damage, added.latest[0], added.seed) == (255, 2, None)
    assert added.damage.tolist() == [1, 3]


def test_counts_of_another_space_or_of_the_same_samples_are_not_added():
    counts = count_outcomes("paper", 3, seed=1)
    nameless = asure.from_transitions([0, 0], [0, 1], [0, 1], [1, 1], [1, 0], [1, 0], terminal=[1])
    with pytest.raises(ModelMismatch, match=r"the same states, .* state 0 is 'circle', not 'r0c0'\. Use the"):
        counts + Counts(asure.example("corridor"))
    for other in (Counts(nameless), Counts(asure.example("paper"), ended=[1])):
        with pytest.raises(ModelMismatch, match=r"added must have the same states, .*; these differ\. Use the same"):
            counts + other
    with pytest.raises(ArgumentError, match=r"must be of different samples; both have seed 1\. Draw one of them"):
        counts + count_outcomes("paper", 3, seed=1)
    with pytest.raises(TypeError, match="unsupported operand"):
        counts + 3


@pytest.mark.parametrize("name", ["argsort", "bincount", "minimum"])
def test_ctrl_c_while_counts_are_merged_loses_nothing(hazard, monkeypatch, name):
    counter = Counter(as_sampler(hazard))
    schedule = counter.schedule(np.arange(hazard.num_choices), np.full(hazard.num_choices, 3), seed=1)
    straight, struck = (Counts(hazard) for _ in range(2))
    for chunk in schedule.chunks():
        straight.add(counter.count(chunk))
        struck.add(counter.count(chunk))

    class Struck:
        def __getattr__(self, wanted):
            if wanted == name:
                raise KeyboardInterrupt
            return getattr(np, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(counts_module, "np", Struck())
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            struck.merge()
    assert all(np.array_equal(struck.to_arrays()[field], array) for field, array in straight.to_arrays().items())


# ---------------------------------------------------------------------- arguments, interruption


def test_bad_arguments(hazard):
    for bad in (0, -1, 2.5, "3", None):
        with pytest.raises(ArgumentError, match="samples must"):
            count_outcomes(hazard, bad)
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        count_outcomes(hazard, 5, workers=0)
    with pytest.raises(ArgumentError, match="seed must"):
        count_outcomes(hazard, 5, seed=-1)
    with pytest.raises(ArgumentError, match="checkpoint_seconds must be a number; got NaN"):
        count_outcomes(hazard, 5, checkpoint_seconds=float("nan"))
    with pytest.raises(FileError, match="cannot write"):
        count_outcomes(hazard, 5, checkpoint="no/such/folder/run")
    with pytest.raises(LimitReached, match="too many to count"):
        count_outcomes(hazard, 10**30)


def test_a_fresh_seed_is_in_the_result(hazard):
    counts = count_outcomes(hazard, 5)
    assert same(count_outcomes(hazard, 5, seed=counts.seed), counts)


def test_too_many_to_count(monkeypatch):
    monkeypatch.setattr(counts_module, "DAMAGES", 2**62)
    with pytest.raises(LimitReached, match="too many to count"):
        Counts(asure.example("paper"))
