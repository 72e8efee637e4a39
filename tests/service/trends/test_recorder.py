from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgsa.live.alarms import AlarmConfig
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import HealthyPiece
from cgsa.live.worker import WorkerConfig
from cgsa.service.trends.health import HealthMean
from cgsa.service.trends.healthy_signal import PIECES, is_due
from cgsa.service.trends.history import HOUR, KEPT, MINUTE, MinuteMeans, read_trends
from cgsa.service.trends.levels import measure_piece
from cgsa.service.trends.recorder import TrendRecorder
from tests.machines import RATE, bundle
from tests.service.dashboard.demo_service import _healthy_bundle
from tests.service.dashboard.examples import diagnosis

BEGIN = 1_700_000_040.0
"""The begin of a minute."""


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    _healthy_bundle().save(tmp_path / "model")
    config = WorkerConfig(checkpoint_seconds=3600.0, shed_above=1e6, max_waiting=1e7)
    with Plant(tmp_path / "plant", threads=1, config=config) as running:
        alarms = AlarmConfig(on_delay=1.0)
        running.add(MachineConfig("m", tmp_path / "model", profile="paper", alarms=alarms))
        yield running


def feed(plant: Plant, first: int, seconds: int, size: float = 1.0) -> None:
    """Send blocks of a second."""
    for number in range(first, first + seconds):
        noise = size * np.random.default_rng(number).standard_normal((2, round(RATE)))
        plant.submit(Block("m", number, BEGIN + number, RATE, ("a", "b"), noise.astype(np.float32)))
    plant.wait_until_idle()


def test_minutes_and_hours_are_written_while_the_machine_runs(plant: Plant) -> None:
    recorder = TrendRecorder(plant)
    for minute in range(4):
        for part in range(3):
            feed(plant, 60 * minute + 20 * part, 20)
            recorder.sample()
    plant.store.flush()
    with plant.store.read() as snapshot:
        found = read_trends(snapshot, "m", BEGIN, BEGIN + 300)
        hours = read_trends(snapshot, "m", BEGIN - HOUR, BEGIN + 48 * HOUR)
    # The newest two minutes are not over yet.
    assert found.times == (BEGIN, BEGIN + 60)
    assert found.values[:, :, 0] == pytest.approx(1.0, abs=0.1)
    assert found.values[:, :, 1] == pytest.approx(3.0, abs=0.5)
    assert all(score is not None and score > 90 for score in found.health)
    assert (hours.seconds, len(hours.times), hours.times[0]) == (HOUR, 1, BEGIN // HOUR * HOUR)
    assert hours.values[0, 0, 0] == pytest.approx(np.sqrt(np.square(found.values[:, 0, 0]).mean()), rel=1e-3)
    recorder.close()
    plant.store.flush()
    with plant.store.read() as snapshot:
        assert len(read_trends(snapshot, "m", BEGIN, BEGIN + 300).times) == 4


def test_storage_is_bounded(plant: Plant) -> None:
    row = MinuteMeans(0.0, HealthMean()).row("m")
    assert row is None
    minute = MinuteMeans(0.0)
    minute.health.add(diagnosis())
    written = minute.row("m")
    assert written is not None
    for number in range(30):
        plant.store.put_trend(replace(written, time=60.0 * number), keep=10)
    plant.store.put_trend(replace(written, machine="other"), keep=10)
    plant.store.flush()
    with plant.store.read() as snapshot:
        assert read_trends(snapshot, "m", 0, 1e4).times == tuple(60.0 * number for number in range(20, 30))
        assert len(read_trends(snapshot, "other", 0, 1e4).times) == 1
    assert KEPT == {MINUTE: 2880, HOUR: 9600}


def test_a_row_of_three_channels_is_small(plant: Plant) -> None:
    feed(plant, 0, 3)
    recent = plant.worker("m").recent_recording()
    assert recent is not None
    levels = measure_piece(recent[1])
    assert levels is not None
    row = MinuteMeans(0.0, pieces=[levels]).row("m")
    assert row is not None
    assert len(row.values) + len(row.spectrum) + len(json.dumps(row.channels)) < 700


def test_the_healthy_signal_is_taken_while_the_machine_is_healthy(plant: Plant) -> None:
    recorder = TrendRecorder(plant)
    times = []
    for number in range(8):
        feed(plant, 10 * number, 10)
        recorder.sample()
        times.append(len(recorder.healthy.pieces("m")))
    # After ten healthy seconds, and then ten, twenty and forty seconds after the first.
    assert times == [0, 1, 2, 3, 3, 4, 4, 4]
    piece = recorder.healthy.pieces("m")[0]
    assert piece.samples.shape == (2, round(3 * RATE))
    plant.store.flush()
    # Another process has the same.
    with plant.store.read() as snapshot:
        stored = snapshot.healthy_signal("m")
    assert [one.time for one in stored] == [one.time for one in recorder.healthy.pieces("m")]
    assert np.array_equal(stored[0].samples, piece.samples)
    plant.worker("m").command(Command("reset", "ann")).result(10)
    recorder.sample()
    feed(plant, 80, 10)
    recorder.sample()
    assert recorder.healthy.pieces("m") == ()
    feed(plant, 90, 10, size=40.0)
    recorder.sample()
    recorder.close()


def test_further_pieces_wait_ever_longer() -> None:
    def piece(time: float) -> HealthyPiece:
        return HealthyPiece("m", time, RATE, ("a",), {}, np.zeros((1, 4), np.float32))

    found: tuple[HealthyPiece, ...] = ()
    for second in range(3600):
        if len(found) < PIECES and is_due(found, float(second)):
            found = (*found, piece(float(second)))
    assert [one.time for one in found] == [0, 10, 20, 40, 80, 160, 320, 640]
    assert is_due((piece(1e9),), 100.0), "a clock that was set back"


def test_a_machine_without_signal_has_no_trends(plant: Plant, tmp_path: Path) -> None:
    bundle().save(tmp_path / "silent")
    plant.add(MachineConfig("silent", tmp_path / "silent", profile="paper"))
    recorder = TrendRecorder(plant)
    recorder.sample()
    recorder.close()
    with plant.store.read() as snapshot:
        assert read_trends(snapshot, "silent", 0, 1e12).times == ()
