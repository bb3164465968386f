"""Resuming after a crash, and the checkpoints that are refused."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import almostsure as asure
import almostsure.learn.sampling.count as sampling_module
from almostsure.errors import ArgumentError, CorruptFile, FileError, Interrupted, ModelMismatch
from almostsure.files import load_tensors, save_tensors, tensors_kind
from almostsure.learn import FunctionSampler, count_outcomes, learn_minimal_budget

from ..alike import same


def interrupting(sampler, after):
    """The simulator, with Ctrl-C in the given call."""
    calls, inner = [0], sampler._step

    def step(state, action, rng):
        calls[0] += 1
        if calls[0] == after:
            raise KeyboardInterrupt
        return inner(state, action, rng)

    sampler._step = step
    return sampler


def test_a_resumed_run_equals_a_straight_one(hazard, simulator, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 300)
    path = tmp_path / "run"
    straight = count_outcomes(simulator(hazard), 5, seed=4)
    with pytest.raises(Interrupted, match="after 900 of 2,665 samples, which are in the checkpoint") as stop:
        count_outcomes(interrupting(simulator(hazard), 1000), 5, seed=4, checkpoint=path, checkpoint_seconds=0)
    assert stop.value.kept.total == 900
    assert same(count_outcomes(simulator(hazard), 5, checkpoint=path), straight)  # the seed is in the checkpoint
    tested = 16 * 32 + 1  # only the test of the checkpoint draws samples
    finished = count_outcomes(interrupting(simulator(hazard), tested), 5, seed=4, checkpoint=path)
    assert same(finished, straight)


def test_a_checkpoint_of_a_simulator_that_was_changed_is_refused(tmp_path):
    def sampler(step):
        return FunctionSampler(step, 1, 1, max_damage=1)

    def chance(share):
        return lambda state, action, rng: (0, 0.0, int(rng.random() < share))

    path = tmp_path / "run"
    count_outcomes(
        sampler(lambda state, action, rng: (0, 0.0, int(state in {1, "a", "b"}))), 5, seed=4, checkpoint=path
    )
    again = count_outcomes(
        sampler(lambda state, action, rng: (0, 0.0, int(state in {1, "a", "b"}))), 5, seed=4, checkpoint=path
    )
    assert again.total == 5
    for other in (lambda state, action, rng: (0, 0.0, int(state in {0, "a", "b"})), chance(0.5)):
        with pytest.raises(FileError, match="belongs to another run: its sampler is"):
            count_outcomes(sampler(other), 5, seed=4, checkpoint=path)


def test_a_checkpoint_of_another_run_is_refused(hazard, tmp_path):
    path = tmp_path / "run"
    count_outcomes(hazard, 5, seed=4, checkpoint=path)
    with pytest.raises(FileError, match="belongs to another run: its seed is '4', this one's is '5'"):
        count_outcomes(hazard, 5, seed=5, checkpoint=path)
    with pytest.raises(FileError, match="its samples of every choice is '5', this one's is '6'"):
        count_outcomes(hazard, 6, seed=4, checkpoint=path)
    with pytest.raises(ModelMismatch, match="belongs to another model"):
        count_outcomes("paper", 5, seed=4, checkpoint=path)
    slippery = asure.example("hazard-map", slip=0.2)  # the same choices, other probabilities
    with pytest.raises(FileError, match="its sampler is"):
        count_outcomes(slippery, 5, seed=4, checkpoint=path)


def test_a_damaged_checkpoint_is_refused(hazard, tmp_path):
    path = tmp_path / "run"
    count_outcomes(hazard, 5, seed=4, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(CorruptFile, match="damaged"):
        count_outcomes(hazard, 5, seed=4, checkpoint=path)
    path.write_bytes(content)
    kind, model = tensors_kind(path), hazard.space.fingerprint
    arrays, header = load_tensors(path, kind=kind, model=model)

    def save_file(arrays, path, header):
        strings = {name: text for name, text in header.items() if name not in ("format", "version", "model", "sha256")}
        save_tensors(path, kind=kind, model=model, arrays=arrays, strings=strings)

    arrays["times"][0] += 1
    save_file(arrays, path, header)
    with pytest.raises(CorruptFile, match="does not hold counts"):
        count_outcomes(hazard, 5, seed=4, checkpoint=path)
    arrays["times"][0] -= 1
    for position in ("[]", "{}", '{"chunk": -1}', '{"chunk": 1, "round": 0}'):
        save_file(arrays, path, {**header, "position": position})
        with pytest.raises(CorruptFile, match="the position of its run"):
            count_outcomes(hazard, 5, seed=4, checkpoint=path)
    save_file(arrays, path, {**header, "position": '{"chunk": 0}'})  # they would be drawn and counted once more
    with pytest.raises(CorruptFile, match=r"it holds 2,\d+ samples, and the position of its run says 0"):
        count_outcomes(hazard, 5, seed=4, checkpoint=path)
    save_file({**arrays, "latest": arrays["samples"] + 1}, path, header)
    with pytest.raises(CorruptFile, match="does not hold counts"):
        count_outcomes(hazard, 5, seed=4, checkpoint=path)


PROGRAM = """
    import sys, time
    import numpy as np
    import almostsure as asure
    import almostsure.learn.sampling.count as sampling
    from almostsure.learn import FunctionSampler, count_outcomes, learn_minimal_budget

    sampling.OTHER_CHUNK = 100
    slow = float(sys.argv[2])

    def step(state, action, rng):
        time.sleep(slow)
        return int(rng.integers(5)), float(rng.normal()), int(rng.random() < 0.1)

    sampler = FunctionSampler(step, 5, 2, max_damage=1, identity="walk")
    counts = count_outcomes(sampler, 200, seed=8, checkpoint=sys.argv[1] or None, checkpoint_seconds=0, workers=2)
    print(counts.times.tolist(), counts.reward.tolist())
