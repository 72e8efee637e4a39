from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import ChannelEntry, ConditionEntry, MachineFile, RecordingEntry
from cgsa.data.readers import read_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from tests.cli.running import run_cgsa
from tests.machines import RATE, bundle, ensemble_bundle

KINEMATICS = """
[kinematics]
shafts = [{ name = "rotor" }]
"""
SPEED = 1200.0


def write(path: Path, seed: int, fault: float = 0.0, seconds: float = 4.0) -> None:
    count = round(seconds * RATE)
    signal = np.random.default_rng(seed).standard_normal((2, count))
    angle = 2 * np.pi * SPEED / 60 * np.arange(count - count // 2) / RATE
    signal[1, count // 2 :] += fault * sum(np.sin(order * angle) for order in range(1, 6))
    trace = {"speed": np.full(count, SPEED, np.float32)}
    write_parquet(Recording(signal.astype(np.float32), RATE, ("a", "b"), ("g", "g"), trace, source=path.name), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a healthy recording, and one with harmonics of the shaft from half of it on."""
    place = tmp_path_factory.mktemp("explain")
    ensemble_bundle().save(place / "model")
    bundle().save(place / "network")
    write(place / "healthy.parquet", 1)
    write(place / "faulty.parquet", 2, fault=2.0)
    (place / "machine.toml").write_text(KINEMATICS)
    return place


def test_explains_an_interval_on_the_screen_and_as_a_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    page = folder / "page.html"
    words = ["explain", folder / "model", folder / "faulty.parquet", "--from", 2, "--to", 4]
    text = run_cgsa(*words, "--kinematics", folder / "machine.toml", "--html", page)
    assert f"Compared with {folder / 'faulty.parquet'} before the interval." in " ".join(text.split())
    assert "harmonics of shaft rotor" in text
    assert "like unbalance, misalignment or looseness" in text
    assert "contribution to" in text
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 4
    assert "<script" not in html
    assert "--kinematics" in html


def test_json_has_families_bands_and_contributions(folder: Path) -> None:
    words = ["explain", folder / "model", folder / "faulty.parquet", "--from", 2, "--json"]
    found = json.loads(
        run_cgsa(*words, "--healthy", folder / "healthy.parquet", "--kinematics", folder / "machine.toml")
    )
    assert found["families"][0]["name"] == "harmonics of shaft rotor"
    assert found["families"][0]["chance"] < 0.02
    assert found["healthy"] == [str(folder / "healthy.parquet")]
    assert found["bands"][0]["channel"] == "b"
    assert found["contributions"]["kinds"]
    assert (found["begin"], found["end"]) == (2.0, 4.0)


def test_the_healthy_recordings_of_a_data_set_are_a_reference(folder: Path, tmp_path: Path) -> None:
    """And the recording may be a CSV that leaves units and rate to the model."""
    entries = tuple(
        RecordingEntry(f"{name}.parquet", label, {"speed": SPEED})
        for name, label in (("healthy", "health"), ("faulty", "wear"))
    )
    for entry in entries:
        shutil.copy(folder / entry.file, tmp_path)
    channels = (ChannelEntry("a", "g"), ChannelEntry("b", "g"))
    about = MachineFile("press", RATE, ("health", "wear"), channels, entries, (ConditionEntry("speed", "rpm"),))
    DataSet(tmp_path, about).save()
    samples = read_recording(folder / "faulty.parquet").signal.T
    np.savetxt(tmp_path / "new.csv", samples, delimiter=",", header="a,b", comments="", fmt="%.6f")
    words = ["explain", folder / "model", tmp_path / "new.csv", "--from", 2, "--healthy", tmp_path, "--json"]
    found = json.loads(run_cgsa(*words))
    assert found["source"] == str(tmp_path / "new.csv")
    assert found["healthy"] == ["healthy.parquet"]
    order = found["peaks"][0]["frequency"] / (SPEED / 60)
    assert order == pytest.approx(round(order), abs=0.05)


def test_without_an_interval_the_recording_is_diagnosed_first(folder: Path) -> None:
    result = CliRunner().invoke(app, ["explain", str(folder / "model"), str(folder / "healthy.parquet"), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    assert 0 <= found["begin"] < found["end"] <= 4.0


def test_a_network_has_no_contributions(folder: Path) -> None:
    words = ["explain", folder / "network", folder / "faulty.parquet", "--from", 2, "--json"]
    assert json.loads(run_cgsa(*words))["contributions"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "9"], "the recording has 4.000 s"),
        (["--from", "2", "--envelope", "loud"], "expected one of pooled, prewhitened, kurtosis, broad"),
        (["--from", "2", "--kinematics", "gearbux"], "known: gearbox"),
        (["--from", "2", "--speed", "-3"], "expected a positive number"),
    ],
)
def test_mistakes_are_explained(folder: Path, words: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["explain", str(folder / "model"), str(folder / "faulty.parquet"), *words])
    assert result.exception is not None
    assert message in str(result.exception)


def test_stream_names_the_lines_of_an_alarm(folder: Path) -> None:
    files = [folder / "healthy.parquet", folder / "loud.parquet"]
    write(files[1], 3, fault=30.0, seconds=8.0)
    words = ["stream", folder / "model", *files, "--healthy-start", "--device", "cpu", "--json"]
    lines = run_cgsa(*words, "--kinematics", folder / "machine.toml").splitlines()
    events = [json.loads(line) for line in lines]
    alarms = {one["source"] for one in events if one["event"] == "diagnosis" and one["alarm"]}
    explained = [one for one in events if one["event"] == "explanation"]
    assert {one["source"] for one in explained} == alarms
    assert all(one["sentences"] for one in explained)
