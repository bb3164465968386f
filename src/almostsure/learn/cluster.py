"""Sampling on a Ray cluster.  Needs the extra ``ray``.

Tasks and their order are the same as on one machine (:mod:`almostsure.learn.parallel`), and what a task finds depends
on its number alone.  So the result is the same to the bit, also if Ray has to do a task again because a worker or a
machine died.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

from almostsure.errors import FileError, LimitReached, MissingExtra, ModelError
from almostsure.learn.bounds import count
from almostsure.learn.parallel import AHEAD, PATIENCE, plain_error

Item = TypeVar("Item")
Result = TypeVar("Result")


@final
class RayCluster:
    """A Ray cluster, to be passed as ``workers`` to :func:`almostsure.learn_minimal_budget`.

    Parameters
    ----------
    address
        Of a running cluster, as ``ray.init`` takes it.  By default a cluster of this machine's cores is started, and
        stopped when the sampling is done.  A program that has called ``ray.init`` itself keeps its cluster.
    workers
        How many tasks may run at once; by default as many as the cluster has cores.

    Examples
    --------
    ``build_kernel(simulator, 10_000, seed=1, workers=RayCluster("ray://head:10001"))``
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        self.address = address
        self.workers = None if workers is None else count("workers", workers)

    def crew(self, task: Callable[[Item], Result]) -> RayCrew[Item, Result]:
        """Workers that do one kind of task until the block ends."""
        return RayCrew(self, task)


@final
class RayCrew(Generic[Item, Result]):
    """The workers of a cluster; made by :class:`RayCluster`."""

    def __init__(self, cluster: RayCluster, task: Callable[[Item], Result]) -> None:
        self.cluster, self.task = cluster, task
        self._ray, self._started, self._flight = _import_ray(), False, deque[Any]()

    def __enter__(self) -> Self:
        ray = self._ray
        if not ray.is_initialized():
            self._start()
        try:
            self._remote = ray.remote(max_retries=PATIENCE, num_cpus=1)(_do)
            self._shared = ray.put(self.task)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            if isinstance(error, TypeError):  # how Ray says that it cannot be pickled
                raise ModelError(f"a sampler must be picklable to be sent to a cluster: {error}") from error
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            self._ray.shutdown()
            self._started = False
        elif self._ray.is_initialized():
            for waiting in self._flight:
                self._ray.cancel(waiting)
        self._flight.clear()

    def in_order(self, items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items, in their order."""
        cores = self.cluster.workers or int(self._ray.cluster_resources().get("CPU", 1))
        waiting, flight = iter(items), self._flight
        while True:
            while len(flight) < AHEAD * cores and (item := next(waiting, None)) is not None:
                flight.append(self._remote.remote(self._shared, item))
            if not flight:
                return
            result = self._get(flight[0])
            flight.popleft()
            if isinstance(result, _Failure):
                raise ModelError(result.message, **result.fields)
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


class _Failure(NamedTuple):
    """An error of ours on its way home: its class could not be sent."""

    message: str
    fields: dict[str, int | None]


def _do(task: Callable[[Item], Result], item: Item) -> Result | _Failure:
    try:
        return task(item)
    except Exception as error:
        plain = plain_error(error)
        if plain is None:
            raise
        return _Failure(str(plain), vars(plain))


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtra("ray", "ray") from None
    return ray