"""


COUNTING = """
    import sys, time
    import almostsure.learn.sampling.count as sampling
    from almostsure.learn import FunctionSampler, {learner}

    sampling.OTHER_CHUNK = 50
    drawn = open(sys.argv[2], "ab", buffering=0)

    def step(state, action, rng):
        drawn.write(b".")
        time.sleep(0.002)
        return int(rng.integers(5)), float(rng.normal()), int(rng.random() < 0.1)

    {learner}(FunctionSampler(step, 5, 2), {numbers}, identity="walk", seed=8,
              checkpoint=sys.argv[1], checkpoint_seconds=0.2)
"""


@pytest.mark.parametrize(
    ("learner", "numbers"), [("count_outcomes", "100_000"), ("learn_minimal_budget", "mu=0.0001, delta=0.1")]
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
    """The processes of a group that still run, without zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, process_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == group and state != "Z":
                found.append(path.parent.name)
    return found


# ---------------------------------------------------------------------- a checkpoint belongs to its simulator


def coin(share):
    return lambda state, action, rng: (0, 0.0, int(rng.random() < share))


def test_the_closure_of_a_simulator_is_part_of_its_identity(tmp_path):
    path = tmp_path / "run"
    options = {"mu": 0.05, "delta": 0.05, "seed": 1, "checkpoint": path}
    harmless = learn_minimal_budget(FunctionSampler(coin(0.0), 1, 1, max_damage=1), **options)
    assert harmless.minimal.of_choice.tolist() == [0]
    with pytest.raises(FileError, match="belongs to another run: its sampler is"):
        learn_minimal_budget(FunctionSampler(coin(0.5), 1, 1, max_damage=1), **options)


def test_a_wrong_identity_is_noticed(tmp_path):
    path = tmp_path / "run"
    options = {"mu": 0.05, "delta": 0.05, "seed": 1, "checkpoint": path, "identity": "coin"}
    learn_minimal_budget(FunctionSampler(coin(0.0), 1, 1, max_damage=1), **options)
    with pytest.raises(FileError, match=r"belongs to another sampler: .* same outcome in all of .* shows another one"):
        learn_minimal_budget(FunctionSampler(coin(0.5), 1, 1, max_damage=1), **options)


def test_a_rare_outcome_is_not_a_contradiction(tmp_path):
    """An outcome of 1 % that 50 samples did not show may well occur when the choice is sampled again."""
    for seed in range(40):
        path = tmp_path / str(seed)
        options = {"seed": seed, "checkpoint": path, "identity": "coin"}
        count_outcomes(FunctionSampler(coin(0.01), 1, 1, max_damage=1), 50, **options)
        count_outcomes(FunctionSampler(coin(0.01), 1, 1, max_damage=1), 50, **options)


def test_without_an_identity_there_is_no_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    sampler = FunctionSampler(lambda s, a, _: (0, rng.random(), 0), 1, 1)
    with pytest.raises(ArgumentError, match=r"it holds an object of numpy\.random.*Generator\. Name .*identity"):
        count_outcomes(sampler, 5, checkpoint=tmp_path / "run")
    assert count_outcomes(sampler, 5, checkpoint=tmp_path / "run", identity="mine").total == 5
