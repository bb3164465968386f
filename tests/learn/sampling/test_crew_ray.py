"""Sampling on a Ray cluster: the same as on one machine bit for bit, even if processes die meanwhile."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import almostsure as asure
import almostsure.crew as crew_module
import almostsure.learn.sampling.count as sampling_module
from almostsure.errors import ArgumentError, LimitReached, MissingExtra, ModelError, UnknownName
from almostsure.learn import FunctionSampler, RayCluster, count_outcomes, learn_minimal_budget

from ..alike import same

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    """Ray, started once by the test and not by the library, since that takes many seconds."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield RayCluster()
    ray.shutdown()


def walk(state, action, rng):
    return int(rng.integers(5)), float(rng.normal()), int(rng.random() < 0.1)


def test_a_cluster_equals_one_machine(cluster, hazard, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 100)
    monkeypatch.setattr(sampling_module, "MODEL_CHUNK", 5000)
    sampler = FunctionSampler(walk, 5, 2, max_damage=1)
    assert same(count_outcomes(sampler, 100, seed=3, workers=cluster), count_outcomes(sampler, 100, seed=3))
    assert same(count_outcomes(hazard, 50, seed=3, workers=cluster), count_outcomes(hazard, 50, seed=3))
    there, here = (learn_minimal_budget(sampler, mu=0.05, delta=0.1, seed=3, workers=w) for w in (cluster, 1))
    assert same(there.counts, here.counts)
    assert ray.is_initialized()  # it is not ours to stop


def test_a_worker_that_is_killed_is_replaced(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 100)
    driver, flag = os.getpid(), tmp_path / "killed"

    def dies_once(state, action, rng):
        if os.getpid() != driver and state == 3 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return walk(state, action, rng)

    sampler = FunctionSampler(dies_once, 5, 2, max_damage=1)
    assert same(count_outcomes(sampler, 100, seed=3, workers=cluster), count_outcomes(sampler, 100, seed=3))
    assert flag.exists()


def test_workers_that_keep_dying_are_an_error(cluster, monkeypatch):
    monkeypatch.setattr(crew_module, "PATIENCE", 0)
    driver = os.getpid()

    def dies(state, action, rng):
        if os.getpid() != driver:
            os._exit(3)
        return walk(state, action, rng)

    with pytest.raises(LimitReached, match="gave up a task whose workers died 1 times"):
        count_outcomes(FunctionSampler(dies, 5, 2), 10, workers=cluster)


def test_errors_come_back(cluster):
    def fails(state, action, rng):
        raise UnknownName("thing", "x", ["y"])

    with pytest.raises(ModelError, match=r"^unknown thing 'x'"):
        count_outcomes(FunctionSampler(fails, 5, 2), 10, workers=cluster)
    with pytest.raises(ModelError, match="next states must be integers 0 … 4") as caught:
        count_outcomes(FunctionSampler(lambda s, a, rng: (7, 0.0, 0), 5, 2), 10, workers=cluster)
    assert caught.value.state == 0
    lock = threading.Lock()

    def unsendable(state, action, rng):
        with lock:
            return walk(state, action, rng)

    with pytest.raises(ModelError, match="a task for a cluster must be picklable"):
        count_outcomes(FunctionSampler(unsendable, 5, 2), 10, workers=cluster)


def test_bad_arguments(monkeypatch):
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        RayCluster(workers=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'almostsure\[ray\]'"):
        count_outcomes(asure.example("paper"), 5, workers=RayCluster())


PROGRAM = """
    import sys, time
    import almostsure.learn.sampling.count as sampling
    from almostsure.learn import FunctionSampler, RayCluster, count_outcomes

    sampling.OTHER_CHUNK = 100

    def step(state, action, rng):
        time.sleep(0.002)
        return int(rng.integers(5)), float(rng.normal()), int(rng.random() < 0.1)

    sampler = FunctionSampler(step, 5, 2, max_damage=1)
    sampler.identity = "walk"
    count_outcomes(sampler, 1000, seed=8, checkpoint=sys.argv[1], checkpoint_seconds=0, workers=RayCluster(workers=2))
"""


def test_kill_9_of_the_main_process_then_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling_module, "OTHER_CHUNK", 100)
    program, path = tmp_path / "program.py", tmp_path / "run"
    program.write_text(textwrap.dedent(PROGRAM))
    victim = subprocess.Popen([sys.executable, str(program), str(path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not path.exists() and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert path.exists()
    sampler = FunctionSampler(walk, 5, 2, max_damage=1)
    sampler.identity = "walk"
    resumed = count_outcomes(sampler, 1000, checkpoint=path)  # on one machine: that must not matter
    assert same(resumed, count_outcomes(sampler, 1000, seed=8))
