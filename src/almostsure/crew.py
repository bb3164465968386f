"""Crews: whoever does numbered pieces of work, on this machine's cores or on a Ray cluster.

Samples, the runs of a comparison and the episodes of a simulation are cut into pieces whose results depend on their
numbers alone.  So whoever computes, the answer is the same; and a worker that dies costs its pieces, which are done
again, and nothing is counted twice::

    with as_crew(workers).open(task) as each:
        for result in each(items):  # in the order of the items
            ...

Compiled code lets other threads run, so threads do for it.  A simulator written in Python needs processes.  They are
forked where the system can: a simulator is often a lambda or holds an open environment, which could not be sent to a
fresh process.  What goes to a Ray cluster must be picklable.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, final, runtime_checkable

from almostsure.arguments import count
from almostsure.errors import AlmostSureError, FileError, LimitReached, ModelError, optional
from almostsure.errors import uninterrupted as uninterrupted

Task = Callable[[Any], Any]
Each = Callable[[Iterable[Any]], Iterator[Any]]  # the results of some items, in their order

AHEAD = 2  # tasks that a worker has waiting, so that it never idles and results do not pile up
PATIENCE = 5  # deaths in a row without a single result


@runtime_checkable
class Crew(Protocol):
    """Workers, here or elsewhere."""

    def open(self, task: Task, *, threads: bool = False) -> AbstractContextManager[Each]:
        """Have the workers ready to do one kind of task until the block ends; ``threads`` if threads can do it."""
        ...


Workers = int | Crew


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_crew(workers: Workers | None, *, default: int = 1) -> Crew:
    """The crew of a number of workers, or the crew itself."""
    if isinstance(workers, Crew):
        return workers
    return LocalCrew(default if workers is None else count("workers", workers))


# ---------------------------------------------------------------------- this machine


@final
class LocalCrew:
    """Threads or processes of this machine; one worker does the work right here."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def open(self, task: Task, *, threads: bool = False) -> AbstractContextManager[Each]:
        """Have the workers ready to do one kind of task until the block ends."""
        return _LocalPool(task, self.workers, processes=not threads)


@final
class _LocalPool:
    def __init__(self, task: Task, workers: int, *, processes: bool) -> None:
        self.task, self.workers, self.processes = task, workers, processes
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._pool is not None:
            # After an error nobody waits: workers end by themselves after what they are at.
            self._pool.shutdown(wait=error is None, cancel_futures=True)
            self._pool = None

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """The results of the items, in their order."""
        if self.workers == 1:
            yield from map(self.task, items)
            return
        waiting, deaths = iter(items), 0
        flight: deque[tuple[Any, Future[Any]]] = deque()
        while True:
            while len(flight) < AHEAD * self.workers and (item := next(waiting, None)) is not None:
                flight.append((item, self._submit(item)))
            if not flight:
                return
            try:
                result = flight[0][1].result()
            except BrokenExecutor as error:
                deaths += 1
                self._bury(deaths, error)
                flight = deque((item, self._submit(item)) for item, _ in flight)
                continue
            flight.popleft()
            deaths = 0
            yield result

    def _submit(self, item: Any) -> Future[Any]:
        if self._pool is None:
            self._pool = _fork(self.task, self.workers) if self.processes else ThreadPoolExecutor(self.workers)
        try:
            return self._pool.submit(_do if self.processes else self.task, item)
        except BrokenExecutor as error:  # a worker died while nobody was looking
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def _bury(self, deaths: int, error: BrokenExecutor) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        if deaths >= PATIENCE:
            raise LimitReached(
                f"the worker processes died {deaths} times in a row without a result (killed, or out of memory). "
                "Use fewer workers, or workers=1 to see where."
            ) from error


def _fork(task: Task, workers: int) -> Executor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    can_fork = "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    # What is forked inherits the task, and nothing has to be picklable.
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(), task))
    with warnings.catch_warnings():
        # Newer Pythons warn of forking beside threads; ours hold no lock while they wait.
        warnings.simplefilter("ignore", DeprecationWarning)
        with contextlib.suppress(BrokenExecutor):
            pool.submit(os.getpid).result()  # the workers are forked here
    return pool


