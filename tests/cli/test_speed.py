from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cgsa.bench.speed import fleet, measure
from cgsa.bench.speed.fleet import FleetSpeed
from cgsa.bench.speed.measure import Growth, Speed
from cgsa.cli import app

SPEEDS = [
    Speed("literal loop", 1000.0, 1.0, 0.3, 256.0, 300.0, 250.0),
    Speed("mixed", 4000.0, 4.0, 0.6, 64.0, 80.0, 200.0),
]


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "measure", lambda *_, **__: SPEEDS)
    monkeypatch.setattr(fleet, "measure_fleet", lambda count, **__: FleetSpeed(count, 5000.0, 1.5, 320.0, 84.0))
    monkeypatch.setattr(measure, "grow", lambda engine, **__: [Growth(engine, "batch", 32, 1.5)])


def test_speeds_are_shown() -> None:
    result = CliRunner().invoke(app, ["bench", "speed"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    for text in ("literal", "4.00", "60%", "batch", "1.50", "320.0"):
        assert text in result.stdout


def test_speeds_for_other_programs() -> None:
    result = CliRunner().invoke(app, ["bench", "speed", "--json", "--machines", "7"])
    found = json.loads(result.stdout)
    assert [one["engine"] for one in found["engines"]] == ["literal loop", "mixed"]
    assert [one["machines"] for one in found["fleets"]] == [7]
    assert found["growth"][0] == {"engine": "float32", "what": "batch", "value": 32, "cost": 1.5}
