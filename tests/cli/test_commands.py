"""The commands as a user types them, on a toy machine whose files take milliseconds to read."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cgsa.cli
from cgsa.cli import app
from cgsa.cli.stream import _verdict_table
from cgsa.data.readers import read_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.scenario import builtin_scenarios
from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.events import Diagnosis
from tests.cli.running import run_cgsa
from tests.machines import BOTH, ToyLibrary, bundle
from tests.test_workflow import TOY_PROFILE
from tests.toy_files import RUNS, write_toy

SETTINGS = ["--profile", "paper"] + [word for setting in TOY_PROFILE for word in ("--set", setting)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, recordings and a trained bundle."""
    folder = write_toy(tmp_path_factory.mktemp("toy"))
    run_cgsa(
        "train", folder / "toy.toml", folder / "model", "--data", folder / "data" / "toy", *SETTINGS, "--device", "cpu"
    )
    return folder


def test_train_leaves_a_bundle_and_no_checkpoint(place: Path) -> None:
    assert (place / "model" / "manifest.json").exists()
    assert not (place / "model.training").exists()


def test_train_prints_json(place: Path) -> None:
    words = ["--data", place / "data" / "toy", "--objective", "plain", *SETTINGS, "--device", "cpu", "--json"]
    text = run_cgsa("train", place / "toy.toml", place / "plain", *words)
    result = json.loads(text)
    assert result["accuracy"] > 0.5
    assert result["epoch"] == 8


def test_of_several_candidates_the_one_is_kept_that_is_worth_most_at_conditions_left_out(place: Path) -> None:
    words = ["--data", place / "data" / "toy", "--objective", "plain", *SETTINGS, "--set", "train.calibrate=true"]
    words += ["--or", "network.frontend=bands", "--or", "network.hidden=[8] network.tap=8", "--device", "cpu"]
    result = json.loads(run_cgsa("train", place / "toy.toml", place / "chosen", *words, "--json"))
    candidates = result["candidates"]
    assert list(candidates) == ["", "network.frontend=bands", "network.hidden=[8] network.tap=8"]
    kept = cgsa.ModelBundle.load(place / "chosen").manifest
    assert kept.calibration is not None
    assert kept.calibration.accuracy == max(candidates.values())
    best = max(candidates, key=lambda name: candidates[name])
    assert (kept.network.frontend == "bands") == (best == "network.frontend=bands")
    assert not (place / "chosen.training").exists()
    assert run_cgsa("train", place / "toy.toml", place / "chosen", *words).count("kept") == 1


def test_stream_prints_intervals_of_one_verdict(place: Path) -> None:
    text = run_cgsa(
        "stream", place / "model", place / "data" / "toy" / f"health_{RUNS['high']}.parquet", "--method", "source"
    )
    assert "Diagnosis by source" in text
    assert "health" in text
    assert "never" in text


def test_a_method_that_asks_nothing_takes_no_answer(place: Path) -> None:
    recording = place / "data" / "toy" / f"health_{RUNS['low']}.parquet"
    with pytest.raises(ConfigError, match="method 'source' does not ask about the start"):
        run_cgsa("stream", place / "model", recording, "--method", "source", "--healthy-start")


def test_conditions_are_for_methods_that_use_them(place: Path) -> None:
    recording = place / "data" / "toy" / f"health_{RUNS['low']}.parquet"
    with pytest.raises(ConfigError, match="method 'cgsa' uses no conditions"):
        run_cgsa("stream", place / "model", recording, "--method", "cgsa", "--conditions")
    # A network has nothing to do with them.
    words = ("stream", place / "model", recording, "--method", "source", "--json")
    assert run_cgsa(*words, "--conditions") == run_cgsa(*words)


def test_an_unknown_state_is_shown_with_the_nearest_fault() -> None:
    def shown(state: str, **probabilities: float) -> str:
        verdict = max(probabilities, key=lambda name: probabilities[name])
        event = Diagnosis(0, "here", 0.0, 1.0, 9, verdict, probabilities, None, None, state=state)
        return str(next(iter(_verdict_table([event], "reference", tuple(probabilities)).columns[3].cells)))

    assert shown("unknown", health=0.1, wear=0.2, crack=0.7) == "[red]unknown[/], like crack (70%)"
    assert shown("unknown", health=0.8, wear=0.15, crack=0.05) == "[red]unknown[/], like wear (15%)"
    assert shown("wear", health=0.1, wear=0.9) == "[red]wear[/]"
    assert shown("health", health=0.1, wear=0.9) == "[green]health[/]"


