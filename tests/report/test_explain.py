from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import ChannelEntry, MachineFile, RecordingEntry
from cgsa.data.readers.parquet import write_parquet
from cgsa.explain.explanation import ExplainedSpectra, Explanation, explain_interval
from cgsa.live.plant import ExplainConfig
from cgsa.live.store import Snippet
from cgsa.report.alarm_explanation import NO_KINEMATICS, explain_snippet
from cgsa.report.explain import explain_page, spectrum_pictures
from tests.explain.signals import BEARING, GEOMETRY, RATE, SPEED, impacts, noise, recording

SIGNAL = noise(0) + impacts(SPEED / 60 * GEOMETRY.outer, 8.0)


@pytest.fixture(scope="module")
def explained() -> tuple[Explanation, ExplainedSpectra]:
    return explain_interval(recording(SIGNAL, "press & co"), [recording(noise(1), "before")], BEARING)


def test_the_page_is_self_contained(explained: tuple[Explanation, ExplainedSpectra]) -> None:
    text = explain_page(*explained, None, ["cgsa explain model file"]).html
    assert "press &amp; co" in text
    assert "BPFO of test bearing" in text
    assert text.count("<svg") == 3
    assert "<script" not in text
    for _, target in re.findall(r'(src|href)="([^"]*)"', text):
        assert target.startswith(("#", "data:"))


def test_the_page_of_a_machine_without_kinematics_has_no_families() -> None:
    found = explain_interval(recording(SIGNAL))
    text = explain_page(*found, None).html
    assert "Families of lines" not in text
    assert len(spectrum_pictures(*found)) == 2


def snippet() -> Snippet:
    samples = SIGNAL.astype(np.float32)
    samples[0, 5] = np.nan
    return Snippet("press", 10.0, 3, RATE, ("v0",), samples)


def test_an_alarm_of_a_watched_machine_is_explained() -> None:
    found = explain_snippet(snippet(), ExplainConfig("kat_units", speed=SPEED), {"v0": "g"})
    assert found.families[0][0] == "BPFO of test bearing"
    assert "damage of the outer ring" in found.sentences[0]
    assert found.case == 3


def test_a_data_set_gives_its_healthy_recordings(tmp_path: Path) -> None:
    entries = [RecordingEntry(f"recordings/{state}.parquet", state) for state in ("healthy", "worn")]
    for entry, signal in zip(entries, (noise(1), SIGNAL), strict=True):
        write_parquet(recording(signal, entry.label), tmp_path / entry.file)
    units = recording(SIGNAL).units
    about = MachineFile("m", RATE, ("healthy", "worn"), (ChannelEntry("v0", units[0]),), tuple(entries))
    DataSet(tmp_path, about).save()
    config = ExplainConfig("kat_units", healthy=(str(tmp_path),), speed=SPEED)
    found = explain_snippet(snippet(), config, {"v0": units[0]})
    assert found.families[0][0] == "BPFO of test bearing"
    assert not any("no healthy recording" in note for note in found.notes)


def test_what_prevents_an_explanation_is_a_note() -> None:
    assert NO_KINEMATICS in explain_snippet(snippet(), ExplainConfig(), {}).notes
    unknown = explain_snippet(snippet(), ExplainConfig("kat_units"), {})
    assert any("the speed is unknown" in note for note in unknown.notes)
    missing = explain_snippet(snippet(), ExplainConfig("kat_units", healthy=("nowhere.parquet",)), {})
    assert missing.sentences == ()
    assert "no such file" in missing.notes[0]
    short = explain_snippet(replace(snippet(), samples=np.zeros((1, 8), np.float32)), ExplainConfig(), {})
    assert "an interval of 8 samples" in short.notes[0]
