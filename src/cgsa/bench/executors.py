"""Who does the jobs of a plan: processes on this machine, or a Ray cluster."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any, Self, TypeVar

from cgsa.errors import ConfigError

J = TypeVar("J")
TICK_SECONDS = 1.0
"""How often a waiting engine lets its caller show progress."""


class JobExecutor(ABC):
    """Does jobs, several at once, in any order.

    A job's function must be importable by name; it and its arguments travel to
    other processes. What jobs leave behind goes through the file system. An
    engine works inside a ``with`` block.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return

    @abstractmethod
    def work(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        """Yield each job's name as it ends, and none now and then while nothing does.

        Where a job fails, no other is started and its error is raised.
        ``whole_device`` says that one job fills a GPU.
        """


@dataclass(frozen=True)
class ProcessExecutor(JobExecutor):
    """Worker processes on this machine."""

    workers: int = 1
    gpu: bool = False
    """Jobs compute on a GPU, so jobs that fill one go one after the other."""

    def work(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        """Do the jobs in a pool of fresh processes."""
        if not jobs:
            return
        workers = 1 if whole_device and self.gpu else min(self.workers, len(jobs))
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent) as pool:
            waiting: set[Future[str]] = {pool.submit(function, job) for job in jobs}
            try:
                while waiting:
                    ended, waiting = wait(waiting, TICK_SECONDS, FIRST_COMPLETED)
                    for job in ended:
                        yield job.result()
                    if not ended:
                        yield None
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


@dataclass
class RayExecutor(JobExecutor):
    """Tasks of a Ray cluster; all its machines must see the folder of the run under the same path."""

    address: str | None = None
    """Address of a running cluster; none starts one on this machine."""
    threads: int = 1
    """Cores a job asks for."""
    workers: int | None = None
    """Cores of a cluster that is started here; none means all."""
    gpu: bool = False
    jobs_a_gpu: int = 8
    """Meetings that share a GPU."""

    def __enter__(self) -> Self:
        self._ray = _import_ray()
        self._connected_here = not self._ray.is_initialized()
        if self._connected_here:
            own: dict[str, object] = {"include_dashboard": False, "num_cpus": self.workers}
            self._ray.init(address=self.address, log_to_driver=False, **({} if self.address else own))
        return self

    def __exit__(self, *error: object) -> None:
        if self._connected_here:
            self._ray.shutdown()

    def work(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        """Do the jobs as remote tasks."""
        ray, share = self._ray, 1.0 if whole_device else 1.0 / self.jobs_a_gpu
        # A failed job is told at once: the same seed would fail again.
        remote = ray.remote(num_cpus=self.threads, num_gpus=share if self.gpu else 0, max_retries=0)(_call)
        waiting = [remote.remote(function, job) for job in jobs]
        try:
            while waiting:
                ended, waiting = ray.wait(waiting, timeout=TICK_SECONDS)
                for job in ended:
                    yield _result(ray, job)
                if not ended:
                    yield None
        finally:
            for job in waiting:
                ray.cancel(job, force=True)


def _end_with_parent() -> None:
    """Let this process end when the one that started it is killed; else it would finish a job that nobody waits for."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        # Not an orderly end: what a job leaves behind halfway is what a kill leaves, and is taken up again.
        os._exit(1)

    threading.Thread(target=watch, name="cgsa-parent", daemon=True).start()


def _call(function: Callable[[J], str], job: J) -> str:
    return function(job)


def _import_ray() -> Any:
    try:
        import ray  # noqa: PLC0415 - only those who ask for it need it
    except ModuleNotFoundError as error:
        raise ConfigError("--engine ray needs Ray: pip install 'cgsa[ray]'") from error
    return ray


def _result(ray: Any, job: object) -> str:
    """Return what a task returned, or raise the error that it met, not Ray's wrapping of it."""
    try:
        return str(ray.get(job))
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
