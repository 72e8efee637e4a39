"""One file gets the same verdicts through a command, the service, the library and a benchmark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.data.readers import read_recording
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.data.windows import Segment, Windows
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import run_stream
from cgsa.events import NO_DATA, Diagnosis, Trust
from cgsa.ledger.columns import Column, Columns, LabelColumn
from cgsa.ledger.files import Ledger
from cgsa.live.intake.block import Block
from cgsa.live.levels.config import LevelConfig
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.live.store.packing import join_columns
from cgsa.live.worker import WorkerConfig
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import create_method, diagnose
from tests.cli.running import run_cgsa
from tests.machines import RATE, SPEC, ToyLibrary, bundle

MACHINE, BATCH, BATCHES = "toy", 64, 12
SAMPLES = (BATCH * BATCHES - 1) * SPEC.step + SPEC.length
"""Exactly the windows of some batches: the service keeps an incomplete batch until more samples arrive."""
SETTINGS = {"stream": {"batch_size": BATCH}}
LEVELS = LevelConfig(("* velocity 5 9", "automatic"), duration=0.4, start_seconds=1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and a recording of a healthy machine, a sensor fault, and a worn machine."""
    bundle().save(tmp_path / "model")
    parts = [ToyLibrary().get(state, "low", severity="H", specimen=1).signal for state in ("health", "wear")]
    signal = np.concatenate([part[:, : SAMPLES // 2] for part in parts], axis=1)[:, :SAMPLES]
    signal = np.pad(signal, ((0, 0), (0, SAMPLES - signal.shape[1])), mode="wrap")
    signal[0, 700:1300] = 0.25
    write_parquet(Recording(signal, RATE, ("a", "b"), ("g", "g"), source="x"), tmp_path / "toy.parquet")
    return tmp_path


def through_the_command(folder: Path, method: str) -> tuple[list[Diagnosis], Columns]:
    words = ["--method", method, "--set", f"stream.batch_size={BATCH}", "--device", "cpu", "--json"]
    words += ["--set", f"levels.duration={LEVELS.duration}", "--set", f"levels.start_seconds={LEVELS.start_seconds}"]
    words += [word for line in LEVELS.limits for word in ("--limit", line)]
    ledger = folder / f"ledger-{method}"
    lines = run_cgsa("stream", folder / "model", folder / "toy.parquet", *words, "--ledger", ledger).splitlines()
    return [_event(line) for line in lines], _joined([*Ledger(ledger).batches()])


def through_the_library(folder: Path, method: str) -> tuple[list[Diagnosis], Columns]:
    config = replace(DiagnosisConfig.from_profile(Profile.load("paper", SETTINGS), method), levels=LEVELS)
    signal = SignalDiagnoser(ModelBundle.load(folder / "model"), config)
    batches = list(diagnose(signal, [read_recording(folder / "toy.parquet")]))
    return [batch.event for batch in batches], _joined([batch.rows for batch in batches])


def through_the_service(folder: Path, method: str) -> tuple[list[Diagnosis], Columns]:
    recording = read_recording(folder / "toy.parquet")
    never_shed = WorkerConfig(shed_above=60.0)
    found: list[Diagnosis] = []
    with Plant(folder / f"plant-{method}", config=never_shed) as plant:
        plant.subscribe(lambda _, __, events: found.extend(event for event in events if isinstance(event, Diagnosis)))
        machine = MachineConfig(
            MACHINE, folder / "model", profile="paper", method=method, settings=SETTINGS, levels=LEVELS
        )
        plant.add(machine)
        for number, begin in enumerate(range(0, SAMPLES, 100)):
            samples = np.ascontiguousarray(recording.signal[:, begin : begin + 100])
            plant.submit(Block(MACHINE, number, begin / RATE, RATE, ("a", "b"), samples))
        plant.wait_until_idle()
        plant.store.flush()
        with plant.store.read() as snapshot:
            ledger = snapshot.ledger(MACHINE, 0.0, 1e9)
    return found, _joined([ledger])


@pytest.mark.parametrize("method", ["cgsa", "reference", "source"])
def test_command_library_and_service_agree(folder: Path, method: str) -> None:
    events, rows = through_the_library(folder, method)
    assert len(events) == BATCHES
    assert any(event.flagged for event in events)
    assert NO_DATA in {event.state for event in events}
    reports = [event.levels for event in events if event.levels is not None]
    assert len(reports) == len(events)
    assert {one.state for report in reports for one in report.limits} == {"normal", "warning", "alarm"}
    assert len({len(report.limits) for report in reports}) == 2  # automatic limits follow the start
    assert len({str(event.probabilities) for event in events}) > BATCHES // 2
    for other_events, other_rows in (through_the_command(folder, method), through_the_service(folder, method)):
        assert [_comparable(event) for event in other_events] == [_comparable(event) for event in events]
        assert set(other_rows) == set(rows)
        for name in rows:
            if name != "source":
                np.testing.assert_array_equal(np.asarray(other_rows[name]), np.asarray(rows[name]), err_msg=name)


@pytest.mark.parametrize("method", ["cgsa", "reference", "source"])
def test_a_benchmark_gets_the_same_probabilities(folder: Path, method: str) -> None:
    model, profile = ModelBundle.load(folder / "model"), Profile.load("paper", SETTINGS)
    recording = ToyLibrary().get("wear", "low", severity="H", specimen=1)
    recording = replace(recording, signal=recording.signal[:, :SAMPLES], conditions={})
    trace = run_stream(
        Diagnoser(create_method(model, method, profile)),
        Windows([Segment(recording, 0, 0)], model.manifest.window),
        batch_size=BATCH,
    )
    signal = SignalDiagnoser(model, DiagnosisConfig.from_profile(profile, method))
    rows = _joined([batch.rows for batch in diagnose(signal, [recording])])
    np.testing.assert_array_equal(np.asarray(rows["confidence"]), trace.confidence.astype(np.float32))
    assert np.asarray(rows["verdict"]).tolist() == [model.manifest.classes[label] for label in trace.prediction]


def _event(line: str) -> Diagnosis:
    table = json.loads(line)
    trust = table.pop("trust")
    event = Diagnosis(**{key: value for key, value in table.items() if key not in {"event", "version"}})
    return replace(event, trust=None if trust is None else Trust(**trust))


def _joined(batches: list[Columns]) -> Columns:
    """Return all batches as one, labels as text."""
    return {name: _plain(column) for name, column in join_columns(batches).items()}


def _plain(column: Column) -> np.ndarray:
    return np.array(column.labels)[column.codes] if isinstance(column, LabelColumn) else np.asarray(column)


def _comparable(event: Diagnosis) -> dict[str, object]:
    # As JSON, because the events of the command are read from it.
    comparable: dict[str, object] = json.loads(json.dumps({**asdict(event), "source": ""}))
    return comparable
