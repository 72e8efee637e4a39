"""Compare the simulated gearbox with the excerpts of the recorded one, as Markdown tables.

Run ``python benchmarks/calibrate_gearbox.py`` with CGSA_DATA naming the folder
that holds ``mcc5_thu_excerpts``. The excerpts are levels and lines only;
neither this script nor the rig uses a classifier.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.signal as sps
import scipy.stats

from cgsa.data.run import SAMPLE_RATE
from cgsa.rigs.base import DoubleArray
from cgsa.rigs.gearbox import GearboxRig
from cgsa.rigs.gearbox_model import TEETH

SPECIMENS = (1, 2, 3, 4, 5)
AXES = ("motor x", "motor y", "motor z", "gearbox x", "gearbox y", "gearbox z")
BANDS = ((20, 300), (300, 700), (700, 1200), (1200, 1700), (1700, 2500), (2500, 3500), (3500, 4500), (4500, 5800))
ROWS_SPEED, ROWS_TORQUE = 2000, 20
"""The rows do not state their speed; the share of rows on an edge of the key phase fits 2000 rpm best."""
EXCERPT_SPEED, EXCERPT_TORQUE = 3000, 20
"""Nominal speed of the excerpt, whose actual speed is 2959 rpm."""


def main() -> None:
    excerpts = Path(os.environ.get("CGSA_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mcc5_thu_excerpts"
    rows = np.load(excerpts / "mpos_rows_ratio5.npz")
    values, labels = rows["x"].astype(float), rows["label"]
    rig = GearboxRig()
    print(f"Seed 0, specimens {SPECIMENS[0]} to {SPECIMENS[-1]}: minimum, median, maximum.\n")
    key_phase(rig, values[:, 0])
    levels(rig, values[:, 2:], labels)
    excerpt = np.load(excerpts / "input_sig.npy").astype(float)
    lines(rig, excerpt)
    standstill = np.load(excerpts / "gearbox_fault_snippet.npy").astype(float)
    rest = rig.drive("health", torque=0, speed=0, seconds=0.32).signal[4]
    table(
        ["standstill", "excerpt", "simulated"],
        [["RMS, mg", f"{1e3 * standstill.std():.1f}", f"{1e3 * rest.std():.1f}"]],
    )


def key_phase(rig: GearboxRig, recorded: DoubleArray) -> None:
    """Print range, duty cycle and share of rows on an edge; the share depends on the speed."""

    def describe(volts: DoubleArray) -> list[str]:
        edge = np.mean((volts > 0.3) & (volts < 3.3))
        return [f"{volts.min():.2f}", f"{volts.max():.2f}", f"{np.mean(volts > 2):.3f}", f"{100 * edge:.2f}"]

    body = [["rows", *describe(recorded)]]
    for speed in (1000, 2000, 3000):
        simulated = rig.drive("health", torque=ROWS_TORQUE, speed=speed, seconds=2).signal[0].astype(float)
        body.append([f"simulated, {speed} rpm", *describe(simulated)])
    table(["key phase", "lowest, V", "highest, V", "duty", "on an edge, %"], body)


def levels(rig: GearboxRig, recorded: DoubleArray, labels: DoubleArray) -> None:
    """Print RMS and kurtosis of every axis at the operating point of the rows."""
    healthy = steady_runs(rig, "health", speed=ROWS_SPEED, torque=ROWS_TORQUE, seconds=2)
    body = []
    for axis, name in enumerate(AXES):
        real = [recorded[labels == label, axis] for label in (0, 1, 2)]
        simulated = [run[axis] for run in healthy]
        body.append(
            [
                name,
                " / ".join(f"{part.std():.2f}" for part in real),
                spread(part.std() for part in simulated),
                f"{kurtosis(real[0]):.2f}",
                spread(kurtosis(part) for part in simulated),
            ]
        )
    table(
        [
            "axis",
            "rows: RMS, g (labels 0 / 1 / 2)",
            "simulated health: RMS, g",
            "rows: kurtosis",
            "simulated: kurtosis",
        ],
        body,
    )


def lines(rig: GearboxRig, excerpt: DoubleArray) -> None:
    """Print the energy per band, and the height of spectral lines above the noise floor, at 2959 rpm."""
    runs = steady_runs(rig, "teeth_break", speed=EXCERPT_SPEED, torque=EXCERPT_TORQUE, seconds=2)
    channels = [run[axis] for run in runs for axis in (3, 4, 5)]
    shaft = 1430.0 / TEETH[0]
    intermediate = shaft * TEETH[0] / TEETH[1]
    body = [
        ["RMS, g", f"{excerpt.std():.2f}", spread(part.std() for part in channels)],
        ["kurtosis", f"{kurtosis(excerpt):.2f}", spread(kurtosis(part) for part in channels)],
    ]
    for low, high in BANDS:
        body.append(
            [
                f"energy {low} to {high} Hz, %",
                f"{band_share(excerpt, low, high):.2f}",
                spread(band_share(part, low, high) for part in channels),
            ]
        )
    wanted = {
        "motor shaft": (1.0, 0.0),
        "first mesh": (29.0, 0.0),
        "first mesh, 2nd": (58.0, 0.0),
        "first mesh, 3rd": (87.0, 0.0),
        "first mesh + motor shaft": (30.0, 0.0),
        "first mesh - motor shaft": (28.0, 0.0),
        "second mesh": (0.0, 36.0),
        "second mesh, 2nd": (0.0, 72.0),
        "first mesh + intermediate shaft": (29.0, 1.0),
        "first mesh - intermediate shaft": (29.0, -1.0),
    }
    for name, (of_shaft, of_intermediate) in wanted.items():
        body.append(
            [
                f"{name} over floor, dB",
                f"{over_floor(excerpt, of_shaft * shaft + of_intermediate * intermediate):.0f}",
                spread(
                    over_floor(part, of_shaft * own + of_intermediate * own * TEETH[0] / TEETH[1])
                    for part, own in zip(channels, np.repeat(shaft_speeds(rig), 3), strict=True)
                ),
            ]
        )
    table(["at 2959 rpm", "excerpt (compound fault)", "simulated teeth_break, gearbox axes"], body)


def steady_runs(rig: GearboxRig, state: str, *, speed: float, torque: float, seconds: float) -> list[DoubleArray]:
    return [
        rig.drive(state, torque=torque, speed=speed, seconds=seconds, specimen=specimen).signal[1:].astype(float)
        for specimen in SPECIMENS
    ]


def shaft_speeds(rig: GearboxRig) -> list[float]:
    """Return the speed of the motor shaft in Hz, per specimen, at the operating point of the excerpt."""
    return [
        float(
            rig.drive("teeth_break", torque=EXCERPT_TORQUE, speed=EXCERPT_SPEED, seconds=2, specimen=specimen)
            .conditions["speed"]
            .mean()
        )
        / 60
        for specimen in SPECIMENS
    ]


def band_share(signal: DoubleArray, low: float, high: float) -> float:
    frequency, density = sps.welch(signal - signal.mean(), SAMPLE_RATE, nperseg=8192)
    inside = (frequency >= low) & (frequency < high)
    return float(100 * density[inside].sum() / density.sum())


def over_floor(signal: DoubleArray, line: float) -> float:
    """Return the peak within 2 Hz of ``line`` over the median within 80 Hz of it, in dB."""
    spectrum = np.abs(np.fft.rfft((signal - signal.mean()) * np.hanning(signal.size)))
    frequency = np.fft.rfftfreq(signal.size, 1 / SAMPLE_RATE)
    peak = spectrum[np.abs(frequency - line) <= 2].max()
    return float(20 * np.log10(peak / np.median(spectrum[np.abs(frequency - line) <= 80])))


def kurtosis(signal: DoubleArray) -> float:
    return float(scipy.stats.kurtosis(signal, fisher=False))


def spread(values: Iterable[float]) -> str:
    low, middle, high = np.quantile(list(values), [0, 0.5, 1])
    return f"{low:.2f} .. {middle:.2f} .. {high:.2f}"


def table(head: list[str], body: list[list[str]]) -> None:
    for row in [head, ["---"] * len(head), *body]:
        print(f"| {' | '.join(row)} |")
    print()


if __name__ == "__main__":
    main()
