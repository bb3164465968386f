"""Algorithm 2: what is counted, by whom, and what survives a crash."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

import almostsure as asure
import almostsure.learn.plan as plan_module
import almostsure.learn.tally as tally_module
from almostsure.errors import (
    ArgumentError,
    CorruptFile,
    FileError,
    Interrupted,
    LimitReached,
    ModelError,
    ModelMismatch,
    UnknownName,
)
from almostsure.files import load_tensors, save_tensors, tensors_kind
from almostsure.learn import FunctionSampler, build_kernel
from almostsure.learn.parallel import Crew, uninterrupted
from almostsure.learn.plan import Counter, Plan
from almostsure.learn.sampler import as_source
from almostsure.learn.tally import Tally
from almostsure.testing import mdps

FIELDS = ("choice", "next_state", "damage", "count", "reward", "samples")


def same(first, second):
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in FIELDS)


# ---------------------------------------------------------------------- counting


@given(mdps(), st.integers(1, 30), st.integers(0, 2**40))
def test_what_is_counted_is_possible_and_k_is_never_above(mdp, samples, seed):
    kernel = build_kernel(mdp, samples, seed=seed, workers=1)
    possible = set(zip(mdp.outcome_choices().tolist(), mdp.successor.tolist(), mdp.damage.tolist(), strict=True))
    seen = set(zip(kernel.choice.tolist(), kernel.next_state.tolist(), kernel.damage.tolist(), strict=True))
    assert seen <= possible
    assert (kernel.samples == samples).all()
    assert np.array_equal(np.bincount(kernel.choice, weights=kernel.count), kernel.samples)
    learned, truth = asure.minimal_budget(kernel.to_mdp()), asure.minimal_budget(mdp)
    assert (learned.of_choice <= truth.of_choice).all()
    if seen == possible:
        assert np.array_equal(learned.of_choice, truth.of_choice)


@given(mdps(max_outcomes=4), st.integers(0, 2**40))
def test_compiled_and_plain_count_alike(mdp, seed):
    source = as_source(mdp)
    counter = Counter(source)
    lengths = np.arange(mdp.num_choices) % 7 + 1
    plan = Plan(np.arange(mdp.num_choices), lengths, seed, 3, 5)
    for chunk in plan.chunks():
        plain, compiled = counter.count(chunk), counter.count(chunk._replace(compiled=True))
        assert all(np.array_equal(x, y) for x, y in zip(plain, compiled, strict=True))


def test_frequencies_approach_probabilities(hazard):
    kernel = build_kernel(hazard, 20_000, seed=1)
    mdp = kernel.to_mdp()
    assert mdp.num_outcomes == hazard.num_outcomes
    assert np.abs(mdp.probability - hazard.probability).max() < 0.02
    assert np.array_equal(mdp.successor, hazard.successor)
    assert np.allclose(mdp.reward, hazard.reward)
    assert mdp.state_names == hazard.state_names


def test_rewards_are_averaged():
    mdp = asure.from_transitions([0, 0], [0, 0], [0, 0], [0.5, 0.5], [0, 4], [1, 1])
    kernel = build_kernel(mdp, 1000, seed=1)
    assert kernel.count.tolist() == [1000]
    assert 1.5 < kernel.reward[0] < 2.5


def test_the_newest_outcome_of_a_scripted_simulator():
    script = [0, 0, 0, 1, 0, 2, 0, 0]  # the third outcome comes with the sixth sample
    calls = iter(script * 2)
    sampler = FunctionSampler(lambda s, a, rng: (0, 0.0, next(calls)), 1, 1)
    counter = Counter(as_source(sampler))
    tally = Tally(1, 1)
    for chunk in Plan(np.array([0]), np.array([8]), 0, 0, 5).chunks():
        tally.add(counter.count(chunk))
    tally.merge()
    assert tally.latest.tolist() == [6]
    tally.add(counter.count(Plan(np.array([0]), np.array([8]), 0, 1, 8).chunk(0)))
    tally.merge()
    assert tally.latest.tolist() == [6]
    assert tally.samples.tolist() == [16]
    assert tally.count.tolist() == [12, 2, 2]


# ---------------------------------------------------------------------- unknown choices


def test_unknown_choices_are_refused_by_default(hazard):
    kernel = build_kernel(hazard, 200, seed=1)
    truth = asure.minimal_budget(hazard)
    known = np.arange(hazard.num_choices) % 3 != 0
    refused = asure.minimal_budget(kernel.to_mdp(known=known))
    assert refused.mdp.num_states == hazard.num_states + 1
    assert refused.mdp.state_names[-1] == "unknown"
    assert (refused.of_choice[:-1][~known] == asure.INFINITE).all()
    assert (refused.of_choice[:-1] >= truth.of_choice).all()
    allowed = asure.minimal_budget(kernel.to_mdp("allow", known=known))
    assert (allowed.of_choice <= truth.of_choice).all()
    asure.check_minimal_budget(refused.mdp, refused)
    with pytest.raises(UnknownName, match="Choose from refuse, allow"):
        kernel.to_mdp("perhaps")
    with pytest.raises(ArgumentError, match="known must be 533 booleans"):
        kernel.to_mdp(known=known[:5])


# ---------------------------------------------------------------------- workers


def test_workers_do_not_matter_for_a_model(hazard, monkeypatch):
    monkeypatch.setattr(plan_module, "MODEL_CHUNK", 1000)
    first, *others = (build_kernel(hazard, 50, seed=4, workers=workers) for workers in (1, 2, 5))
    assert all(same(first, other) for other in others)
    assert not same(first, build_kernel(hazard, 50, seed=5))


def test_workers_do_not_matter_for_a_simulator(hazard, simulator, monkeypatch):
    monkeypatch.setattr(plan_module, "OTHER_CHUNK", 500)
    first, second = (build_kernel(simulator(hazard), 5, seed=4, workers=workers) for workers in (1, 3))
    assert same(first, second)


def test_errors_come_back_from_workers(hazard):
    def fails(state, action, rng):
        raise UnknownName("thing", "x", ["y"])

    sampler = FunctionSampler(fails, hazard.num_states, 4)
    with pytest.raises(ModelError, match="unknown thing 'x'"):
        build_kernel(sampler, 20, workers=2)


def test_a_worker_that_is_killed_is_replaced(hazard, simulator, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "OTHER_CHUNK", 200)
    parent, flag = os.getpid(), tmp_path / "killed"
    whole = simulator(hazard)
    straight = build_kernel(whole, 4, seed=2)
    inner = whole._step

    def dies_once(state, action, rng):
        if os.getpid() != parent and state == 60 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(state, action, rng)

    whole._step = dies_once
    assert same(build_kernel(whole, 4, seed=2, workers=2), straight)
    assert flag.exists()


def test_workers_that_keep_dying_are_an_error():
    parent = os.getpid()

    def dies(item):
        if os.getpid() != parent:
            os._exit(3)
        return item

    with Crew(dies, 2, processes=True) as crew, pytest.raises(LimitReached, match="died 5 times in a row"):
        list(crew.in_order(range(4)))


def test_results_come_in_order():
    def slow_first(item):
        time.sleep(0.02 if item == 0 else 0)
        return item

    with Crew(slow_first, 3, processes=False) as crew:
        assert list(crew.in_order(range(20))) == list(range(20))
        assert list(crew.in_order([])) == []


# ---------------------------------------------------------------------- checkpoints


def interrupting(sampler, after):
    """The simulator, with Ctrl-C at the given call."""
    calls, inner = [0], sampler._step

    def step(state, action, rng):
        calls[0] += 1
        if calls[0] == after:
            raise KeyboardInterrupt
        return inner(state, action, rng)

    sampler._step = step
    return sampler


def test_a_resumed_run_equals_a_straight_one(hazard, simulator, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "OTHER_CHUNK", 300)
    path = tmp_path / "run"
    straight = build_kernel(simulator(hazard), 5, seed=4)
    with pytest.raises(Interrupted, match="after 900 of 2,665 samples, which are in the checkpoint") as stop:
        build_kernel(interrupting(simulator(hazard), 1000), 5, seed=4, checkpoint=path, checkpoint_seconds=0)
    assert stop.value.kept.budget == 900
    assert same(build_kernel(simulator(hazard), 5, checkpoint=path), straight)  # the seed is in the checkpoint
    finished = build_kernel(interrupting(simulator(hazard), 1), 5, seed=4, checkpoint=path)  # nothing left to do
    assert same(finished, straight)


@settings(max_examples=20)
@given(mdps(), st.integers(0, 20), st.integers(1, 9))
def test_where_a_run_was_cut_does_not_matter(mdp, cut, size):
    counter = Counter(as_source(mdp))
    plan = Plan(np.arange(mdp.num_choices), np.full(mdp.num_choices, 10), 5, 0, size)
    straight, first, second = (Tally(mdp.num_choices, mdp.num_states) for _ in range(3))
    for chunk in plan.chunks():
        straight.add(counter.count(chunk))
    for chunk in list(plan.chunks())[:cut]:
        first.add(counter.count(chunk))
    second.restore(first.key, first.count, first.reward, first.samples, first.latest)
    for chunk in plan.chunks(min(cut, len(list(plan.chunks())))):
        second.add(counter.count(chunk))
    for name in ("key", "count", "reward", "samples", "latest"):
        assert np.array_equal(getattr(straight, name), getattr(second, name))


def test_a_checkpoint_of_a_simulator_that_was_changed_is_refused(tmp_path):
    def sampler(step):
        return FunctionSampler(step, 1, 1, max_damage=1)

    def chance(share):
        return lambda state, action, rng: (0, 0.0, int(rng.random() < share))

    path = tmp_path / "run"
    build_kernel(sampler(lambda state, action, rng: (0, 0.0, int(state in {1, "a", "b"}))), 5, seed=4, checkpoint=path)
    again = build_kernel(
        sampler(lambda state, action, rng: (0, 0.0, int(state in {1, "a", "b"}))), 5, seed=4, checkpoint=path
    )
    assert again.budget == 5
    for other in (lambda state, action, rng: (0, 0.0, int(state in {0, "a", "b"})), chance(0.5)):
        with pytest.raises(FileError, match="belongs to another run: its sampler is"):
            build_kernel(sampler(other), 5, seed=4, checkpoint=path)


@pytest.mark.parametrize("name", ["unique", "bincount", "maximum"])
def test_ctrl_c_while_counts_are_merged_loses_nothing(hazard, monkeypatch, name):
    counter = Counter(as_source(hazard))
    plan = counter.plan(np.arange(hazard.num_choices), np.full(hazard.num_choices, 3), seed=1)
    straight, struck = (Tally(hazard.num_choices, hazard.num_states) for _ in range(2))
    for chunk in plan.chunks():
        straight.add(counter.count(chunk))
        struck.add(counter.count(chunk))

    class Struck:
        def __getattr__(self, wanted):
            if wanted == name:
                raise KeyboardInterrupt
            return getattr(np, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(tally_module, "np", Struck())
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            struck.merge()
    for field in ("key", "count", "reward", "samples", "latest"):
        assert np.array_equal(getattr(straight, field), getattr(struck, field))


def test_a_checkpoint_of_another_run_is_refused(hazard, tmp_path):
    path = tmp_path / "run"
    build_kernel(hazard, 5, seed=4, checkpoint=path)
    with pytest.raises(FileError, match="belongs to another run: its seed is '4', this one's is '5'"):
        build_kernel(hazard, 5, seed=5, checkpoint=path)
    with pytest.raises(FileError, match="its samples of every choice is '5', this one's is '6'"):
        build_kernel(hazard, 6, seed=4, checkpoint=path)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        build_kernel("paper", 5, seed=4, checkpoint=path)
    slippery = asure.example("hazard-map", slip=0.2)  # the same choices, other probabilities
    with pytest.raises(FileError, match="its sampler is"):
        build_kernel(slippery, 5, seed=4, checkpoint=path)


def test_a_damaged_checkpoint_is_refused(hazard, tmp_path):
    path = tmp_path / "run"
    build_kernel(hazard, 5, seed=4, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(CorruptFile, match="damaged"):
        build_kernel(hazard, 5, seed=4, checkpoint=path)
    path.write_bytes(content)
    kind, model = tensors_kind(path), as_source(hazard).blank.fingerprint
    arrays, header = load_tensors(path, kind=kind, model=model)

    def save_file(arrays, path, header):
        strings = {name: text for name, text in header.items() if name not in ("format", "version", "model", "sha256")}
        save_tensors(path, kind=kind, model=model, arrays=arrays, strings=strings)

    arrays["count"][0] += 1
    save_file(arrays, path, header)
    with pytest.raises(CorruptFile, match="does not hold a tally"):
        build_kernel(hazard, 5, seed=4, checkpoint=path)
    arrays["count"][0] -= 1
    for position in ("[]", "{}", '{"chunk": -1}', '{"chunk": 1, "round": 0}'):
        save_file(arrays, path, {**header, "position": position})
        with pytest.raises(CorruptFile, match="how far its run was"):
            build_kernel(hazard, 5, seed=4, checkpoint=path)
    save_file(arrays, path, {**header, "position": '{"chunk": 0}'})  # they would be drawn and counted once more
    with pytest.raises(CorruptFile, match="holds other samples than those that it says were drawn"):
        build_kernel(hazard, 5, seed=4, checkpoint=path)
    save_file({**arrays, "latest": arrays["samples"] + 1}, path, header)
    with pytest.raises(CorruptFile, match="does not hold a tally"):
        build_kernel(hazard, 5, seed=4, checkpoint=path)


PROGRAM = """
    import sys, time
    import numpy as np
    import almostsure as asure
    import almostsure.learn.plan as plan
    from almostsure.learn import FunctionSampler, build_kernel

    plan.OTHER_CHUNK = 100
    slow = float(sys.argv[2])

    def step(state, action, rng):
        time.sleep(slow)
        return int(rng.integers(5)), float(rng.normal()), int(rng.random() < 0.1)

    sampler = FunctionSampler(step, 5, 2, max_damage=1)
    kernel = build_kernel(sampler, 200, seed=8, checkpoint=sys.argv[1] or None, checkpoint_seconds=0, workers=2)
    print(kernel.count.tolist(), kernel.reward.tolist())
