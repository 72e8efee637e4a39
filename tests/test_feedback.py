"""A labelled alarm of a running service reaches a retrained model and the page that compares it with the old one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import numpy as np
import pytest

from cgsa.data.dataset import DataSet
from cgsa.nn.bundle import ModelBundle
from tests.cli.running import run_cgsa
from tests.cli.test_serve import free_port
from tests.cli.test_serve_model import send, served
from tests.data.made_machine import made_signal, write_machine

SETTINGS = ["--set", "ensemble.seconds=0.5", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a machine, and a service with a labelled alarm that the model could not name."""
    folder = tmp_path_factory.mktemp("feedback")
    write_machine(folder / "machine")
    run_cgsa("train", folder / "machine", folder / "model", *SETTINGS)
    for state in ("healthy", "cracked"):
        np.save(folder / f"{state}.npy", made_signal(state, 1050, seconds=16.0).T)
    with served(folder, free_port()) as (url, _):
        token = (folder / "plant" / "login-link").read_text().strip().partition("#")[2]
        sent = send(folder, "healthy.npy", "cracked.npy", "--speed", "0", "--condition", "speed=1050")
        assert sent.returncode == 0, sent.stderr
        with httpx.Client(base_url=f"{url}/api", headers={"Authorization": f"Bearer {token}"}) as api:
            (case,) = (row["case"] for row in api.get("/cases").json()["rows"])
            now = api.get("/machines/press-1").json()["now"]
            label = {"state": "cracked", "begin": case["opened"], "end": now}
            api.post("/machines/press-1/labels", json=label).raise_for_status()
        # While the service runs.
        shutil.copytree(folder / "machine", folder / "live")
        found = json.loads(run_cgsa("collect", folder / "plant", folder / "live", "--json"))
        (folder / "found.json").write_text(json.dumps({**found, "label": label}))
    return folder


def test_the_interval_is_a_recording_of_the_data_set(place: Path) -> None:
    found = json.loads((place / "found.json").read_text())
    (added,) = found["added"]
    data_set = DataSet.load(place / "live")
    entry = data_set.about.recordings[-1]
    recording = data_set.read(entry)
    assert data_set.about.classes == ("healthy", "worn", "cracked")
    assert (entry.file, entry.label, entry.unit, entry.conditions) == (
        added["file"],
        "cracked",
        "press-1",
        {"speed": 1050.0},
    )
    assert {one.unit for one in data_set.about.recordings[:-1]} == {"pump"}
    seconds = found["label"]["end"] - found["label"]["begin"]
    assert recording.seconds == pytest.approx(seconds, abs=0.02)
    sent = np.load(place / "cracked.npy").T.astype(np.float32)
    np.testing.assert_array_equal(recording.signal, sent[:, -recording.samples :])


def test_nothing_is_collected_twice(place: Path) -> None:
    before = (place / "live" / "machine.toml").read_text()
    assert json.loads(run_cgsa("collect", place / "plant", place / "live", "--json"))["added"] == []
    assert (place / "live" / "machine.toml").read_text() == before


@pytest.fixture(scope="module")
def retrained(place: Path) -> Path:
    """The same place with a second model."""
    run_cgsa("train", place / "live", place / "model-2", *SETTINGS)
    return place


def test_the_retrained_model_names_the_fault_on_the_page(retrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = retrained
    monkeypatch.chdir(place)
    assert ModelBundle.load(place / "model-2").manifest.classes == ("healthy", "worn", "cracked")
    words = ["compare", "model", "model-2", "live", "--html", "page.html", "--device", "cpu"]
    values = json.loads(run_cgsa(*words, "--json"))
    cracked = next(one for one in values["streams"] if one["truth"] == "cracked")
    assert cracked["old"]["named_delay"] is None
    assert cracked["new"]["named_delay"] is not None
    assert (cracked["old"]["trained"], cracked["new"]["trained"]) == (False, True)
    page = (place / "page.html").read_text()
    assert "model-2 was trained on 7 of the 7 recordings, model on 6" in page
    assert "Verdicts over time" in page
    assert "cracked" in page


def test_unlabelled_files_are_compared_too(retrained: Path) -> None:
    place = retrained
    files = [place / f"{state}.npy" for state in ("healthy", "cracked")]
    options = ["--rate", "256", "--channels", "x,y", "--units", "g", "--device", "cpu"]
    values = json.loads(run_cgsa("compare", place / "model", place / "model-2", *files, *options, "--json"))
    (stream,) = values["streams"]
    assert (stream["truth"], stream["seconds"]) == (None, 32.0)
    assert stream["disagreements"][-1]["new"] == "cracked"
