"""Executors for the jobs of a plan: processes on this machine, or a Ray cluster."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from types import ModuleType
from typing import Self, TypeVar

from cgsa.bench.extras import import_extra

J = TypeVar("J")
POLL_SECONDS = 1.0
"""Seconds after which a waiting executor returns control to its caller, to show progress."""


class JobExecutor(ABC):
    """Runs jobs in parallel, in any order.

    The function of a job must be importable by name, because it and its arguments are sent to other processes. Jobs
    write their results to the file system. Use an executor inside a ``with`` block.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return

    @abstractmethod
    def run_jobs(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        """Yield the key of each job when it ends, and None about every second in between.

        If a job fails, its error is raised and no other job starts. ``whole_device`` says that one job fills a GPU.
        """


@dataclass(frozen=True)
class ProcessExecutor(JobExecutor):
    """Worker processes on this machine."""

    workers: int = 1
    gpu: bool = False
    """Jobs compute on a GPU, so jobs that fill one run one after the other."""
    at_once: int = 1
    """How many of those run at the same time all the same; small ones do not fill it."""

    def run_jobs(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        """Run the jobs in a pool of new processes."""
        if not jobs:
            return
        most = self.at_once if whole_device and self.gpu else self.workers
        workers = min(most, len(jobs))
        with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_exit_with_parent) as pool:
            waiting: set[Future[str]] = {pool.submit(function, job) for job in jobs}
            try:
                while waiting:
                    ended, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
                    for job in ended:
                        yield job.result()
                    if not ended:
                        yield None
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


@dataclass
class RayExecutor(JobExecutor):
    """Tasks on a Ray cluster; the workspace must have the same path on all its machines."""

    address: str | None = None
    """Address of a running cluster; None starts one on this machine."""
    threads: int = 1
    """Cores per job."""
    workers: int | None = None
    """Cores of a cluster started here; None means all."""
    gpu: bool = False
    jobs_per_gpu: int = 8
    """Stream runs that share a GPU."""

    def __enter__(self) -> Self:
        self._ray = import_extra("ray", extra="ray", purpose="--engine ray")
        self._connected_here = not self._ray.is_initialized()
        if self._connected_here:
            own: dict[str, object] = {"include_dashboard": False, "num_cpus": self.workers}
            # Without "local", Ray would join a cluster that happens to run on this machine.
            place = self.address or "local"
            self._ray.init(address=place, log_to_driver=False, **({} if self.address else own))
        return self

    def __exit__(self, *error: object) -> None:
        if self._connected_here:
            self._ray.shutdown()

    def run_jobs(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        """Run the jobs as remote tasks."""
        ray, share = self._ray, 1.0 if whole_device else 1.0 / self.jobs_per_gpu
        # No retries: with the same seed a job would fail again.
        remote = ray.remote(num_cpus=self.threads, num_gpus=share if self.gpu else 0, max_retries=0)(_call)
        waiting = [remote.remote(function, job) for job in jobs]
        try:
            while waiting:
                ended, waiting = ray.wait(waiting, timeout=POLL_SECONDS)
                for job in ended:
                    yield _task_result(ray, job)
                if not ended:
                    yield None
        finally:
            for job in waiting:
                ray.cancel(job, force=True)


def _exit_with_parent() -> None:
    """End this process when its parent is killed, instead of finishing a job whose result is no longer needed."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        # Not a clean shutdown: an unfinished job is like a killed one, and is resumed.
        os._exit(1)

    threading.Thread(target=watch, name="cgsa-parent", daemon=True).start()


def _call(function: Callable[[J], str], job: J) -> str:
    return function(job)


def _task_result(ray: ModuleType, job: object) -> str:
    """Return the result of a task, or raise its own error instead of Ray's wrapper."""
    try:
        return str(ray.get(job))
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
