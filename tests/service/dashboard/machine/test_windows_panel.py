from __future__ import annotations

from datetime import UTC

from cgsa.service.dashboard.evidence import Evidence, WindowRow
from cgsa.service.dashboard.machine.windows_panel import _windows_html


def row(window: int, time: float) -> WindowRow:
    return WindowRow(window, time, "gear_wear", 0.9, learnt=True, reason="learnt", value=None)


def test_times_of_windows_have_milliseconds_below_a_second() -> None:
    html = _windows_html(Evidence(rows=(row(2, 40.9996), row(1, 40.25), row(0, 40.0))), UTC)
    for time in ("00:00:41.000", "00:00:40.250", "00:00:40.000"):
        assert f"<td>{time}</td>" in html


def test_without_windows_there_is_no_table() -> None:
    assert _windows_html(Evidence(), UTC) == ""
