"""Verdicts, probabilities and trust over time, and the figure that the method goes by."""

from __future__ import annotations

from nicegui import ui

from cgsa.decide.decision import UNKNOWN
from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.charts import course_options, coverage_options, trace_options
from cgsa.service.dashboard.evidence import Evidence
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.timeline import DiagnosisTimeline
from cgsa.service.dashboard.widgets import chart, draw, heading

SPANS = {"5 min": 300.0, "1 h": 3600.0, "24 h": 86_400.0, "7 d": 604_800.0}


class TimelinePanel(Panel):
    """What was said over time."""

    def build(self) -> None:
        """Draw it once, empty."""
        with ui.element("div").classes("card"):
            with ui.element("div").classes("spread"):
                heading("Verdict and class probabilities")
                self._span = ui.toggle(list(SPANS), value="5 min", on_change=self.refresh)
                self._span.props('dense unelevated no-caps toggle-color=primary aria-label="Span of time"')
            self._course = chart("tall")
            self._caption = ui.label().classes("muted").style("min-height: 19px")
        with ui.element("div").classes("two"):
            with ui.element("div").classes("card"):
                heading("Trust")
                self._coverage = chart()
            with ui.element("div").classes("card"):
                heading("Condition: is it what training saw?")
                self._inside = ui.label("…").classes("muted").style("min-height: 19px")
                self._traces: list[ui.echart] = []
                self._room = ui.element("div").style("min-height: 220px")
                with self._room:
                    self._none = ui.label("This method tells neither a residual response nor a distance").classes(
                        "empty"
                    )

    async def refresh(self) -> None:
        """Show what there is now."""
        look = self.visit.look
        course = await self.board.course(self.machine, SPANS[str(self._span.value)])
        draw(self._course, course_options(course, self.about.classes, look))
        draw(self._coverage, coverage_options(course, look))
        self._caption.set_text(_caption(course))
        evidence = await self.board.evidence(self.machine)
        self._inside.set_text(_inside(evidence))
        self._none.set_visibility(not evidence.traces)
        while len(self._traces) < len(evidence.traces):
            with self._room:
                self._traces.append(chart())
        for place, trace in zip(self._traces, evidence.traces, strict=False):
            draw(place, trace_options(evidence, trace, look))


def _caption(course: DiagnosisTimeline) -> str:
    """Say how to read the chart."""
    if not course.told:
        return "nothing was diagnosed in this time"
    parts = ["strip: the state that was told", "shaded while a case was open"]
    if any(told.state == UNKNOWN for told in course.told):
        parts.append("while it is unknown, the shares of the known classes mean little")
    if course.thinned:
        parts.append("not every batch is shown")
    return "; ".join(parts)


def _inside(evidence: Evidence) -> str:
    """Say how much of what was seen lately is like what training saw."""
    if not evidence.windows:
        return "no window lately"
    seen = f"the last {evidence.windows:,} windows, {evidence.seconds:.0f} s"
    if evidence.covered is None:
        return f"{seen}: this model does not know where training was"
    return f"{seen}: {words.percent(evidence.covered)} of them lie where training was"
