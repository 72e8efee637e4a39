"""A watched folder: recordings that a logger drops, in any readable format.

Each file is a recording of its own: no window spans two files, and its last windows are diagnosed at its end. Files are
taken in the order of their times. Each is taken once: before its first block, a small database in the folder of the
service gets its name and the number of that block; after a kill, the number of the next block that the machine's
journal expects says how much of the file was taken already.

A file that cannot be read or used is moved to ``refused/``, with the reason in a file beside it; where the folder is
read-only, it stays and the reason is in the status of the source. A file that was taken and is kept is not examined
again: a logger that uses a name again needs ``processed`` to be ``move`` or ``delete``.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, TypeVar
from zoneinfo import ZoneInfo

from cgsa.data.readers.start_time import recording_start
from cgsa.data.recording import Recording
from cgsa.errors import ConfigError, DataError, UnavailableError, is_environmental
from cgsa.live.commands import SERVICE, Command
from cgsa.live.intake.block import check_machine
from cgsa.live.plant import Plant
from cgsa.live.worker import Worker
from cgsa.service.links.link import Clock, Sleep, reason
from cgsa.service.sources.base import Source
from cgsa.service.sources.file_pattern import FilePattern
from cgsa.service.sources.folder_scan import MARKER, PROCESSED, REFUSED, Complete, FolderScan, FoundFile
from cgsa.service.sources.recording_blocks import FileFormat, blocks_of, count_blocks, read_for_manifest
from cgsa.service.sources.taken_files import TakenFile, TakenFiles

POLL_SECONDS = 0.02
"""Interval at which the machine's queue is checked."""
MAX_AHEAD = 86_400.0
"""Seconds by which a recording may begin in the future; one that is further ahead would make all others late."""
T = TypeVar("T")


@dataclass(frozen=True)
class FolderConfig(FileFormat):
    """What to watch, and how."""

    folder: str = ""
    machine: str | None = None
    """None means that ``files`` names it."""
    files: str = ""
    """Pattern of the paths below the folder; see :class:`FilePattern`. By default ``*``, or ``{machine}/*`` without a
    machine."""
    start: Literal["name", "recording", "modified"] | None = None
    """Where the time of the first sample is from: the name of the file; the recording itself, or where that does not
    say, the time at which it was written, less its length; or always that. By default the name if the pattern has a
    time, and else the recording."""
    timezone: str = "UTC"
    """Zone of times that state none, such as ``Europe/Berlin``."""
    complete: Complete = "settled"
    """When a file is complete: its size and time have ``settled``; at once, since it is ``renamed`` when it is; or
    there is a ``marker``, a file of the same name and ``.done``."""
    settle_seconds: float = 5.0
    """How long a file must stay unchanged before it is read."""
    processed: Literal["keep", "move", "delete"] = "keep"
    """What happens to a file that was taken; ``move`` puts it below ``processed/``."""
    poll_seconds: float = 1.0
    """Interval at which the folder is listed."""
    block_seconds: float = 1.0
    """Length of a block."""

    def __post_init__(self) -> None:
        pattern = self.pattern
        if not self.folder:
            raise ConfigError("folder: missing; expected the folder to watch")
        try:
            check_machine(self.machine or "any")
        except DataError as error:
            raise ConfigError(str(error)) from error
        if pattern.names_machine == (self.machine is not None):
            raise ConfigError(f"machine {self.machine!r}, files {pattern.text!r}; expected the machine in one of them")
        if self.start == "name" and pattern.time_format is None:
            raise ConfigError(f"start 'name', files {pattern.text!r}; expected a pattern with {{time:FORMAT}}")
        if not 0 <= self.settle_seconds < math.inf or min(self.poll_seconds, self.block_seconds) <= 0:
            raise ConfigError(
                f"settle_seconds {self.settle_seconds:g}, poll_seconds {self.poll_seconds:g}, block_seconds "
                f"{self.block_seconds:g}; expected seconds, the last two more than 0"
            )
        self.zone()

    @property
    def pattern(self) -> FilePattern:
        """The pattern of the files."""
        return FilePattern(self.files or ("*" if self.machine is not None else "{machine}/*"))

    def zone(self) -> tzinfo:
        """Return the zone of times that state none."""
        try:
            return UTC if self.timezone == "UTC" else ZoneInfo(self.timezone)
        except (ValueError, OSError, KeyError) as error:
            raise ConfigError(f"timezone {self.timezone!r}; expected one such as 'Europe/Berlin'") from error


@dataclass(frozen=True, eq=False)
class _DueFile:
    """A complete file with its machine and time, as far as they are known without reading all of it."""

    found: FoundFile
    machine: str
    begin: float | None
    """None if the time of writing less the length is to be used."""

    @property
    def order(self) -> tuple[float, str]:
        return self.found.modified * 1e-9 if self.begin is None else self.begin, self.found.path


