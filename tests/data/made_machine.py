"""A tiny machine for tests: signals of two classes at three speeds, as a data set or as CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import ChannelEntry, ConditionEntry, MachineFile, RecordingEntry, Split
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import FloatArray, Recording

RATE = 256.0
TONES = {"healthy": 0.0, "worn": 40.0, "cracked": 90.0}
"""Classes, each with a tone of its own."""


def made_signal(state: str, speed: int, number: int = 1, seconds: float = 4.0) -> FloatArray:
    time = np.arange(round(seconds * RATE)) / RATE
    rng = np.random.default_rng([len(state), speed, number])
    turning, tone = np.sin(2 * np.pi * speed / 60 * time), TONES[state]
    signal = turning + (2 * np.sin(2 * np.pi * tone * time) if tone else 0) + 0.3 * rng.standard_normal(len(time))
    return np.stack([signal, 0.5 * signal + 0.1 * rng.standard_normal(len(time))]).astype(np.float32)


def write_machine(
    folder: Path,
    *,
    states: Sequence[str] = ("healthy", "worn"),
    speeds: Sequence[int] = (600, 900, 1200),
    runs: int = 1,
    test_speeds: Sequence[int] = (),
) -> DataSet:
    """Write a data set with one recording per class, speed and run."""
    entries = []
    for state, speed, run in product(states, speeds, range(1, runs + 1)):
        file = f"recordings/{state}_{speed}rpm_{run}.parquet"
        recording = Recording(made_signal(state, speed, run), RATE, ("x", "y"), ("g", "g"), source=f"{folder}/{file}")
        write_parquet(recording, folder / file)
        split: Split | None = "test" if speed in test_speeds else None
        name = str(run) if runs > 1 else None
        entries.append(RecordingEntry(file, state, {"speed": float(speed)}, run=name, split=split))
    channels = (ChannelEntry("x", "g"), ChannelEntry("y", "g"))
    about = MachineFile("pump", RATE, tuple(states), channels, tuple(entries), (ConditionEntry("speed", "rpm"),))
    DataSet(folder, about).save()
    return DataSet.load(folder)


def write_csv_files(
    folder: Path,
    *,
    states: Sequence[str] = ("healthy", "worn"),
    speeds: Sequence[int] = (600, 900, 1200),
    runs: int = 1,
    clock: bool = True,
    seconds: float = 4.0,
    numbered: bool = True,
) -> Path:
    """Write what a logger might: semicolons, decimal commas, a row of units, and a time column if it has a clock."""
    folder.mkdir(parents=True, exist_ok=True)
    for state, speed, run in product(states, speeds, range(1, runs + 1)):
        x, y = made_signal(state, speed, run, seconds)
        rows = ["Zeit;acc_x;acc_y", "s;g;g"] if clock else ["acc_x;acc_y", "g;g"]
        for place, (a, b) in enumerate(zip(x, y, strict=True)):
            values = [place / RATE, a, b] if clock else [a, b]
            rows.append(";".join(f"{value:.6f}" for value in values).replace(".", ","))
        number = f"_{run}" if numbered else ""
        (folder / f"{state}_{speed}rpm{number}.csv").write_text("\n".join(rows) + "\n")
    return folder