"""


COUNTING = """
    import sys, time
    import almostsure.learn.plan as plan
    from almostsure.learn import FunctionSampler, {learner}

    plan.OTHER_CHUNK = 50
    drawn = open(sys.argv[2], "ab", buffering=0)

    def step(state, action, rng):
        drawn.write(b".")
        time.sleep(0.002)
        return int(rng.integers(5)), float(rng.normal()), int(rng.random() < 0.1)

    {learner}(FunctionSampler(step, 5, 2), {numbers}, seed=8, checkpoint=sys.argv[1], checkpoint_seconds=0.2)
"""


@pytest.mark.parametrize(
    ("learner", "numbers"), [("build_kernel", "100_000"), ("learn_minimal_budget", "mu=0.0001, delta=0.1")]
)
def test_kill_9_loses_at_most_the_last_interval(tmp_path, learner, numbers):
    program, path, drawn = tmp_path / "program.py", tmp_path / "run", tmp_path / "drawn"
    program.write_text(textwrap.dedent(COUNTING).format(learner=learner, numbers=numbers))
    victim = subprocess.Popen([sys.executable, str(program), str(path), str(drawn)])
    deadline = time.monotonic() + 60
    while not path.exists() and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    saved = path.stat().st_mtime_ns
    while path.stat().st_mtime_ns == saved and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    kept = int(load_file(path)["samples"].sum())
    assert kept > 0
    assert 0 <= drawn.stat().st_size - kept <= 0.2 / 0.002 + 2 * 50  # an interval, and the chunks at either end of it


def test_kill_9_then_resume(tmp_path):
    program, path = tmp_path / "program.py", tmp_path / "run"
    program.write_text(textwrap.dedent(PROGRAM))

    def arguments(checkpoint, slow):
        return [sys.executable, str(program), str(checkpoint), str(slow)]

    victim = subprocess.Popen(arguments(path, 0.002), start_new_session=True)
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert path.exists()
    straight = subprocess.run(arguments("", 0), capture_output=True, text=True, check=True).stdout
    resumed = subprocess.run(arguments(path, 0), capture_output=True, text=True, check=True).stdout
    assert resumed == straight
    assert "[" in straight
    while living(victim.pid) and time.monotonic() < deadline:  # orphaned workers notice within half a second
        time.sleep(0.1)
    assert living(victim.pid) == []


def living(group):
    """The processes of a group that still run; the dead whom nobody buried do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, process_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == group and state != "Z":
                found.append(path.parent.name)
    return found


