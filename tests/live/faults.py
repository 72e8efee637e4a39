"""Faults of disks and processes: failing system calls, damaged files, killed processes."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

CALLS = ("open", "pwrite", "fsync", "ftruncate", "mkdir", "rename", "replace", "unlink")
"""Calls of the os module that fail; writes of file objects count as well."""


class Faults:
    """Counts the calls that change the disk and fails one of them; with ``lasting``, also those after it."""

    def __init__(self, fail_at: int, *, lasting: bool) -> None:
        self.calls: list[str] = []
        self.lifted = False
        self._fail_at = fail_at
        self._lasting = lasting

    @property
    def reached(self) -> bool:
        return len(self.calls) >= self._fail_at

    def is_due(self, name: str) -> bool:
        """Count a call and return whether it has to fail."""
        if self.lifted:
            return False
        self.calls.append(name)
        return len(self.calls) == self._fail_at or (self._lasting and self.reached)

    def fail_if_due(self, name: str) -> None:
        if self.is_due(name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def failing(fail_at: int, *, lasting: bool) -> Iterator[Faults]:
    """Fail call number ``fail_at``, counted from 1, as on a full disk; a write leaves half of its bytes."""
    faults = Faults(fail_at, lasting=lasting)

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            if faults.is_due("write"):
                super().write(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    true_open, true_pwrite = io.open, os.pwrite

    def opened(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        return io.BufferedWriter(Raw(path, mode)) if mode == "wb" else true_open(path, mode, *rest, **named)

    def pwrite(handle: int, data: Any, offset: int) -> int:
        if faults.is_due("pwrite"):
            true_pwrite(handle, data[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # A system may write less than requested.
        return true_pwrite(handle, data[: len(data) // 2 + 1], offset)

    def faulty(name: str) -> Callable[..., Any]:
        true = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if name != "open" or (len(arguments) > 1 and arguments[1] & os.O_CREAT):
                faults.fail_if_due(name)
            return true(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, pwrite if name == "pwrite" else faulty(name))
        patch.setattr(io, "open", opened)
        yield faults


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the data with each bit flipped in turn, and the byte it is in."""
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(changed)


def processes() -> ForkServerContext:
    """Return a context whose processes have torch loaded already, so that killing many takes little time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.live.child_processes"])
    return context


def messages_until_killed(
    work: Callable[[Path, Connection], None], folder: Path, seconds: float
) -> list[tuple[Any, ...]]:
    """Run a function in a process, kill it after some time, and return the messages it has sent."""
    context = processes()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(folder, theirs))
    process.start()
    theirs.close()
    messages = []
    try:
        # The time starts with its first message: before that, it has written nothing.
        if ours.poll(60):
            messages.append(ours.recv())
        process.join(seconds)
        process.kill()
        while True:
            messages.append(ours.recv())
    except EOFError:
        return messages
    finally:
        process.join()
        ours.close()


def messages_of(work: Callable[[Path, Connection], None], folder: Path) -> list[tuple[Any, ...]]:
    """Run a function in a process to its end, and return its messages."""
    return messages_until_killed(work, folder, 60)


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as if the disk became full during a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def payload(position: int) -> bytes:
    """Return the payload of the record at a position, from 0 to some hundred kB."""
    chance = random.Random(position)  # noqa: S311 - test data
    return chance.randbytes(int(10 ** chance.uniform(0, 5.4)) - 1)