def test_stream_prints_one_event_a_line(place: Path) -> None:
    files = [
        place / "data" / "toy" / f"health_{RUNS['high']}.parquet",
        place / "data" / "toy" / f"wear_H_{RUNS['high']}.parquet",
    ]
    lines = run_cgsa("stream", place / "model", *files, "--json").splitlines()
    events = [json.loads(line) for line in lines]
    assert {event["source"] for event in events} == {str(file) for file in files}
    assert all(event["event"] == "diagnosis" and event["windows"] > 0 for event in events)
    # Numbers and times run on from file to file.
    assert [event["batch"] for event in events] == list(range(len(events)))
    begins = [event["begin"] for event in events]
    assert begins == sorted(begins)
    second = next(event for event in events if event["source"] == str(files[1]))
    assert second["begin"] == read_recording(files[0]).seconds


def test_stream_rejects_bad_windows_and_diagnoses_the_others(place: Path, tmp_path: Path) -> None:
    recording = read_recording(place / "data" / "toy" / f"wear_H_{RUNS['high']}.parquet")
    recording.signal[0, 1000:1100] = 0.25
    write_parquet(recording, tmp_path / "broken.parquet")
    lines = run_cgsa("stream", place / "model", tmp_path / "broken.parquet", "--json").splitlines()
    flagged = sum(json.loads(line)["flagged"].get("flat line", 0) for line in lines)
    assert 0 < flagged < sum(json.loads(line)["windows"] for line in lines)


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "gpu", "cuda:99"])
def test_an_unknown_device_is_an_error_message(place: Path, device: str) -> None:
    result = CliRunner().invoke(app, ["train", str(place / "toy.toml"), str(place / "none"), "--device", device])
    assert isinstance(result.exception, ConfigError)
    assert f"--device {device}" in str(result.exception)


def test_info_tells_and_checks(place: Path) -> None:
    assert "cal on scenario toy" in run_cgsa("info", place / "model")
    result = json.loads(run_cgsa("info", place / "model", "--json"))
    assert result["model"]["classes"] == ["health", "wear", "crack"]
    assert result["parameters"]["F and G"] > 0


def test_info_shows_the_health_of_the_gate(place: Path, tmp_path: Path) -> None:
    shown = " ".join(run_cgsa("info", place / "model").split())
    assert "residual guidance rejects" in shown
    assert "trained by an older version" in run_cgsa("info", bundle().save(tmp_path / "old"))


def test_info_tells_every_condition(tmp_path: Path) -> None:
    assert "torque, 0 to 10 Nm" in run_cgsa("info", bundle().save(tmp_path / "one"))
    told = run_cgsa("info", bundle(conditions=BOTH.conditions).save(tmp_path / "two"))
    assert "torque, 0 to 10 Nm; speed, 300 to 800 rpm" in told


def test_training_ends_with_what_the_model_is_worth_and_info_begins_with_it(place: Path, tmp_path: Path) -> None:
    trained = run_cgsa("train", place / "toy.toml", tmp_path / "model", "--data", place / "data")
    assert trained.splitlines()[0].startswith(("Good", "Use with care", "Do not rely on this"))
    told = run_cgsa("info", tmp_path / "model", "--card", tmp_path / "card.html")
    assert told.startswith("".join(trained.splitlines(keepends=True)[:1]))
    for text in ("Expected accuracy", "mistaken for", "Confusion", "Candidates"):
        assert text in told
    # A path is never broken, however long it is.
    assert max(len(line) for line in told.splitlines() if str(tmp_path) not in line) <= 80
    assert told.index("Expected accuracy") < told.index("In training, ") < told.index("ensemble on scenario toy")
    found = json.loads(run_cgsa("info", tmp_path / "model", "--json"))
    assert found["leading"] in found["estimates"]
    assert found["model"]["assessment"]["results"][0]["joined"]["healthy_seconds"] > 0
    assert found["advice"][0] in (tmp_path / "card.html").read_text()
    result = CliRunner().invoke(app, ["info", str(place / "model"), "--card", str(tmp_path / "no.html")])
    assert isinstance(result.exception, BundleError)


