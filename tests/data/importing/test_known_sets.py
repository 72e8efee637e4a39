"""The lines on the page of well-known sets, on look-alikes of these sets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cgsa.data.dataset import DataSet
from tests.cli.running import run_cgsa
from tests.data.importing.known_sets import KNOWN_SETS, SAMPLES, Signals

PAGE = Path(__file__).parents[3] / "docs" / "import-known-sets.md"
LINES = {
    line.split()[2].rstrip("/"): line
    for line in PAGE.read_text("utf-8").splitlines()
    if line.startswith("cgsa import ")
}
"""By the folder of the set."""
CLASSES = {
    "cwru": (16, "normal ball inner outer"),
    "paderborn": (16, "healthy inner outer"),
    "mfpt": (8, "healthy inner outer"),
    "ottawa": (20, "healthy ball combination inner outer"),
    "uored": (10, "healthy inner outer"),
    "hust": (42, "normal ball inner inner_ball inner_outer outer outer_ball"),
    "jnu": (12, "normal ball inner outer"),
    "seu/bearingset": (10, "health ball comb inner outer"),
    "xjtu-sy": (18, "healthy worn"),
    "ims/2nd_test": (6, "healthy worn"),
    "mafaulda": (12, "normal horizontal imbalance overhang underhang vertical"),
    "phm2009": (12, "helical1 helical2 helical3"),
    "mehran": (7, "healthy inner outer"),
    "kaist/vibration": (15, "Normal BPFI_03 BPFO_10 Misalign_01 Unbalance_0583mg"),
    "kaist-run": (4, "healthy worn"),
}
"""Recordings and classes of the look-alikes."""
SHAFT = [("shaft_hz", value, value) for value in (20.0, 20.2, 20.4)]
DETAILS: Mapping[str, Mapping[str, object]] = {
    "cwru": {
        "channels": ["DE_time", "FE_time"],
        "conditions": [("speed", rpm, rpm) for rpm in (1730, 1750, 1772, 1797)],
    },
    "paderborn": {
        "rate": 64_000,
        "channels": ["phase_current_1", "phase_current_2", "vibration_1"],
        "conditions": [("force", 10), ("speed", 9), ("speed", 15), ("torque", 7)],
    },
    "mfpt": {"channels": ["gs"], "conditions": [("load_lb", load, load) for load in (50, 100, 270)]},
    "ottawa": {"channels": ["vibration"]},
    "hust": {"rate": 51_200, "conditions": [*[("load", load) for load in (0, 2, 4)], *SHAFT]},
    "jnu": {"conditions": [("speed", 600), ("speed", 800), ("speed", 1000)]},
    "seu/bearingset": {"conditions": [("load", 0), ("load", 2), ("speed", 20), ("speed", 30)]},
    "mafaulda": {"conditions": [("frequency", 12.288), ("frequency", 13.1072)]},
    "mehran": {"rate": 10_000, "channels": ["X-axis", "Y-axis", "Z-axis"]},
    "kaist/vibration": {"rate": 25_600, "conditions": [("torque", 0), ("torque", 2), ("torque", 4)]},
}
"""What is told by a name, a number or a clock."""


@pytest.fixture(params=KNOWN_SETS)
def imported(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, DataSet]:
    name = str(request.param)
    KNOWN_SETS[name](tmp_path / name, Signals())
    monkeypatch.chdir(tmp_path)
    words = shlex.split(LINES[name])
    # Noise of a few samples is nothing to be trained on.
    run_cgsa(*words[1:], "--despite-problems")
    return name, DataSet.load(tmp_path / words[3])


def test_each_known_set_is_imported_by_one_line(imported: tuple[str, DataSet]) -> None:
    name, data_set = imported
    about = data_set.about
    count, classes = CLASSES[name]
    assert (len(about.recordings), list(map(_squeezed, about.classes))) == (count, classes.split())
    found: dict[str, object] = {
        "rate": about.sample_rate,
        "channels": [channel.name for channel in about.channels],
        "conditions": sorted({(one, *values) for one, values in _levels(data_set)}),
    }
    assert {**found, **DETAILS.get(name, {})} == found


def _levels(data_set: DataSet) -> Iterator[tuple[str, tuple[float, ...]]]:
    for entry in data_set.about.recordings:
        yield from ((name, (value,)) for name, value in entry.levels.items())
        yield from entry.ranges.items()


def test_a_file_with_a_copy_of_another_one_gives_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN_SETS["cwru"](tmp_path / "cwru", Signals())
    monkeypatch.chdir(tmp_path)
    run_cgsa(*shlex.split(LINES["cwru"])[1:], "--despite-problems")
    data_set = DataSet.load(tmp_path / "cwru-set")
    found = {Path(entry.origin or "").stem: data_set.read(entry).samples for entry in data_set.about.recordings}
    assert found == {number: SAMPLES + int(number) for number in found}


def test_slow_series_may_be_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN_SETS["paderborn"](tmp_path / "paderborn", Signals())
    monkeypatch.chdir(tmp_path)
    line = shlex.split(LINES["paderborn"])
    line[line.index("--names") + 1] = "*_{unit}_{run}"
    run_cgsa(*line[1:], "--condition-column", "speed,torque", "--channels", "vibration_1", "--despite-problems")
    data_set = DataSet.load(tmp_path / "paderborn-set")
    recording = data_set.read(data_set.about.recordings[0])
    assert (recording.channels, list(recording.conditions)) == (("vibration_1",), ["speed", "torque"])
    # 16 samples to each value.
    speed = recording.conditions["speed"]
    assert 897 < speed.mean() < 903
    assert abs(speed[8] - (speed[0] + speed[16]) / 2) < 1e-4


def _squeezed(name: str) -> str:
    return name.replace(" ", "")


def test_every_line_but_two_is_tried() -> None:
    assert set(LINES) - set(KNOWN_SETS) == {"mcc5", "pump"}
