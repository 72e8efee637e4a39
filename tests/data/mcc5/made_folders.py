"""Small folders with the layout of the MCC5-THU data sets: a few seconds per run, at the rate of the real files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from pyarrow import csv

from cgsa.data.mcc5.recordings import GEARBOX_COLUMNS, MOTOR_COLUMNS
from cgsa.data.run import SAMPLE_RATE
from cgsa.data.scenario import builtin_scenarios
from tests.data.mcc5.examples import DoubleArray

Machine = Literal["gearbox", "motor"]
FAULT: dict[Machine, str] = {"gearbox": "gear_wear", "motor": "voltage_unbalance"}
"""The one fault of the scenarios here."""
LEVELS: dict[Machine, dict[str, tuple[float, float]]] = {
    "gearbox": {"1000rpm_10Nm": (10, 5), "1000rpm_20Nm": (20, 15)},
    "motor": {"20Nm_2000rpm": (20, 15), "40Nm_2000rpm": (40, 30)},
}
"""By machine and run: the named level and the lower one."""
SECONDS = 1.2
"""Of every segment and stage at a level."""


@dataclass(frozen=True)
class MadeRun:
    """One file; every field but the first three may hold a trap."""

    machine: Machine
    state: str
    run: str
    """As in the name of the file, such as ``1000rpm_10Nm``."""
    levels: tuple[float, ...] | None = None
    """Torque in Nm that is held in turn; by default the two levels of the run."""
    idle: float = 0.0
    """Torque at rest."""
    held: float = 1.4
    """Seconds at every level."""
    in_nm: bool = False
    layout: Literal["usual", "plain", "header", "early"] = "usual"
    """Of a motor file: nine columns; eight columns without or with a header; the early release without torque."""
    edit: Callable[[list[DoubleArray]], None] = lambda _: None
    """Changes the columns in place."""

    @property
    def name(self) -> str:
        """Name of the file, with the severity that the scenario asks for."""
        severity = {"gear_wear": "_H", "voltage_unbalance": "_L"}.get(self.state, "")
        return f"{self.state}{severity}_torque_circulation_{self.run}.csv"

    def columns(self) -> list[DoubleArray]:
        """Return key phase, torque and six signals as the file has them."""
        levels = self.levels or LEVELS[self.machine][self.run]
        # At rest, a slow rise, and every level with a quick change before the next.
        steps = [0.8, self.held, *[0.2, self.held] * (len(levels) - 1)]
        ends = 0.2 + np.cumsum(steps)
        time = np.arange(round(ends[-1] * SAMPLE_RATE)) / SAMPLE_RATE
        torque = np.interp(time, [0, 0.2, *ends], [self.idle, self.idle, *np.repeat(levels, 2)])
        rng = np.random.default_rng(len(self.state) + len(self.run))
        turns = time * (1000 if self.machine == "gearbox" else 2000) / 60
        line = np.sin(2 * np.pi * turns * (7 if self.state == "health" else 11))
        signals = [line + rng.normal(0, 0.5, time.size) for _ in range(6)]
        raw = torque if self.in_nm else torque / 6
        found = [np.where(turns % 1 < 0.11, 3.8, 0.0), raw, *signals]
        self.edit(found)
        return found

    def write(self, folder: Path, name: str | None = None) -> Path:
        """Write the file, and return its path."""
        columns, header = self.columns(), [""]
        time = np.arange(columns[0].size) / SAMPLE_RATE
        if self.machine == "gearbox":
            header = [*GEARBOX_COLUMNS] if self.layout != "plain" else header
        elif self.layout == "usual":
            columns = [time, *columns]
        elif self.layout == "header":
            header = [*MOTOR_COLUMNS]
        elif self.layout == "early":
            columns = [time % 1.28, columns[0], *columns[2:], np.full(time.size, np.nan)]
        return write_columns(folder / (name or self.name), columns, header)


def write_columns(path: Path, columns: Sequence[DoubleArray], header: Sequence[str]) -> Path:
    """Write columns with few decimals, in place of any file that is there; an empty header is left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # it may be a link to a file that others share
    # A clock needs more decimals than signals.
    table = pa.table(
        [np.round(one, 7 if place == 0 else 3) for place, one in enumerate(columns)],
        names=[*map(str, range(len(columns)))],
    )
    with path.open("wb") as file:
        if any(header):
            file.write((",".join(header) + "\n").encode())
        csv.write_csv(table, file, csv.WriteOptions(include_header=False))
    return path


def write_folder(folder: Path, machine: Machine) -> Path:
    """Write all files that the scenario of a machine needs."""
    for state in ("health", FAULT[machine]):
        for run in LEVELS[machine]:
            MadeRun(machine, state, run).write(folder)
    return folder


def write_plan(folder: Path, machine: Machine) -> Path:
    """Write a small plan, with the scenario of the machine for one fault and short stages, and return its path."""
    scenario = builtin_scenarios()[machine].read_text(encoding="utf-8").replace("seconds = 10", f"seconds = {SECONDS}")
    faults = next(line for line in scenario.splitlines() if line.startswith("faults ="))
    scenario = scenario.replace(faults, f'faults = ["{FAULT[machine]}"]')
    (folder / f"{machine}.toml").write_text(scenario, encoding="utf-8")
    path = folder / "plan.toml"
    path.write_text(PLAN.format(folder=folder, machine=machine), encoding="utf-8")
    return path


PLAN = """
name = "small"
scenarios = ["{folder}/{machine}.toml"]
profile = "quick"
trials = 1
specimens = 1

[settings.{machine}]
window = {{ step = 512 }}
network = {{ hidden = [16, 8], tap = 8 }}
train = {{ step = 512, epochs = 1, batch_size = 64 }}

[[entries]]
name = "CGSA"
objective = "cal"
method = "cgsa"
"""