class FolderSource(Source):
    """Takes the files of a folder."""

    kind = "folder"
    Config: ClassVar[type[object]] = FolderConfig
    config: FolderConfig
    counted: ClassVar[tuple[str, ...]] = (*Source.counted, "files", "refused_files")

    def __init__(
        self,
        plant: Plant,
        config: FolderConfig,
        *,
        name: str = "",
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.time,
        stopwatch: Clock = time.monotonic,
    ) -> None:
        super().__init__(plant, config, name=name, sleep=sleep, clock=clock)
        self.plant = plant
        self._root, self._pattern, self._zone = Path(config.folder), config.pattern, config.zone()
        self._stopwatch = stopwatch
        self._postponed: dict[str, list[Callable[[], Awaitable[None]]]] = {}
        """What is left to do for machines that can take no blocks at present, in order."""

    async def connect(self) -> None:
        """Take files until something fails."""
        database = self.plant.folder / "sources" / f"{self.status.name}.sqlite"
        with await asyncio.to_thread(TakenFiles, database) as taken:
            await asyncio.to_thread(taken.forget_missing, self._root)
            self._postponed.clear()
            for known in taken.files():
                await self._do_or_postpone(self._machine_of(known.path), partial(self._resume, known, taken))
            scan = FolderScan(
                self._root,
                self._pattern,
                complete=self.config.complete,
                settle_seconds=self.config.settle_seconds,
                is_known=taken.__contains__,
                clock=self.clock,
                stopwatch=self._stopwatch,
            )
            while True:
                found = await asyncio.to_thread(scan.scan)
                await self.came_up()
                candidates = [one for file in found if (one := await self._examine(file, taken)) is not None]
                postponed, self._postponed = self._postponed, {}
                for machine, works in postponed.items():
                    for work in works:
                        await self._do_or_postpone(machine, work)
                for candidate in sorted(candidates, key=lambda one: one.order):
                    await self._do_or_postpone(candidate.machine, partial(self._take, candidate, taken))
                await self.sleep(self.config.poll_seconds)

    def _machine_of(self, path: str) -> str:
        """Return the machine that a file is of; empty if there is none."""
        return self.config.machine or self._pattern.machine_and_time(path, self._zone)[0] or ""

    async def _do_or_postpone(self, machine: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do what is due for a machine, after what was postponed for it; the other machines do not wait for it."""
        if machine not in self._postponed:
            try:
                await work()
            except UnavailableError as error:
                self.note(str(error))
            else:
                return
        self._postponed.setdefault(machine, []).append(work)

    async def _examine(self, found: FoundFile, taken: TakenFiles) -> _DueFile | None:
        """Return machine and time of a file; refuse it if it has none."""
        named, begin = self._pattern.machine_and_time(found.path, self._zone)
        machine = self.config.machine or named or ""
        start = self.config.start or ("recording" if self._pattern.time_format is None else "name")
        if machine not in self.plant.workers:
            await self._refuse(found, f"no machine {machine!r} is monitored", taken)
            return None
        if start == "name" and begin is None:
            await self._refuse(found, f"no time in its name; expected {self._pattern.text}", taken, machine)
            return None
        if start == "recording":
            path = self._root / found.path
            stated = await self._attempt(lambda: (recording_start(path, self._zone),), found, taken, machine)
            if stated is None:
                return None
            (begin,) = stated
        return _DueFile(found, machine, None if start == "modified" else begin)

    async def _take(self, one: _DueFile, taken: TakenFiles) -> None:
        """Turn a new file into blocks of its machine."""
        found, worker = one.found, self.plant.worker(one.machine)
        recording = await self._read(found, worker, taken)
        if recording is None:
            return
        begin = found.modified * 1e-9 - recording.seconds if one.begin is None else one.begin
        await self._wait_until_idle(worker)
        problem = self._misplaced(begin, worker)
        if problem is not None:
            await self._refuse(found, problem, taken, one.machine)
            return
        known = TakenFile(found.path, found.size, found.modified, "taking", worker.watch.next_sequence, begin)
        await asyncio.to_thread(taken.put, known)
        try:
            await self._submit_all(recording, known, worker, taken)
        except UnavailableError as error:
            self.note(str(error))
            self._postponed[one.machine] = [partial(self._resume, known, taken)]

    async def _resume(self, known: TakenFile, taken: TakenFiles) -> None:
        """Finish a file of an earlier process: the rest of it is taken, or it is put away."""
        if known.state != "taking" and (self.config.processed == "keep" or known.state == "refused"):
            return
        machine, path = self._machine_of(known.path), self._root / known.path
        found = await asyncio.to_thread(_examined, path, known.path)
        if found is None or not known.is_same(found) or machine not in self.plant.workers:
            await asyncio.to_thread(taken.forget, known.path)
            return
        if known.state == "taken":
            await asyncio.to_thread(self._put_away, found, taken)
            return
        worker = self.plant.worker(machine)
        recording = await self._read(found, worker, taken)
        if recording is not None:
            await self._wait_until_idle(worker)
            await self._submit_all(recording, known, worker, taken)

    async def _submit_all(self, recording: Recording, known: TakenFile, worker: Worker, taken: TakenFiles) -> None:
        """Submit the blocks of a file that are not in the journal yet, and finish the file."""
        worker.check_progress()
        first, seconds = known.sequence, self.config.block_seconds
        skipped = min(max(0, worker.watch.next_sequence - first), count_blocks(recording, seconds))
        names = tuple(condition.name for condition in worker.watch.bundle.manifest.conditions)
        found = FoundFile(known.path, known.size, known.modified)
        self._machines.add(worker.machine)
        if not skipped:
            await self._end_recording(worker)
        blocks = blocks_of(recording, worker.machine, first=first, begin=known.begin, seconds=seconds, conditions=names)
        try:
            for block in blocks:
                if block.sequence >= first + skipped:
                    # As fast as the machine can follow without skipping adaptation.
                    while worker.waiting > worker.config.shed_below:
                        await self.sleep(POLL_SECONDS)
                    await self.deliver(block)
        except DataError as error:
            if is_environmental(error):
                raise  # The journal cannot be written at present; the file is taken later.
            await self._refuse(found, str(error), taken, worker.machine)
            return
        await self._end_recording(worker)
        await asyncio.to_thread(
            taken.put, TakenFile(found.path, found.size, found.modified, "taken", first, known.begin)
        )
        self.count(files=1)
        await asyncio.to_thread(self._put_away, found, taken)

    async def _read(self, found: FoundFile, worker: Worker, taken: TakenFiles) -> Recording | None:
        """Return the recording in a file; None if it was refused."""
        manifest, path = worker.watch.bundle.manifest, self._root / found.path
        return await self._attempt(lambda: read_for_manifest(path, self.config, manifest), found, taken, worker.machine)

    async def _attempt(self, read: Callable[[], T], found: FoundFile, taken: TakenFiles, machine: str) -> T | None:
        """Return what a reader returns; refuse the file if that fails."""
        try:
            return await asyncio.to_thread(read)
        except DataError as error:
            await self._refuse(found, str(error), taken, machine)
        except (ModuleNotFoundError, OSError, MemoryError, ValueError) as error:
            await self._refuse(found, f"{found.path}: cannot be read ({reason(error)})", taken, machine)
        return None

    def _misplaced(self, begin: float, worker: Worker) -> str | None:
        """Return why a recording that begins at a time cannot be used now."""
        if begin > self.clock() + MAX_AHEAD:
            return f"begins at {_date(begin)}, in the future; set the clock of the logger, timezone or start"
        known, tolerance = worker.watch.now, worker.watch.config.quality.clock_tolerance
        if worker.watch.next_sequence and begin < known - tolerance:
            return f"begins at {_date(begin)}, before the end of what is known, {_date(known)}; files come in order"
        return None

    async def _wait_until_idle(self, worker: Worker) -> None:
        """Wait until the machine has processed its journal, which then says what it has."""
        while worker.has_work:
            worker.check_progress()
            await self.sleep(POLL_SECONDS)

    async def _end_recording(self, worker: Worker) -> None:
        """Let the machine diagnose what it has, and expect another recording."""
        worker.command(Command("end_recording", SERVICE))
        await self._wait_until_idle(worker)

    async def _refuse(self, found: FoundFile, why: str, taken: TakenFiles, machine: str | None = None) -> None:
        """Set a file aside with the reason."""
        text = f"{found.path} is refused: {why}"
        await self.refuse(text, machine)
        self.count(refused_files=1)
        record = TakenFile(found.path, found.size, found.modified, "refused", reason=why)
        await asyncio.to_thread(taken.put, record)
        try:
            await asyncio.to_thread(self._move, found.path, REFUSED, why)
        except OSError:
            pass  # The folder is read-only: the file stays, and is known.
        else:
            await asyncio.to_thread(taken.forget, found.path)
        if machine is not None:
            self.plant.worker(machine).command(Command("remark", SERVICE, text[:1000]))

    def _put_away(self, found: FoundFile, taken: TakenFiles) -> None:
        """Do with a file that was taken what is configured."""
        if self.config.processed == "keep":
            return
        try:
            if self.config.processed == "delete":
                (self._root / found.path).unlink()
                (self._root / f"{found.path}{MARKER}").unlink(missing_ok=True)
            else:
                self._move(found.path, PROCESSED)
        except OSError as error:
            self.note(f"{found.path} was taken, but stays: {error}")
        else:
            taken.forget(found.path)

    def _move(self, path: str, to: str, why: str | None = None) -> None:
        """Move a file below a subfolder, with a reason beside it."""
        target = self._root / to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        number = 0
        while target.exists():
            number += 1
            target = target.with_name(f"{Path(path).stem}-{number}{Path(path).suffix}")
        (self._root / path).rename(target)
        (self._root / f"{path}{MARKER}").unlink(missing_ok=True)
        if why is not None:
            target.with_name(f"{target.name}.reason.txt").write_text(f"{why}\n", encoding="utf-8")


def _examined(path: Path, name: str) -> FoundFile | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return FoundFile(name, about.st_size, about.st_mtime_ns)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
