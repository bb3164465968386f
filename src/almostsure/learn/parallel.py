"""Doing numbered tasks on several cores, and handing on their results in order.

Models are counted by compiled code that lets other threads run, so threads do.  A simulator written in Python needs
processes.  They are forked where the system can: a simulator is often a lambda or holds an open environment, which
could not be sent to a fresh process.  A worker that dies takes its tasks with it; they are done again, and since a
task's result depends on its number alone, nothing is counted twice.
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
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, final, runtime_checkable

from almostsure.errors import AlmostSureError, LimitReached, ModelError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 2  # tasks that a worker has waiting, so that it never idles and results do not pile up
PATIENCE = 5  # deaths in a row without a single result

_task: Callable[[Any], Any] | None = None  # in a worker: what it does


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InOrder(Protocol):
    """Workers that do one kind of task."""

    def in_order(self, items: Iterable[Any]) -> Iterator[Any]:
        """The results of the items, in their order."""
        ...


@runtime_checkable
class Cluster(Protocol):
    """Where else than on this machine's cores tasks may be done: :class:`almostsure.learn.RayCluster` is one."""

    def crew(self, task: Callable[[Any], Any]) -> AbstractContextManager[InOrder]:
        """Workers that do one kind of task until the block ends."""
        ...


Workers = int | Cluster


def open_crew(
    task: Callable[[Any], Any], workers: Workers, *, processes: bool
) -> AbstractContextManager[InOrder]:  # fmt: skip
    """Workers that do one kind of task until the block ends, here or on a cluster."""
    return Crew(task, workers, processes=processes) if isinstance(workers, int) else workers.crew(task)


@final
class Crew(Generic[Item, Result]):
    """Workers that do one kind of task until the block ends.

    Parameters
    ----------
    task
        What is done with each item.
    workers
        How many threads or processes.  One does the work right here.
    processes
        Whether they are processes.
    """

    def __init__(self, task: Callable[[Item], Result], workers: int, *, processes: bool) -> None:
        self.task, self.workers, self.processes = task, workers, processes
        self._pool: Executor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            # After an error nobody waits: workers end by themselves after what they are at.
            self._pool.shutdown(wait=error is None, cancel_futures=True)
            self._pool = None

    def in_order(self, items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items, in their order."""
        if self.workers == 1:
            yield from map(self.task, items)
            return
        waiting, deaths = iter(items), 0
        flight: deque[tuple[Item, Future[Result]]] = deque()
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

    def _submit(self, item: Item) -> Future[Result]:
        if self._pool is None:
            self._pool = _fork(self.task, self.workers) if self.processes else _threads(self.workers)
        try:
            return self._pool.submit(_do if self.processes else self.task, item)
        except BrokenExecutor as error:  # a worker died while nobody was looking
            failed: Future[Result] = Future()
            failed.set_exception(error)
            return failed

    def _bury(self, deaths: int, error: BrokenExecutor) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        if deaths >= PATIENCE:
            raise LimitReached(
                f"the processes that sample died {deaths} times in a row without a result (killed, or out of memory). "
                "Use fewer workers, or workers=1 to see where."
            ) from error


# ---------------------------------------------------------------------- pools, imported when they are needed


def _threads(workers: int) -> Executor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers)


def _fork(task: Callable[[Any], Any], workers: int) -> Executor:
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


def _begin(parent: int, task: Callable[[Any], Any]) -> None:
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
    except Exception as error:
        plain = plain_error(error)
        raise error if plain is None else plain from None


def plain_error(error: Exception) -> ModelError | None:
    """An error of ours without what cannot be sent to another process; None for others."""
    if not isinstance(error, AlmostSureError):
        return None
    names = ("state", "action", "choice", "outcome") if isinstance(error, ModelError) else ()
    return ModelError(str(error), **{name: getattr(error, name) for name in names})


# ---------------------------------------------------------------------- Ctrl-C


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C until the block is done, so that it leaves nothing half-written."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C never strikes here
        return
    pressed: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
    if pressed:
        signal.raise_signal(signal.SIGINT)
