"""Tiny look-alikes of well-known public sets: names, folders and formats as they lie on disk, with invented signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.io import savemat

SAMPLES = 64
Array = npt.NDArray[np.float64]


class Signals:
    """Different noise each time, since a recording that stands in two classes stops an import."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def __call__(self, *shape: int) -> Array:
        return self._rng.normal(size=shape)


def write_mat(path: Path, **variables: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, variables)


def write_rows(path: Path, rows: Array, *, above: str = "", delimiter: str = ",", end: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [delimiter.join(f"{value:.6f}" for value in row) + end for row in rows]
    path.write_text(above + "\n".join(lines) + "\n", encoding="utf-8")


def cwru(folder: Path, signals: Signals) -> None:
    """The number of the file is in the names of its variables; the base has a sensor in some, and 99 a copy of 98."""
    before: dict[str, Array] = {}
    for first, sensors in ((97, "DE FE"), (109, "DE FE BA"), (122, "DE FE BA"), (135, "DE FE BA")):
        for number, rpm in enumerate((1797, 1772, 1750, 1730), start=first):
            # They differ in length.
            arrays = {f"X{number:03}_{name}_time": signals(SAMPLES + number, 1) for name in sensors.split()}
            copy = before if number == 99 else {}
            write_mat(folder / f"{number}.mat", **copy, **arrays, **{f"X{number:03}RPM": [[rpm]]})
            before = arrays


def paderborn(folder: Path, signals: Signals) -> None:
    """A structure with the name of the file holds series of three rates, and the times of each."""
    rates = {"HostService": 64_000, "Mech_4kHz": 4_000, "Temp_1Hz": 1}
    series = {"force": 2, "phase_current_1": 1, "phase_current_2": 1, "speed": 2, "torque": 2, "vibration_1": 1}
    fields = [(name, object) for name in ("Name", "Type", "Data", "Raster")]
    for unit, point, run in product(("K001", "K002", "KI04", "KA15"), ("N09_M07_F10", "N15_M07_F10"), (1, 2)):
        counts = {"HostService": 1601, "Mech_4kHz": 101, "Temp_1Hz": 1}
        times = [("", 1, np.arange(counts[name]) / rates[name], name) for name in ("Mech_4kHz", "HostService")]
        data = []
        for name, kind in series.items():
            raster = "HostService" if kind == 1 else "Mech_4kHz"
            data.append((name, 1, signals(counts[raster]) + (900 if name == "speed" else 0), raster))
        data.append(("temp_2_bearing_module", 1, np.full(5, 44.0), "Temp_1Hz"))
        name = f"{point}_{unit}_{run}"
        whole = {"Info": "text", "X": np.array(times, fields), "Y": np.array(data, fields), "Description": "text"}
        write_mat(folder / unit / f"{name}.mat", **{name: whole})


def mfpt(folder: Path, signals: Signals) -> None:
    """The rate of the shaft stands beside that of the samples, which is twice as high in some files."""
    kinds = {
        "1 - Three Baseline Conditions/baseline_{}": 97656,
        "2 - Three Outer Race Fault Conditions/OuterRaceFault_{}": 97656,
        "3 - Seven More Outer Race Fault Conditions/OuterRaceFault_vload_{}": 48828,
        "4 - Seven Inner Race Fault Conditions/InnerRaceFault_vload_{}": 48828,
    }
    for (name, rate), number in product(kinds.items(), (1, 2)):
        load = 270 if rate == 97656 else 50 * number
        # The types of numbers differ from file to file, and some are text.
        stated: Any = rate if number == 1 else str(rate)
        bearing = {"sr": stated, "gs": signals(2 * SAMPLES, 1), "load": np.uint16(load), "rate": 25}
        write_mat(folder / f"{name.format(number)}.mat", bearing=bearing)


def ottawa(folder: Path, signals: Signals) -> None:
    """Vibration and the pulses of an encoder, under varying speed."""
    for place, letter in enumerate("HIOBC", start=1):
        for speed, run in product("AB", (1, 2)):
            path = folder / f"{place} Data collected from a bearing" / f"{letter}-{speed}-{run}.mat"
            write_mat(path, Channel_1=signals(SAMPLES, 1), Channel_2=signals(SAMPLES, 1))


def uored(folder: Path, signals: Signals) -> None:
    """A matrix with the name of the file; speed and load stand in its first row alone."""
    states = {"1_Healthy/H": "0", "2_Inner_Race_Faults/I": "12", "3_Outer_Race_Faults/O": "12"}
    for (name, stages), number in product(states.items(), (1, 2)):
        for stage in stages:
            path = folder / f"{name}_{number}_{stage}.mat"
            slow = np.zeros((SAMPLES, 3))
            slow[0] = 1750, 400, 12
            write_mat(path, **{path.stem: np.hstack([signals(SAMPLES, 2), slow])})


def hust(folder: Path, signals: Signals) -> None:
    """Fault, bearing and load are letters and digits; the number fs is the shaft's frequency."""
    for fault, bearing, load in product(("N", "I", "O", "B", "IB", "IO", "OB"), "45", "024"):
        write_mat(folder / f"{fault}{bearing}0{load}.mat", data=signals(SAMPLES, 1), fs=20 + int(load) / 10)


def jnu(folder: Path, signals: Signals) -> None:
    """One column without a name."""
    for fault, speed in product(("n", "ib", "ob", "tb"), (600, 800, 1000)):
        tail = "_3_2" if fault == "n" else "_2"
        write_rows(folder / f"{fault}{speed}{tail}.csv", signals(SAMPLES, 1))


def seu(folder: Path, signals: Signals) -> None:
    """Sixteen lines above the data, tabs in all files but one, and a delimiter at the end of each row."""
    for fault, point in product(("ball", "comb", "health", "inner", "outer"), ("20_0", "30_2")):
        mark = "," if (fault, point) == ("ball", "20_0") else "\t"
        head = ["Title", "Number of signals", "Comment", *(f"Signal {number}" for number in range(1, 9)), "Range"]
        lines = [mark.join([name, "Volts/Unit", *[""] * 7]) for name in head]
        lines += ["", "", "", "Data" + mark * 8]
        above = "\n".join(lines) + "\n"
        write_rows(folder / f"{fault}_{point}.csv", signals(SAMPLES, 8), above=above, delimiter=mark, end=mark)


def xjtu_sy(folder: Path, signals: Signals) -> None:
    """A folder per condition and bearing, with one file per minute."""
    for point, number in product(("35Hz12kN/Bearing1_1", "35Hz12kN/Bearing1_2", "37.5Hz11kN/Bearing2_1"), range(1, 13)):
        head = "Horizontal_vibration_signals,Vertical_vibration_signals\n"
        write_rows(folder / point / f"{number}.csv", signals(SAMPLES, 2), above=head)


def ims(folder: Path, signals: Signals) -> None:
    """Names are times, without a suffix; tabs, no header."""
    for day in range(12, 20):
        write_rows(folder / f"2004.02.{day}.10.32.39", signals(SAMPLES, 4), delimiter="\t")


def mafaulda(folder: Path, signals: Signals) -> None:
    """Folders of class and severity; the name of the file is the frequency of the shaft."""
    kinds = ("normal", "imbalance/6g", "horizontal-misalignment/0.5mm", "vertical-misalignment/0.51mm")
    for kind, speed in product((*kinds, "underhang/ball_fault/0g", "overhang/cage_fault/6g"), ("12.288", "13.1072")):
        write_rows(folder / kind / f"{speed}.csv", signals(SAMPLES, 8))


def phm_2009(folder: Path, signals: Signals) -> None:
    """Three columns between spaces: two accelerometers and a tachometer."""
    for case, speed, load, run in product((1, 2, 3), (30, 35), ("High", "Low"), (1, 2)):
        path = folder / f"helical {case}" / f"helical {case}_{speed}hz_{load}_{run}.txt"
        write_rows(path, signals(SAMPLES, 3), delimiter=" ")


def mehran(folder: Path, signals: Signals) -> None:
    """Healthy files state no load, and some names have a random end."""
    names = ["Healthy bearing data/Healthy with pulley", "Healthy bearing data/healthy without pulley"]
    names += [f"0.7mm-bearing-faults/0.7{race}-{load}watt" for race in ("inner", "outer") for load in (100, 200)]
    names += ["0.7mm-bearing-faults/0.7inner-300watt-67V2Iv"]
    for name in names:
        rows = np.hstack([np.arange(SAMPLES)[:, None] * 1e-4, signals(SAMPLES, 3)])
        write_rows(folder / f"{name}.csv", rows, above="Time Stamp, X-axis, Y-axis, Z-axis\n")


def kaist(folder: Path, signals: Signals) -> None:
    """A structure of Test.Lab: the step of the time is deep in it."""
    for load, state in product((0, 2, 4), ("Normal", "BPFI_03", "BPFO_10", "Misalign_01", "Unbalance_0583mg")):
        times = {"start_value": 0.0, "increment": 1 / 25600, "number_of_values": SAMPLES}
        values = {"values": signals(SAMPLES, 4), "quantity": {"label": "g"}}
        write_mat(folder / f"{load}Nm_{state}.mat", Signal={"x_values": times, "y_values": values})


def kaist_run_to_failure(folder: Path, signals: Signals) -> None:
    """One file per hour without a header: two accelerometers and two temperatures."""
    for day in range(20, 27):
        rows = np.hstack([signals(SAMPLES, 2), np.full((SAMPLES, 2), 30.0)])
        write_rows(folder / f"LogFile_2022-06-{day}-17-00-31.csv", rows)


KNOWN_SETS: Mapping[str, Callable[[Path, Signals], None]] = {
    "cwru": cwru,
    "paderborn": paderborn,
    "mfpt": mfpt,
    "ottawa": ottawa,
    "uored": uored,
    "hust": hust,
    "jnu": jnu,
    "seu/bearingset": seu,
    "xjtu-sy": xjtu_sy,
    "ims/2nd_test": ims,
    "mafaulda": mafaulda,
    "phm2009": phm_2009,
    "mehran": mehran,
    "kaist/vibration": kaist,
    "kaist-run": kaist_run_to_failure,
}
"""Writers of the look-alikes by the folder of the set."""
