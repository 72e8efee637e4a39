from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from cgsa.live.intake.block import Block
from tests.machines import RATE
from tests.service.dashboard.demo_service import _healthy_bundle
from tests.service.running_service import BEGIN, MACHINE, RunningService, running_service

PATH = f"/api/machines/{MACHINE}"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A healthy machine, of which three minutes are recorded."""
    with running_service(tmp_path_factory.mktemp("trends"), model=_healthy_bundle()) as found:
        recorder = found.app.state.context.trends
        for part in range(18):
            for number in range(10 * part, 10 * part + 10):
                noise = np.random.default_rng(number).standard_normal((2, round(RATE))).astype(np.float32)
                found.plant.submit(Block(MACHINE, number, BEGIN + number, RATE, ("a", "b"), noise))
            found.plant.wait_until_idle()
            recorder.sample()
        recorder.flush()
        found.plant.store.flush()
        yield found


@pytest.fixture
def viewer(healthy: RunningService) -> Iterator[httpx.Client]:
    with healthy.client("viewer") as client:
        yield client


def test_trends_come_by_minutes_and_by_hours(viewer: httpx.Client) -> None:
    found = viewer.get(f"{PATH}/trends", params={"begin": BEGIN - 60, "end": BEGIN + 600}).json()
    assert (found["step"], [time % 60 for time in found["times"]]) == (60, [0.0] * len(found["times"]))
    assert 3 <= len(found["times"]) <= 4
    assert all(0 <= score <= 100 for score in found["health"])
    first, second = found["channels"]
    assert (first["channel"], second["channel"]) == ("a", "b")
    assert first["rms"] == pytest.approx([1.0] * len(found["times"]), abs=0.1)
    assert list(first["bands"])[-1] == "250 to 500 Hz"
    hours = viewer.get(f"{PATH}/trends", params={"begin": BEGIN - 1e6, "end": BEGIN + 1e6}).json()
    assert (hours["step"], len(hours["times"])) == (3600, 1)
    assert viewer.get(f"{PATH}/trends", params={"begin": 0, "end": 1}).json()["times"] == []
    assert viewer.get(f"{PATH}/trends", params={"begin": 0}).status_code == 422


def test_the_signal_is_compared_with_the_healthy_one(viewer: httpx.Client, healthy: RunningService) -> None:
    found = viewer.get(f"{PATH}/comparison").json()
    assert "pieces of this machine while it was healthy" in found["compared_with"]
    assert [one["channel"] for one in found["spectra"]] == ["a", "b"]
    assert len(found["spectra"][0]["healthy"]) == len(found["spectra"][0]["frequency"])
    assert viewer.post(f"{PATH}/comparison/renew-healthy-signal").status_code == 403
    with healthy.client("operator") as operator:
        assert operator.post(f"{PATH}/comparison/renew-healthy-signal").json() == {"done": True}
    renewed = viewer.get(f"{PATH}/comparison").json()
    assert (renewed["compared_with"], renewed["spectra"][0]["healthy"]) == ("nothing", None)
    assert healthy.audit()[0].what == "renew healthy signal"


def test_a_machine_without_signal_has_nothing_to_compare(tmp_path: Path) -> None:
    with running_service(tmp_path) as silent, silent.client("viewer") as client:
        answer = client.get(f"{PATH}/comparison")
    assert answer.status_code == 409
    assert "no signal has come" in answer.json()["error"]["message"]
