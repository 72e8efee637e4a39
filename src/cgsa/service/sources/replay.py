"""Recordings from files, as if the machine ran now.

The files come one after the other, as one stream: the count of the blocks goes
on from file to file and from round to round, and time stamps advance with the
samples, whatever the speed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cgsa.data.readers import read_recording
from cgsa.data.recording import Recording
from cgsa.errors import ConfigError, DataError
from cgsa.live.intake.block import Block, check_machine
from cgsa.live.plant import Plant
from cgsa.live.worker import Worker
from cgsa.service.links.link import Clock, Sleep
from cgsa.service.sources.base import Source

FORGIVEN_SECONDS = 1.0
"""What is later than this is not made up for: a machine that slept must not be flooded with what it slept through."""
LOOK_SECONDS = 0.02
"""Between two looks whether a machine is ready for more."""


@dataclass(frozen=True)
class ReplayConfig:
    """What to replay, and how."""

    machine: str
    files: tuple[str, ...]
    """Of any format that a reader is known for."""
    channels: tuple[str, ...] = ()
    """In this order; none means all of the file."""
    speed: float = 1.0
    """Times real time; 0 means as fast as the machine's watch can follow without shedding its learning."""
    loop: bool = False
    """Whether to begin again after the last file..."""
    loop_from: int = 0
    """...and with which of them: 0 is the first."""
    block_seconds: float = 0.1
    start: float | None = None
    """Time stamp of the first sample, in seconds since 1970; none means now. Where the stream of the machine has come
    further already, as after a restart, it goes on from there."""

    def __post_init__(self) -> None:
        try:
            check_machine(self.machine)
        except DataError as error:
            raise ConfigError(str(error)) from error
        if not self.files:
            raise ConfigError("files: none; expected at least one recording")
        if not 0 <= self.loop_from < len(self.files):
            raise ConfigError(f"loop_from {self.loop_from}; expected 0 to {len(self.files) - 1}, one of the files")
        if not 0 <= self.speed < math.inf or not 0 < self.block_seconds < math.inf:
            raise ConfigError(
                f"speed {self.speed:g}, block_seconds {self.block_seconds:g}; "
                "expected 0 or more times real time, and blocks longer than 0 s"
            )


class ReplaySource(Source):
    """Replays recordings."""

    kind = "replay"
    Config: ClassVar[type[object]] = ReplayConfig

    def __init__(
        self,
        plant: Plant,
        config: ReplayConfig,
        *,
        name: str = "replay",
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.time,
        stopwatch: Clock = time.monotonic,
    ) -> None:
        super().__init__(plant, name, sleep=sleep, clock=clock)
        self.config = config
        self._stopwatch = stopwatch
        self._file = 0
        self._sequence = 0
        self._time: float | None = None
        """Of the next sample; none before the first."""
        self._due = 0.0
        """When the last block was to be handed over, by the stopwatch: clocks can be set."""

    async def live(self) -> None:
        """Replay from the file that could not be finished the last time."""
        worker = self.plant.worker(self.config.machine)
        if self._time is None:
            self._time, self._due = await self._begin(worker), self._stopwatch()
        while self._file < len(self.config.files):
            recording = await asyncio.to_thread(self._read, self.config.files[self._file])
            await self.came_up()
            for block in self._blocks(recording, self._time):
                await self._wait_for_turn(worker, block)
                await self.hand_over(block)
                self._sequence += 1
                self._time = block.time + block.seconds
            self._file += 1
            if self.config.loop and self._file == len(self.config.files):
                self._file = self.config.loop_from

    async def _begin(self, worker: Worker) -> float:
        """Return the time of the first sample, once the machine has caught up with what it was told before."""
        while worker.has_work:
            await self.sleep(LOOK_SECONDS)
        start = self.clock() if self.config.start is None else self.config.start
        return max(start, worker.watch.now)

    def _read(self, file: str) -> Recording:
        recording = read_recording(file)
        if not recording.samples:
            raise DataError(f"{file}: holds no samples; expected a recording")
        return recording.select(self.config.channels) if self.config.channels else recording

    def _blocks(self, recording: Recording, begin: float) -> Iterator[Block]:
        rate = recording.sample_rate
        length = max(1, round(self.config.block_seconds * rate))
        for first in range(0, recording.samples, length):
            samples = recording.signal[:, first : first + length]
            moment = begin + first / rate
            yield Block(self.config.machine, self._sequence, moment, rate, recording.channels, samples)

    async def _wait_for_turn(self, worker: Worker, block: Block) -> None:
        """Wait until a block is due, or until the machine is ready for it."""
        if self.config.speed > 0:
            now = self._stopwatch()
            self._due = max(self._due, now - FORGIVEN_SECONDS) + block.seconds / self.config.speed
            # A block is whole when its last sample was taken.
            await self.sleep(max(0.0, self._due - now))
            return
        while worker.waiting > worker.config.shed_below:
            await self.sleep(LOOK_SECONDS)