def test_the_version_is_printed() -> None:
    assert run_cgsa("--version").strip() == cgsa.__version__


def test_lists() -> None:
    assert {row["name"] for row in json.loads(run_cgsa("methods", "--json"))} >= {"cal", "plain", "source", "cgsa"}
    listed = {row["name"]: row["machine"] for row in json.loads(run_cgsa("scenarios", "--json"))}
    assert listed.keys() == builtin_scenarios().keys()
    assert (listed["gearbox"], listed["limerick_motor"]) == ("gearbox", None)
    assert "teeth_crack" in run_cgsa("scenarios")
    assert "cgsa" in run_cgsa("methods")


@pytest.mark.parametrize(
    "command", ["simulate", "train", "stream", "ledger", "demo", "bench", "methods", "scenarios", "info"]
)
def test_every_command_has_help(command: str) -> None:
    text = run_cgsa(command, "--help")
    assert len(text.splitlines()) > 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "gearbx", "{}/m"], "unknown scenario 'gearbx'; did you mean 'gearbox'? known:"),
        (["train", "gearbox", "{}/m", "--data", "{}/none"], "is not a folder"),
        (["train", "{}/toy.toml", "{}/data/toy", "--data", "{}/data/toy"], "exists and is no bundle"),
        (["train", "{}/toy.toml", "{}/m", "--data", "{}/data/toy", "--objective", "call"], "did you mean 'cal'"),
        (["train", "{}/toy.toml", "{}/m", "--set", "train.epoch=3"], "did you mean 'epochs'"),
        (["train", "{}/toy.toml", "{}/m", "--or", "train.epoch=3"], "did you mean 'epochs'"),
        (
            ["train", "{}/toy.toml", "{}/m", "--profile", "paper", "--or", "train.epochs=3"],
            "which needs train.calibrate=true",
        ),
        (["stream", "{}/none", "x.csv"], "does not exist; a bundle is a folder"),
        (["stream", "{}/model", "{}/none.csv"], "no such file"),
        (
            ["stream", "{}/model", "{}/data/toy/health_" + RUNS["low"] + ".parquet", "--method", "cgs"],
            "did you mean 'cgsa'",
        ),
        (["simulate", "gearbx", "{}/out"], "unknown rig 'gearbx'; did you mean 'gearbox'"),
        (["simulate", "limerick_motor", "{}/out"], "unknown rig 'limerick_motor'; known: gearbox, motor"),
        (["simulate", "gearbox", "{}/out", "--state", "rust"], "no state 'rust'"),
        (["demo", "limerick_motor", "--folder", "{}/demo"], "scenario limerick_motor: no rig simulates it"),
        (["train", "phone_motor2", "{}/m"], "scenario phone_motor2: no rig simulates it"),
        (["demo", "gearbox", "--fault", "rust"], "no fault 'rust'"),
        (["info", "{}/toy.toml"], "is a file; a bundle is a folder"),
    ],
)
def test_mistakes_get_one_clear_line(
    words: list[str], message: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cgsa", *(word.replace("{}", str(place)) for word in words)])
    with pytest.raises(SystemExit) as stopped:
        cgsa.cli.main()
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert "error:" in error
    assert message in " ".join(error.split())
    assert "Traceback" not in error


def test_a_recording_at_another_rate_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = replace(ToyLibrary().get("health", "low", severity="H", specimen=1), sample_rate=500.0)
    write_parquet(slow, place / "slow.parquet")
    result = CliRunner().invoke(app, ["stream", str(place / "model"), str(place / "slow.parquet")])
    assert isinstance(result.exception, DataError)
    assert "500 Hz; the model was trained at 1000 Hz" in str(result.exception)


@pytest.mark.parametrize(
    "words", [["-m", "cgsa", "--help"], ["-m", "cgsa", "train", "--help"], ["-m", "cgsa", "ledger", "--help"]]
)
def test_help_does_not_import_torch(words: list[str]) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = {['cgsa', *words[2:]]!r}\n"
        "try:\n    runpy.run_module('cgsa', run_name='__main__')\n"
        "except SystemExit as stop:\n    assert stop.code == 0, stop.code\n"
        "heavy = {'torch', 'numba', 'pyarrow', 'scipy', 'matplotlib', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
