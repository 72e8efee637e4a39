"""A made-up machine of any size: a shaft, a pair of gears and a bearing, at a grid of speeds and loads.

It costs what a real machine of that size costs, and is not meant to resemble one: its accuracy says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import ChannelEntry, ConditionEntry, MachineFile, RecordingEntry
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import FloatArray, Recording

STATES = ("healthy", "unbalance", "misalignment", "gear_wear", "inner_race", "outer_race", "looseness")
TEETH, RESONANCE_HZ, DAMPING = 23, 3100.0, 900.0
IMPACTS_PER_TURN = {"inner_race": 5.4, "outer_race": 3.6}
"""How often a roller passes the damage."""
CHANNELS = ("x", "y", "z")
DIRECTIONS = np.array([[1.0, 0.6, 0.3], [0.4, 1.0, 0.5], [0.3, 0.4, 1.0]])
"""How strongly shaft, gears and bearing are felt by each channel: (sources, channels)."""


@dataclass(frozen=True)
class MadeUpMachine:
    """How many recordings there are, and how long they are."""

    name: str
    classes: int
    speeds: int
    loads: int
    sample_rate: float = 12_800.0
    seconds: float = 4.0

    @property
    def recordings(self) -> int:
        """One for each class and condition."""
        return self.classes * self.speeds * self.loads

    def record(self, state: str, speed: float, load: float) -> FloatArray:
        """Return the signal of a state at a speed in rpm and a load in Nm, (channels, samples)."""
        random = np.random.default_rng([STATES.index(state), round(speed), round(load)])
        time = np.arange(round(self.seconds * self.sample_rate)) / self.sample_rate
        turns, strength = speed / 60 * time, 1 + 0.05 * load
        orders: dict[float, float] = {
            1: 1.0 + 1.5 * (state == "unbalance"),
            2: 0.3 + 1.2 * (state == "misalignment"),
            3: 0.2,
        }
        if state == "looseness":
            orders |= dict.fromkeys((0.5, 1.5, 3, 4, 5), 0.5)
        phases = random.uniform(0, 2 * np.pi, 16)
        shaft = sum(
            size * (speed / 1500) ** 2 * np.sin(2 * np.pi * order * turns + phase)
            for (order, size), phase in zip(orders.items(), phases, strict=False)
        )
        depth = 0.1 + 0.5 * (state == "gear_wear")
        mesh = np.sin(2 * np.pi * TEETH * turns + phases[-1]) + 0.4 * np.sin(4 * np.pi * TEETH * turns + phases[-2])
        gears = strength * (1 + depth * np.sin(2 * np.pi * turns + phases[-3])) * mesh
        bearing = 0.1 * random.standard_normal(len(time))
        if state in IMPACTS_PER_TURN:
            bearing += strength * self._impacts(IMPACTS_PER_TURN[state] * turns, random)
        sources = np.stack([shaft, gears, bearing])
        signal = DIRECTIONS.T @ sources + 0.3 * random.standard_normal((len(CHANNELS), len(time)))
        return np.asarray(signal, dtype=np.float32)

    def _impacts(self, passes: np.ndarray[tuple[int], np.dtype[np.float64]], random: np.random.Generator) -> FloatArray:
        """Return the ringing of a resonance that every pass of a roller excites."""
        hits = np.flatnonzero(np.diff(np.floor(passes)) > 0)
        train = np.zeros(len(passes))
        train[hits] = random.uniform(0.7, 1.3, len(hits))
        time = np.arange(round(8 / DAMPING * self.sample_rate)) / self.sample_rate
        ringing = np.exp(-DAMPING * time) * np.sin(2 * np.pi * RESONANCE_HZ * time)
        return np.asarray(np.convolve(train, ringing)[: len(passes)])

    def write(self, folder: Path) -> None:
        """Write the data set, as ``cgsa import`` does, unless it is there."""
        entries = []
        for number in range(self.recordings):
            place, state = divmod(number, self.classes)
            speed, load = 600.0 + 300 * (place % self.speeds), 5.0 * (place // self.speeds)
            entry = RecordingEntry(
                f"recordings/{number:04d}.parquet", STATES[state], {"speed": speed, "load": load}, unit="1"
            )
            entries.append(entry)
            if not (folder / entry.file).exists():
                (folder / entry.file).parent.mkdir(parents=True, exist_ok=True)
                signal = self.record(entry.label, speed, load)
                write_parquet(
                    Recording(signal, self.sample_rate, CHANNELS, ("g",) * len(CHANNELS), label=entry.label),
                    folder / entry.file,
                )
        channels = tuple(ChannelEntry(name, "g") for name in CHANNELS)
        conditions = (ConditionEntry("speed", "rpm"), ConditionEntry("load", "Nm"))
        classes = STATES[: self.classes]
        DataSet(folder, MachineFile(self.name, self.sample_rate, classes, channels, tuple(entries), conditions)).save()
