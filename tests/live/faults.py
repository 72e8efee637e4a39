"""Faults of disks and processes: calls that fail one after the other, damaged files, processes that are killed."""

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
"""Of the os module; writes of file objects are counted beside them."""


class Faults:
    """Counts the calls that change the disk, and lets one of them fail; if it lasts, also those after it."""

    def __init__(self, fail_at: int, *, lasting: bool) -> None:
        self.calls: list[str] = []
        self.lifted = False
        self._fail_at = fail_at
        self._lasting = lasting

    @property
    def reached(self) -> bool:
        return len(self.calls) >= self._fail_at

    def strikes(self, name: str) -> bool:
        """Count a call, and say whether it has to fail."""
        if self.lifted:
            return False
        self.calls.append(name)
        return len(self.calls) == self._fail_at or (self._lasting and self.reached)

    def strike(self, name: str) -> None:
        if self.strikes(name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def failing(fail_at: int, *, lasting: bool) -> Iterator[Faults]:
    """Let the call ``fail_at``, counted from 1, fail as on a full disk; a write leaves half of its bytes."""
    faults = Faults(fail_at, lasting=lasting)

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            if faults.strikes("write"):
                super().write(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    true_open, true_pwrite = io.open, os.pwrite

    def opened(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        return io.BufferedWriter(Raw(path, mode)) if mode == "wb" else true_open(path, mode, *rest, **named)

    def pwrite(handle: int, data: Any, offset: int) -> int:
        if faults.strikes("pwrite"):
            true_pwrite(handle, data[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # A system may write less than it was asked to.
        return true_pwrite(handle, data[: len(data) // 2 + 1], offset)

    def faulty(name: str) -> Callable[..., Any]:
        true = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if name != "open" or (len(arguments) > 1 and arguments[1] & os.O_CREAT):
                faults.strike(name)
            return true(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, pwrite if name == "pwrite" else faulty(name))
        patch.setattr(io, "open", opened)
        yield faults


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Give every place and what is there when one of its bits has turned over."""
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(changed)


def processes() -> ForkServerContext:
    """Return what starts processes that have torch loaded already: many can be killed in little time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.live.victims"])
    return context


def acknowledged_until_killed(
    work: Callable[[Path, Connection], None], folder: Path, seconds: float
) -> list[tuple[Any, ...]]:
    """Let a process work, kill it after some time, and return all that it had said until then."""
    context = processes()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(folder, theirs))
    process.start()
    theirs.close()
    said = []
    try:
        # The clock starts with its first word: before that, it did nothing that could be torn.
        if ours.poll(60):
            said.append(ours.recv())
        process.join(seconds)
        process.kill()
        while True:
            said.append(ours.recv())
    except EOFError:
        return said
    finally:
        process.join()
        ours.close()


def said_by(work: Callable[[Path, Connection], None], folder: Path) -> list[tuple[Any, ...]]:
    """Let a process work to its end, and return all that it said."""
    return acknowledged_until_killed(work, folder, 60)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: it meets a full disk in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def payload(position: int) -> bytes:
    """Return what the record at a position holds, from nothing to some hundred kB."""
    chance = random.Random(position)  # noqa: S311 - test data
    return chance.randbytes(int(10 ** chance.uniform(0, 5.4)) - 1)
