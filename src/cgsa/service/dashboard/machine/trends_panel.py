"""Trends over hours to months: the health score, RMS, kurtosis, band levels and a waterfall."""

from __future__ import annotations

from nicegui import ui

from cgsa.service.dashboard.labels import format_duration
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.trend_charts import band_options, health_options, quantity_options, waterfall_options
from cgsa.service.dashboard.widgets import empty_chart, heading, update_chart
from cgsa.service.trends.health import DEFINITION
from cgsa.service.trends.history import Trends

PERIODS = {"2 h": 7200.0, "24 h": 86_400.0, "7 d": 604_800.0, "30 d": 2_592_000.0, "1 y": 31_536_000.0}
LOADING = "Loading the trends …"
EMPTY = "No trend yet: the first step is written two minutes after the first signal"


class TrendsPanel(Panel):
    """How the machine changed."""

    def build(self) -> None:
        """Build the elements, without data."""
        channels = list(self.manifest.channels)
        with ui.element("div").classes("card"):
            with ui.element("div").classes("spread"):
                heading("Health score")
                self._period = ui.toggle(list(PERIODS), value="24 h", on_change=self.refresh)
                self._period.props('dense unelevated no-caps toggle-color=primary aria-label="Period of the trends"')
            self._caption = ui.label(LOADING).classes("muted").props("role=status")
            self._health = empty_chart()
            ui.label(DEFINITION).classes("muted")
        with ui.element("div").classes("two"):
            with ui.element("div").classes("card"):
                heading("RMS")
                self._rms = empty_chart()
            with ui.element("div").classes("card"):
                heading("Kurtosis")
                self._kurtosis = empty_chart()
        with ui.element("div").classes("card stack"):
            with ui.element("div").classes("spread"):
                heading("Band levels and waterfall")
                self._channel = ui.select(channels, value=channels[0], label="Channel", on_change=self.refresh)
                self._channel.props("dense outlined options-dense").style("min-width: 170px")
            self._bands = empty_chart("tall")
            self._waterfall = empty_chart("tall")

    async def refresh(self) -> None:
        """Show the newest data."""
        seconds = PERIODS[str(self._period.value)]
        end = self.worker.now
        trends = await self.view.trends(self.machine, seconds)
        self._caption.set_text(_describe(trends))
        palette, span = self.session.palette, (end - seconds, end)
        update_chart(self._health, health_options(trends, span, palette))
        units = dict(zip(self.manifest.channels, self.manifest.units, strict=True))
        named = [f"{name}, {units[name]}" if units.get(name) else name for name in trends.channels]
        update_chart(self._rms, quantity_options(trends, 0, named, span, palette))
        update_chart(self._kurtosis, quantity_options(trends, 1, trends.channels, span, palette))
        channel = str(self._channel.value)
        if channel in trends.channels:
            place = trends.channels.index(channel)
            update_chart(self._bands, band_options(trends, place, span, palette))
            update_chart(self._waterfall, waterfall_options(trends, place, self.session.zone, palette))


def _describe(trends: Trends) -> str:
    if not trends.times:
        return EMPTY
    span = trends.times[-1] + trends.seconds - trends.times[0]
    step = "minute" if trends.seconds < 3600 else "hour"
    known = [value for value in trends.health if value is not None]
    newest = f"; newest health score {known[-1]:.0f}" if known else ""
    return f"One step per {step}, {format_duration(span)} so far{newest}"
