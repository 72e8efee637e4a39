"""Compare the simulated motor with known figures of the real one, as a Markdown table.

Vibration is compared with single rows of the motor-side sensor of the MCC5-THU
gearbox data set (``mcc5_thu_excerpts/mpos_rows_ratio5.npz`` in the folder that
the variable CGSA_DATA names), speeds with known values of the motor data set,
and currents with values calculated from the nameplate.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from cgsa.data.recording import Recording
from cgsa.rigs.base import DoubleArray
from cgsa.rigs.motor import COMMAND, MotorRig, inverter_voltage
from cgsa.rigs.motor_model import GEAR_RATIO, MotorParameters, friction_torque

DATA = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[2] / "shared" / "data"))
EXCERPT = DATA / "mcc5_thu_excerpts" / "mpos_rows_ratio5.npz"
SPECIMENS = range(1, 6)
AXES = ("horizontal", "axial", "vertical")
EXCERPT_COLUMNS = (3, 2, 4)
"""Columns of the excerpt in the order of AXES: gearbox files name the axial direction x and the horizontal one y."""
KNOWN_SPEEDS = {(1000, 0): 1003, (1000, 40): 969, (3000, 0): 3008, (3000, 40): 2921}
EFFICIENCY, POWER_FACTOR = 0.81, 0.86
"""Typical of a 2.2 kW two-pole motor near its rated load."""


def healthy(torque: int, speed: int) -> list[Recording]:
    rig = MotorRig()
    return [rig.drive("health", torque=torque, speed=speed, seconds=2.0, specimen=n) for n in SPECIMENS]


def spread(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def kurtosis(signal: DoubleArray) -> float:
    centred = signal - signal.mean()
    return float(np.mean(centred**4) / np.mean(centred**2) ** 2)


def vibration_rows(excerpt: DoubleArray) -> list[str]:
    recordings = {speed: healthy(20, speed) for speed in (1000, 2000, 3000)}
    rows = []
    for row, (axis, column) in enumerate(zip(AXES, EXCERPT_COLUMNS, strict=True), start=1):
        for speed, specimens in recordings.items():
            levels = [float(recording.signal[row].std()) for recording in specimens]
            target = f"{excerpt[:, column].std():.2f}" if speed == 2000 else "-"
            rows.append(f"| vibration {axis}, {speed} rpm, 20 Nm, g rms | {target} | {spread(levels, 2)} |")
        tails = [kurtosis(recording.signal[row].astype(np.float64)) for recording in recordings[2000]]
        rows.append(
            f"| vibration {axis}, 2000 rpm, 20 Nm, kurtosis | {kurtosis(excerpt[:, column]):.2f} | {spread(tails, 2)} |"
        )
    pulses = np.concatenate([recording.signal[0] for recording in recordings[2000]])
    for name, quantile in (("lowest 0.1 %", 0.001), ("median", 0.5), ("highest 0.1 %", 0.999)):
        values = [float(np.quantile(key_phase, quantile)) for key_phase in (excerpt[:, 0], pulses)]
        rows.append(f"| key phase, {name}, V | {values[0]:.2f} | {values[1]:.2f} |")
    duty = [float(np.mean(key_phase > 2)) for key_phase in (excerpt[:, 0], pulses)]
    rows.append(f"| key phase, share above 2 V | {duty[0]:.3f} | {duty[1]:.3f} |")
    return rows


def speed_rows() -> list[str]:
    return [
        f"| speed, {speed} rpm, {torque} Nm, rpm | {known} | "
        f"{spread([float(r.conditions['speed'].mean()) for r in healthy(torque, speed)], 0)} |"
        for (speed, torque), known in KNOWN_SPEEDS.items()
    ]


def current_rows() -> list[str]:
    rows = []
    for speed in (1000, 2000, 3000):
        omega = speed * np.pi / 30
        power = (40 / GEAR_RATIO + friction_torque(MotorParameters(), omega)) * omega
        phase_voltage = float(inverter_voltage(np.array([COMMAND * speed / 60]))[0]) / np.sqrt(2)
        expected = power / (EFFICIENCY * POWER_FACTOR * 3 * phase_voltage)
        levels = [float(np.sqrt(np.mean(r.signal[4:] ** 2))) for r in healthy(40, speed)]
        rows.append(f"| current, {speed} rpm, 40 Nm, A rms | {expected:.1f} | {spread(levels, 1)} |")
    return rows


def main() -> None:
    if not EXCERPT.is_file():
        sys.exit(f"{EXCERPT} is missing; set CGSA_DATA to the folder that holds mcc5_thu_excerpts")
    excerpt = np.load(EXCERPT)["x"].astype(np.float64)
    print("| quantity | target | simulated, mean of 5 specimens (range) |\n|---|---|---|")
    print("\n".join([*vibration_rows(excerpt), *speed_rows(), *current_rows()]))


if __name__ == "__main__":
    main()
