from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from nicegui import Client, ui

from cgsa.events import ChannelLevels, LevelReport, LevelTrend, LimitedLevel
from cgsa.live.levels.config import LevelConfig
from cgsa.service.dashboard.machine.levels_panel import LevelsPanel, describe_band, level_rows
from tests.service.dashboard.machine.test_alarm_panel import page
from tests.service.running_service import MACHINE, running_service

REPORT = LevelReport(
    channels=(ChannelLevels("x", "g", 0.5124, 2.0, 5.26), ChannelLevels("torque", "Nm", 3.0, None, None)),
    limits=(
        LimitedLevel("x", "rms", 0.5124, "g", 1.0, 2.0, "normal"),
        LimitedLevel("x", "velocity", 5.26, "mm/s", 4.5, None, "warning"),
    ),
    trends=(LevelTrend("x", "rms", "g", 0.1, 1.0, 1e6, "x RMS rises 0.1 g per day"),),
    band=(10.0, 1000.0),
    note="the start is missing",
)


def test_each_channel_has_its_levels_limits_and_state() -> None:
    assert level_rows(REPORT) == [
        ("x", "0.512 g", "2 g", "5.26 mm/s", "RMS 1 g, velocity 4.5 mm/s", "RMS 2 g", "velocity above warning limit"),
        ("torque", "3 Nm", "\u2013", "\u2013", "\u2013", "\u2013", "\u2013"),
    ]
    calm = replace(REPORT, limits=REPORT.limits[:1])
    assert level_rows(calm)[0][-1] == "within limits"


def test_the_band_and_what_is_missing_are_stated() -> None:
    assert describe_band(REPORT) == "Velocity is the RMS from 10 to 1000 Hz. The start is missing"
    assert describe_band(LevelReport(())) == "No limits are set"


@pytest.mark.parametrize("fed", [0, 40])
def test_the_panel_shows_the_newest_levels(tmp_path: Path, fed: int) -> None:
    with running_service(tmp_path, levels=LevelConfig("a rms 0.5 90", duration=0.1)) as service:
        service.feed(fed)
        shown: list[tuple[bool, str, str]] = []

        async def go() -> None:
            with Client(ui.page("/levels-panel-test"), request=None):
                panel = LevelsPanel(page(service), MACHINE)
                await panel.refresh()
                shown.append((panel._card.visible, panel._table.content, panel._note.text))

        asyncio.run(go())
        (visible, table, note) = shown[0]
        assert visible == bool(fed)
        if fed:
            assert "RMS above warning limit" in table
            assert "RMS 90 g" in table
            assert "10 to 390.6 Hz" in note
            case = service.plant.worker(MACHINE).watch.alarms.case
            assert case is not None
            assert "level warning: a rms" in case.faults
            with service.client("viewer") as client:
                found = client.get(f"/api/machines/{MACHINE}").json()["diagnosis"]["levels"]
            assert found["limits"][0]["warning"] == 0.5
            assert [one["channel"] for one in found["channels"]] == ["a", "b"]
