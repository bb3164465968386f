"""Crews: pools of workers on this machine's cores or on a Ray cluster.

Samples, the runs of a comparison and the episodes of a simulation are split into numbered tasks, whose results depend
on their numbers only.  So the answer does not depend on the workers, and the tasks of a worker that dies are repeated
without being counted twice::

    with as_crew(workers).open(task) as each:
        for result in each(items):  # in the order of the items
            ...

Compiled code releases the GIL, so threads suffice for it; a simulator written in Python needs processes.  These are
forked if the system supports it: a simulator is often a lambda or holds an open environment, which cannot be pickled.
Tasks for a Ray cluster must be picklable.
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
from functools import partial
from itertools import islice
from typing import Any, Protocol, Self, final, runtime_checkable

from almostsure.arguments import count
from almostsure.errors import AlmostSureError, FileError, LimitReached, ModelError, optional

Task = Callable[[Any], Any]
Each = Callable[[Iterable[Any]], Iterator[Any]]  # from items to their results, in the same order

AHEAD = 2  # submitted tasks per worker: no worker idles, and results do not pile up
PATIENCE = 5  # crashes in a row without a result after which a run fails


@runtime_checkable
class Crew(Protocol):
    """A pool of workers."""

    def open(self, task: Task, *, threads: bool = False) -> AbstractContextManager[Each]:
        """Workers for one kind of task, until the block ends; ``threads`` says whether threads suffice."""
        ...


Workers = int | Crew


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_crew(workers: Workers | None, *, default: int = 1) -> Crew:
    """A crew itself, or a local one with the given number of workers."""
    if isinstance(workers, Crew):
        return workers
    return LocalCrew(default if workers is None else count("workers", workers))


# ---------------------------------------------------------------------- this machine


@final
class LocalCrew:
    """Threads or processes of this machine; a single worker runs in the calling thread."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def open(self, task: Task, *, threads: bool = False) -> AbstractContextManager[Each]:
        """Workers for one kind of task, until the block ends; ``threads`` says whether threads suffice."""
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
            # After an error this does not wait: workers end by themselves after their current task.
            self._pool.shutdown(wait=error is None, cancel_futures=True)
            self._pool = None

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """The results of the items, in their order."""
        if self.workers == 1:
            yield from map(self.task, items)
            return
        waiting, crashes = iter(items), 0
        submitted: deque[tuple[Any, Future[Any]]] = deque()
        while True:
            for item in islice(waiting, AHEAD * self.workers - len(submitted)):
                submitted.append((item, self._submit(item)))
            if not submitted:
                return
            try:
                result = submitted[0][1].result()
            except BrokenExecutor as error:
                crashes += 1
                self._discard_pool(crashes, error)
                submitted = deque((item, self._submit(item)) for item, _ in submitted)
                continue
            submitted.popleft()
            crashes = 0
            yield result

    def _submit(self, item: Any) -> Future[Any]:
        if self._pool is None:
            self._pool = _fork(self.task, self.workers) if self.processes else ThreadPoolExecutor(self.workers)
        try:
            return self._pool.submit(_run if self.processes else self.task, item)
        except BrokenExecutor as error:  # a worker has died since the last result
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def _discard_pool(self, crashes: int, error: BrokenExecutor) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        if crashes >= PATIENCE:
            raise LimitReached(
                f"the worker processes died {crashes} times in a row without a result (killed, or out of memory). "
                "Use fewer workers, or workers=1 to see where."
            ) from error


def _fork(task: Task, workers: int) -> Executor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    can_fork = "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    # Forked processes inherit the task, so it need not be picklable.
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(os.getpid(), task))
    with warnings.catch_warnings():
        # Python 3.12 and newer warn about forking a process that has threads; ours hold no lock while they wait.
        warnings.simplefilter("ignore", DeprecationWarning)
        with contextlib.suppress(BrokenExecutor):
            pool.submit(os.getpid).result()  # the workers are forked here
    return pool


_task: Task | None = None  # in a worker process: its task


def _start_worker(parent: int, task: Task) -> None:
    """In a worker process: leave Ctrl-C to the parent, and exit when the parent ends, even if it is killed."""
    global _task
    _task = task
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run(item: Any) -> Any:
    assert _task is not None
    try:
        return _task(item)
    except AlmostSureError as error:
        raise _picklable(error) from None


def _picklable(error: AlmostSureError) -> ModelError:
    """An error of this package as a ModelError that can be sent to another process."""
    names = ("state", "action", "choice", "outcome") if isinstance(error, ModelError) else ()
    return ModelError(str(error), **{name: getattr(error, name) for name in names})


# ---------------------------------------------------------------------- a Ray cluster


@final
class RayCluster:
    """A Ray cluster, to be passed as ``workers``.  It needs the extra ``ray``.

    Parameters
    ----------
    address
        The address of a running cluster, as for ``ray.init``.  By default a cluster of this machine's cores is started,
        and stopped when the work is done; if the program has called ``ray.init`` itself, that cluster is used and kept.
    workers
        The number of tasks that may run at once; by default the number of cores of the cluster.

    Examples
    --------
    ``learn_minimal_budget(simulator, mu=0.01, delta=0.05, workers=RayCluster("ray://head:10001"))``
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        self.address = address
        self.workers = None if workers is None else count("workers", workers)

    @contextlib.contextmanager
    def open(self, task: Task, *, threads: bool = False) -> Iterator[Each]:
        """Workers for one kind of task, until the block ends."""
        ray = optional("ray", "ray", "exceptions")
        submitted: deque[Any] = deque()
        is_ours = not ray.is_initialized()
        if is_ours:
            self._start(ray)
        try:
            try:
                run, shared = ray.remote(max_retries=PATIENCE, num_cpus=1)(_run_remotely), ray.put(task)
            except TypeError as error:  # raised by Ray if pickling fails
                raise ModelError(f"a task for a cluster must be picklable: {error}") from error
            yield lambda items: self._results(ray, map(partial(run.remote, shared), items), submitted)
        finally:
            if is_ours:
                ray.shutdown()
            elif ray.is_initialized():
                for reference in submitted:
                    ray.cancel(reference)

    def _start(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library should not send usage statistics
            options |= {"address": "local", "num_cpus": self.workers, "include_dashboard": False}
        else:
            options["address"] = self.address
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = self.address or "on this machine"
            raise FileError(f"no Ray cluster could be reached or started {where}: {error}") from error

    def _results(self, ray: Any, references: Iterator[Any], submitted: deque[Any]) -> Iterator[Any]:
        """The results of tasks, in their order; ``references`` submits one whenever it is advanced."""
        workers = self.workers or int(ray.cluster_resources().get("CPU", 1))
        while True:
            submitted.extend(islice(references, AHEAD * workers - len(submitted)))
            if not submitted:
                return
            result = _get(ray, submitted[0])
            submitted.popleft()
            if isinstance(result, ModelError):
                raise result
            yield result


def _get(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        raise LimitReached(
            f"the cluster gave up a task whose workers died {PATIENCE + 1} times: {error}. Use fewer workers, or "
            "workers=1 to see where."
        ) from error


def _run_remotely(task: Task, item: Any) -> Any:
    """The result of a task, or an error of this package: it is returned, since Ray wraps raised errors in its own."""
    try:
        return task(item)
    except AlmostSureError as error:
        return _picklable(error)
