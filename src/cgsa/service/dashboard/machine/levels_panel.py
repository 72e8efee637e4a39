"""Levels of the channels beside the model, with their limits and trends."""

from __future__ import annotations

from nicegui import ui

from cgsa.events import LevelReport, LimitedLevel
from cgsa.live.levels.texts import QUANTITY_WORDS
from cgsa.service.dashboard.labels import MISSING, capitalise
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import heading, scrolled_block, table_html

HEAD = ("Channel", "RMS", "Peak", "Velocity", "Warning", "Alarm", "State")


class LevelsPanel(Panel):
    """What a monitor without a model measures; hidden until there is a diagnosis."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("section").classes("card stack").props('aria-label="Levels"') as self._card:
            heading("Levels")
            self._table = scrolled_block("Levels by channel")
            self._trends = ui.label().classes("text").style("white-space: pre-line")
            self._note = ui.label().classes("muted")
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        """Show the newest data."""
        diagnosis = self.worker.status().diagnosis
        report = None if diagnosis is None else diagnosis.levels
        self._card.set_visibility(report is not None)
        if report is None:
            return
        self._table.set_content(table_html(HEAD, level_rows(report), numbers=(1, 2, 3), wrapped=(4, 5, 6)))
        trends = "\n".join(capitalise(trend.text) for trend in report.trends)
        for label, text in ((self._trends, trends), (self._note, describe_band(report))):
            label.set_text(text)
            label.set_visibility(bool(text))


def level_rows(report: LevelReport) -> list[tuple[str, ...]]:
    """Return the rows of the table, one per channel."""
    rows: list[tuple[str, ...]] = []
    for one in report.channels:
        limited = [level for level in report.limits if level.channel == one.channel]
        rows.append(
            (
                one.channel,
                _with_unit(one.rms, one.unit),
                _with_unit(one.peak, one.unit),
                _with_unit(one.velocity, "mm/s"),
                _limits(limited, "warning"),
                _limits(limited, "alarm"),
                _states(limited),
            )
        )
    return rows


def describe_band(report: LevelReport) -> str:
    """Return within which band the velocity is measured, and what is missing."""
    texts = [] if report.band is None else [f"Velocity is the RMS from {report.band[0]:.4g} to {report.band[1]:.4g} Hz"]
    if not report.limits:
        texts.append("No limits are set")
    if report.note is not None:
        texts.append(capitalise(report.note))
    return ". ".join(texts)


def _with_unit(value: float | None, unit: str) -> str:
    return MISSING if value is None else f"{value:.3g} {unit}".rstrip()


def _limits(levels: list[LimitedLevel], name: str) -> str:
    texts = [
        f"{QUANTITY_WORDS[level.quantity]} {_with_unit(limit, level.unit)}"
        for level in levels
        if (limit := level.warning if name == "warning" else level.alarm) is not None
    ]
    return ", ".join(texts) or MISSING


def _states(levels: list[LimitedLevel]) -> str:
    """Return which limits are exceeded."""
    exceeded = [
        f"{QUANTITY_WORDS[level.quantity]} above {level.state} limit" for level in levels if level.state != "normal"
    ]
    return ", ".join(exceeded) or ("within limits" if levels else MISSING)
