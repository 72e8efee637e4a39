"""The lines on the page of well-known sets, on look-alikes of these sets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cgsa.data.dataset import DataSet
from tests.cli.running import run_cgsa
from tests.data.importing.known_sets import KNOWN_SETS, Signals

PAGE = Path(__file__).parents[3] / "docs" / "import-known-sets.md"
LINES = {line.split()[2].rstrip("/"): line for line in re.findall(r"^cgsa import .*$", PAGE.read_text("utf-8"), re.M)}
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
    lengths = {recording.samples for recording in data_set.recordings()}
    assert min(lengths) > 0


def _squeezed(name: str) -> str:
    return name.replace(" ", "")


def test_every_line_but_two_is_tried() -> None:
    assert set(LINES) - set(KNOWN_SETS) == {"mcc5", "pump"}
