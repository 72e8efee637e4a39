"""Verdicts, probabilities and trust over time, and the evidence of the method."""

from __future__ import annotations

from nicegui import ui

from cgsa.decide.decision import UNKNOWN
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.charts import timeline_options, trace_options, trust_options
from cgsa.service.dashboard.evidence import Evidence
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.timeline import DiagnosisTimeline
from cgsa.service.dashboard.widgets import empty_chart, heading, update_chart

PERIODS = {"5 min": 300.0, "1 h": 3600.0, "24 h": 86_400.0, "7 d": 604_800.0}


class TimelinePanel(Panel):
    """Diagnoses over time."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("div").classes("card"):
            with ui.element("div").classes("spread"):
                heading("Verdict and class probabilities")
                self._period = ui.toggle(list(PERIODS), value="5 min", on_change=self.refresh)
                self._period.props('dense unelevated no-caps toggle-color=primary aria-label="Period"')
            self._timeline = empty_chart("tall")
            self._caption = ui.label().classes("muted").style("min-height: 19px")
        with ui.element("div").classes("two"):
            with ui.element("div").classes("card"):
                heading("Trust")
                self._trust = empty_chart()
            with ui.element("div").classes("card"):
                heading("Conditions compared with training")
                self._coverage = ui.label("…").classes("muted").style("min-height: 19px")
                self._traces: list[ui.echart] = []
                self._trace_area = ui.element("div").style("min-height: 220px")
                with self._trace_area:
                    self._empty = ui.label("This method has neither a residual response nor a distance")
                    self._empty.classes("empty")

    async def refresh(self) -> None:
        """Show the newest data."""
        palette = self.session.palette
        timeline = await self.view.timeline(self.machine, PERIODS[str(self._period.value)])
        update_chart(self._timeline, timeline_options(timeline, self.manifest.classes, palette))
        update_chart(self._trust, trust_options(timeline, palette))
        self._caption.set_text(_caption(timeline))
        evidence = await self.view.evidence(self.machine)
        self._coverage.set_text(_describe_coverage(evidence))
        self._empty.set_visibility(not evidence.traces)
        while len(self._traces) < len(evidence.traces):
            with self._trace_area:
                self._traces.append(empty_chart())
        for chart, trace in zip(self._traces, evidence.traces, strict=False):
            update_chart(chart, trace_options(evidence, trace, palette))


def _caption(timeline: DiagnosisTimeline) -> str:
    """Return how to read the chart."""
    if not timeline.diagnoses:
        return "no diagnoses in this period"
    parts = ["strip: reported state", "shaded: case open"]
    if any(one.state == UNKNOWN for one in timeline.diagnoses):
        parts.append("while the state is unknown, the probabilities of the known classes mean little")
    if timeline.thinned:
        parts.append("not every batch is shown")
    return "; ".join(parts)


def _describe_coverage(evidence: Evidence) -> str:
    """Return how many of the newest windows are within the range of the training data."""
    if not evidence.windows:
        return "no recent windows"
    period = f"last {evidence.windows:,} windows, {evidence.seconds:.0f} s"
    if evidence.covered is None:
        return f"{period}: this model does not store the range of its training data"
    return f"{period}: {labels.format_percent(evidence.covered)} within the range of the training data"
