"""A model of the healthy machine alone, from recordings to the printed verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgsa.nn.bundle import ModelBundle
from tests.cli.running import run_cgsa
from tests.toy_files import RUNS, SCENARIO, write_toy

SHORT = ["--set", "ensemble.seconds=0.25", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recordings, and a scenario that names no faults."""
    folder = write_toy(tmp_path_factory.mktemp("toy"))
    (folder / "healthy.toml").write_text(SCENARIO.replace('faults = ["wear", "crack"]', "faults = []"))
    return folder


def test_train_says_that_detection_was_not_measured(place: Path) -> None:
    data = place / "data" / "toy"
    text = run_cgsa("train", place / "toy.toml", place / "flag", "--data", data, "--healthy-only", *SHORT)
    assert "of the healthy windows were taken for changed" in " ".join(text.split())
    assert "no fault was recorded" in text
    manifest = ModelBundle.load(place / "flag").manifest
    assert manifest.classes == ("health", "changed")
    assert manifest.objective == "healthy_only"
    assert manifest.healthy_only is not None
    assert len(manifest.healthy_only.results) >= 2


def test_a_scenario_without_faults_needs_no_option_and_no_recording_of_a_fault(place: Path) -> None:
    data = place / "only_healthy"
    for path in (place / "data" / "toy").glob("health_*"):
        data.mkdir(exist_ok=True)
        (data / path.name).write_bytes(path.read_bytes())
    words = ["train", place / "healthy.toml", place / "plain", "--data", data, *SHORT, "--json"]
    result = json.loads(run_cgsa(*words))
    assert 0 <= result["false_share"] <= 1
    assert result["advice"][-1] == "Whether it detects faults was not measured: no fault was recorded."
    trained = [source for source, _, _ in ModelBundle.load(place / "plain").trained_on()]
    assert trained
    assert all("health" in source for source in trained)


def test_info_and_stream_use_the_model(place: Path) -> None:
    data = place / "data" / "toy"
    run_cgsa("train", place / "toy.toml", place / "model", "--data", data, "--healthy-only", *SHORT)
    shown = " ".join(run_cgsa("info", place / "model").split())
    assert "Healthy windows taken for changed, by held-out part" in shown
    assert "no fault was recorded" in shown
    streamed = [data / f"health_{RUNS['low']}.parquet", data / f"wear_H_{RUNS['low']}.parquet"]
    words = ["stream", place / "model", *streamed, "--healthy-start", "--device", "cpu"]
    text = " ".join(run_cgsa(*words).split())
    assert "Diagnosis by change" in text
    assert "changed at" in text
    assert "Hz line +" in text
    events = [json.loads(line) for line in run_cgsa(*words, "--json").splitlines()]
    assert events[-1]["state"] == events[-1]["alarm"] == "changed"
    assert events[-1]["change"]["score"] > 1
    assert {line["channel"] for line in events[-1]["change"]["lines"]} <= {"a", "b"}
