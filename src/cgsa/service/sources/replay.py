"""Replay of recordings from files, as if the machine ran now.

The files form one stream: block numbers continue from file to file and from round to round, and time stamps advance
with the samples, whatever the speed.
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
from cgsa.live.monitored import MonitoredMachine, MonitoredPlant
from cgsa.service.links.link import Clock, Sleep
from cgsa.service.sources.base import Source

MAX_LAG_SECONDS = 1.0
"""A longer delay is not caught up with: after a suspend, the machine must not be flooded with old data."""
READY_SECONDS = 0.5
"""Seconds of signal that may wait at a machine that follows as fast as it can; learning is shed from 2 s on."""
POLL_SECONDS = 0.02
"""Interval at which the machine's queue is checked."""


@dataclass(frozen=True)
class ReplayConfig:
    """What to replay, and how."""

    machine: str
    """Whose recordings they are."""
    files: tuple[str, ...]
    """In any format that has a reader."""
    channels: tuple[str, ...] = ()
    """Channels in this order; empty means all of the file."""
    speed: float = 1.0
    """Multiple of real time; 0 means as fast as the machine can follow without skipping adaptation."""
    loop: bool = False
    """Whether to start over after the last file."""
    loop_from: int = 0
    """File to start over with; 0 is the first."""
    block_seconds: float = 0.1
    """Length of a block."""
    start: float | None = None
    """Time stamp of the first sample, in seconds since 1970; None means now. If the machine's stream is further
    already, as after a restart, the replay continues from there."""

    def __post_init__(self) -> None:
        try:
            check_machine(self.machine)
        except DataError as error:
            raise ConfigError(str(error)) from error
        if not self.files:
            raise ConfigError("files: empty; expected at least one recording")
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
    config: ReplayConfig

    def __init__(
        self,
        plant: MonitoredPlant,
        config: ReplayConfig,
        *,
        name: str = "",
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.time,
        stopwatch: Clock = time.monotonic,
    ) -> None:
        super().__init__(plant, config, name=name, sleep=sleep, clock=clock)
        self.plant = plant
        self._stopwatch = stopwatch
        self._file = 0
        self._sequence = 0
        self._time: float | None = None
        """Time of the next sample; None before the first."""
        self._due = 0.0
        """When the last block was due, by the stopwatch: the wall clock may be changed."""

    async def connect(self) -> None:
        """Replay, starting with the file that was not finished before."""
        worker = self.plant.worker(self.config.machine)
        if self._time is None:
            self._time, self._due = await self._begin(worker), self._stopwatch()
        while self._file < len(self.config.files):
            recording = await asyncio.to_thread(self._read, self.config.files[self._file])
            await self.came_up()
            for block in self._blocks(recording, self._time):
                await self._wait_until_due(worker, block)
                await self.submit(block)
                self._sequence += 1
                self._time = block.time + block.seconds
            self._file += 1
            if self.config.loop and self._file == len(self.config.files):
                self._file = self.config.loop_from

    async def _begin(self, worker: MonitoredMachine) -> float:
        """Return the time of the first sample, once the machine has processed its earlier blocks."""
        while (status := worker.status()).waiting > 0 or status.work == "catching up":
            await self.sleep(POLL_SECONDS)
        start = self.clock() if self.config.start is None else self.config.start
        return max(start, worker.now)

    def _read(self, file: str) -> Recording:
        recording = read_recording(file)
        if not recording.samples:
            raise DataError(f"{file}: the recording has no samples")
        return recording.select(self.config.channels) if self.config.channels else recording

    def _blocks(self, recording: Recording, begin: float) -> Iterator[Block]:
        rate = recording.sample_rate
        length = max(1, round(self.config.block_seconds * rate))
        for first in range(0, recording.samples, length):
            samples = recording.signal[:, first : first + length]
            time_stamp = begin + first / rate
            yield Block(self.config.machine, self._sequence, time_stamp, rate, recording.channels, samples)

    async def _wait_until_due(self, worker: MonitoredMachine, block: Block) -> None:
        """Wait until a block is due, or until the machine is ready for it."""
        if self.config.speed > 0:
            now = self._stopwatch()
            self._due = max(self._due, now - MAX_LAG_SECONDS) + block.seconds / self.config.speed
            # A block is complete when its last sample was taken.
            await self.sleep(max(0.0, self._due - now))
            return
        while worker.status().waiting > READY_SECONDS:
            await self.sleep(POLL_SECONDS)