# ---------------------------------------------------------------------- arguments, interruption


def test_bad_arguments(hazard):
    for bad in (0, -1, 2.5, "3", None):
        with pytest.raises(ArgumentError, match="samples must"):
            build_kernel(hazard, bad)
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        build_kernel(hazard, 5, workers=0)
    with pytest.raises(ArgumentError, match="seed must"):
        build_kernel(hazard, 5, seed=-1)
    with pytest.raises(ArgumentError, match="checkpoint_seconds must be a number, 0 or more"):
        build_kernel(hazard, 5, checkpoint_seconds=float("nan"))
    with pytest.raises(FileError, match="cannot write"):
        build_kernel(hazard, 5, checkpoint="no/such/folder/run")
    with pytest.raises(LimitReached, match="too many to count"):
        build_kernel(hazard, 10**30)


def test_a_fresh_seed_is_told(hazard):
    kernel = build_kernel(hazard, 5)
    assert same(build_kernel(hazard, 5, seed=kernel.seed), kernel)


def test_ctrl_c_waits_for_the_end_of_a_block():
    done = []

    def block():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")
        done.append("more")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        block()
    assert done == ["all of it"]
    thread = threading.Thread(target=lambda: uninterrupted().__enter__())  # handlers belong to the main thread
    thread.start()
    thread.join()


def test_too_many_to_count():
    with pytest.raises(LimitReached, match="too many to count"):
        Tally(2**40, 2**40)