_task: Task | None = None  # in a worker: what it does


def _begin(parent: int, task: Task) -> None:
    """In a worker: leave Ctrl-C to the parent, and end with it even if it is killed."""
    global _task
    _task = task
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _do(item: Any) -> Any:
    assert _task is not None
    try:
        return _task(item)
    except AlmostSureError as error:
        raise _plain(error) from None


def _plain(error: AlmostSureError) -> ModelError:
    """An error of ours without what cannot be sent to another process."""
    names = ("state", "action", "choice", "outcome") if isinstance(error, ModelError) else ()
    return ModelError(str(error), **{name: getattr(error, name) for name in names})


# ---------------------------------------------------------------------- a Ray cluster


@final
class RayCluster:
    """A Ray cluster, to be passed as ``workers``.  Needs the extra ``ray``.

    Parameters
    ----------
    address
        Of a running cluster, as ``ray.init`` takes it.  By default a cluster of this machine's cores is started, and
        stopped when the work is done.  A program that has called ``ray.init`` itself keeps its cluster.
    workers
        How many tasks may run at once; by default as many as the cluster has cores.

    Examples
    --------
    ``learn_minimal_budget(simulator, mu=0.01, delta=0.05, workers=RayCluster("ray://head:10001"))``
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        self.address = address
        self.workers = None if workers is None else count("workers", workers)

    def open(self, task: Task, *, threads: bool = False) -> AbstractContextManager[Each]:
        """Have the workers ready to do one kind of task until the block ends."""
        return _RayPool(self, task)


@final
class _RayPool:
    def __init__(self, cluster: RayCluster, task: Task) -> None:
        self.cluster, self.task = cluster, task
        self._ray, self._started, self._flight = optional("ray", "ray", "exceptions"), False, deque[Any]()

    def __enter__(self) -> Self:
        ray = self._ray
        if not ray.is_initialized():
            self._start()
        try:
            self._remote = ray.remote(max_retries=PATIENCE, num_cpus=1)(_do_remotely)
            self._shared = ray.put(self.task)
        except BaseException as error:
            self.__exit__()
            if isinstance(error, TypeError):  # how Ray says that it cannot be pickled
                raise ModelError(f"what is sent to a cluster must be picklable: {error}") from error
            raise
        return self

    def _start(self) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.cluster.address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library has no business to call home
            quiet |= {"address": "local", "num_cpus": self.cluster.workers, "include_dashboard": False}
        else:
            quiet |= {"address": self.cluster.address}
        try:
            self._ray.init(**quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = self.cluster.address or "on this machine"
            raise FileError(f"no Ray cluster could be reached or started {where}: {error}") from error
        self._started = True

    def __exit__(self, *_: object) -> None:
        if self._started:
            self._ray.shutdown()
            self._started = False
        elif self._ray.is_initialized():
            for waiting in self._flight:
                self._ray.cancel(waiting)
        self._flight.clear()

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """The results of the items, in their order."""
        workers = self.cluster.workers or int(self._ray.cluster_resources().get("CPU", 1))
        waiting, flight = iter(items), self._flight
        while True:
            while len(flight) < AHEAD * workers and (item := next(waiting, None)) is not None:
                flight.append(self._remote.remote(self._shared, item))
            if not flight:
                return
            result = self._get(flight[0])
            flight.popleft()
            if isinstance(result, ModelError):
                raise result
            yield result

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except self._ray.exceptions.RayError as error:
            raise LimitReached(
                f"the cluster gave up a task whose workers died {PATIENCE + 1} times: {error}. Use fewer workers, or "
                "workers=1 to see where."
            ) from error


def _do_remotely(task: Task, item: Any) -> Any:
    """The result; or an error of ours, returned since Ray would wrap one that is raised in a class of its own."""
    try:
        return task(item)
    except AlmostSureError as error:
        return _plain(error)


# ---------------------------------------------------------------------- Ctrl-C
