"""Tiny sets of steady-state recordings, and a profile that trains on them within a second."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cgsa.bench.executors import JobExecutor
from cgsa.bench.rotation.points import OperatingPoint
from cgsa.bench.rotation.sets import RotationSet
from cgsa.data.scenario import Condition, SegmentSelection, SpecimenKind
from tests.machines import SCENARIO

J = TypeVar("J")
RATE = 256.0
SECONDS = 2.0
TONES = {"healthy": 0.0, "worn": 40.0, "cracked": 90.0}
"""Classes, each with a tone of its own that does not depend on the condition."""

PROFILE = """
default_objective = "plain"
default_method = "reference"
[window]
length = 32
step = 8
[network]
frontend = "bands"
reference = true
hidden = [16, 8]
tap = 8
[train]
step = 8
epochs = 3
batch_size = 64
calibrate = true
[stream]
batch_size = 64
[objective.plain]
lr = 1e-2
[objective.cal]
lr = 1e-2
"""


def write_set(
    folder: Path,
    *,
    speeds: Sequence[int] = (600, 900, 1200),
    loads: Sequence[int] = (0,),
    units: int = 0,
    runs: int = 0,
    states: Sequence[str] = tuple(TONES),
) -> Path:
    """Write one recording per class, speed, load and, if any, unit or run."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for state, speed, load, number in product(states, speeds, loads, range(1, max(1, units, runs) + 1)):
        begin = f"{state}_{number}" if units or runs else state
        name = f"{begin}__{speed}rpm_{load}lb.npz"
        entry: dict[str, object] = {
            "file": name,
            "class": state,
            "condition": {"speed_rpm": speed, **({"load_lb": load} if len(loads) > 1 else {})},
        }
        entry |= ({"unit": f"{state}{number}"} if units else {}) | ({"run": number} if runs else {})
        files.append(entry)
        np.savez(folder / name, x=_signal(TONES.get(state, 0.0), speed, number))
    meta = {"fs": RATE, "channels": ["x", "y"], "files": files}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def change_files(folder: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], **more: object) -> Path:
    """Change the list of files of a set, and other entries of its meta.json."""
    path = folder / "meta.json"
    meta = json.loads(path.read_text())
    path.write_text(json.dumps({**meta, "files": change(meta["files"]), **more}))
    return folder


def merge_sets(folder: Path, other: Path) -> Path:
    """Add the recordings of another set that a set lacks."""
    more = json.loads((other / "meta.json").read_text())["files"]
    new = [file for file in more if not (folder / file["file"]).exists()]
    for file in new:
        (other / file["file"]).rename(folder / file["file"])
    return change_files(folder, lambda files: [*files, *new])


def _signal(tone: float, speed: int, number: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    time = np.arange(round(SECONDS * RATE)) / RATE
    rng = np.random.default_rng([round(tone), speed, number])
    signal = np.sin(2 * np.pi * speed / 60 * time) + (2 * np.sin(2 * np.pi * tone * time) if tone else 0)
    return (np.stack([signal, 0.5 * signal], axis=1) + 0.1 * rng.standard_normal((len(time), 2))).astype(np.float32)


def made_set(speeds: int, loads: int, specimens: int, kind: SpecimenKind = "unit") -> RotationSet:
    """Return a set with a full grid of points, without recordings."""
    conditions = (
        Condition("speed_rpm", "rpm", 0, max(1, speeds - 1), 0.1),
        Condition("load_lb", "lb", 0, max(1, loads - 1), 0.1),
    )
    points = tuple(
        OperatingPoint((float(speed), float(load)), (f"{speed}rpm_{load}lb",), tuple(range(1, specimens + 1)))
        for speed, load in product(range(speeds), range(loads))
    )
    stages = tuple(replace(stage, level={"speed_rpm": 0.0}) for stage in SCENARIO.online)
    scenario = replace(
        SCENARIO,
        conditions=conditions,
        offline=(SegmentSelection("all", "0rpm_0lb", level={"speed_rpm": 0.0}),),
        online=stages,
        specimens=kind,
    )
    return RotationSet(scenario, Path(), points, shortest=1000)


def write_profile(folder: Path) -> Path:
    """Write the tiny profile."""
    path = folder / "tiny.toml"
    path.write_text(PROFILE)
    return path


class InlineExecutor(JobExecutor):
    """Runs jobs in this process, one after the other."""

    def run_jobs(self, function: Callable[[J], str], jobs: Sequence[J], *, whole_device: bool) -> Iterator[str | None]:
        del whole_device
        yield from map(function, jobs)
