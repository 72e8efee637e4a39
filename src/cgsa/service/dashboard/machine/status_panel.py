"""The status of the machine, in sentences and four numbers."""

from __future__ import annotations

from nicegui import ui

from cgsa.service.dashboard import labels
from cgsa.service.dashboard.activity import fault_probability
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import Badge, StatTile


class StatusPanel(Panel):
    """The first thing to read."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("section").classes("card hero stack").props('aria-label="Status"'):
            with ui.element("div").classes("line"):
                self._badge = Badge()
                self._since = ui.label().classes("muted")
            self._verdict = ui.label("…").classes("verdict").props("role=status")
            with ui.element("div").classes("sentences"):
                self._data = ui.label().classes("text").style("color: var(--bad); font-weight: 600")
                self._change = ui.label().classes("text")
                self._learning = ui.label().classes("text")
                self._operation = ui.label().classes("text")
                self._measured = ui.label().classes("text")
                self._counts = ui.label().classes("muted")
                self._refused = ui.label().classes("muted")
            with ui.element("div").classes("figures"):
                self._fault = StatTile("fault probability", "Mean probability of any fault over the newest batch")
                self._trust = StatTile(
                    "estimated accuracy", "Estimated share of the newest windows that are diagnosed correctly"
                )
                self._coverage = StatTile(
                    "within training range", "Share of the newest windows within the range of the training data"
                )
                self._agreement = StatTile(
                    "agreement",
                    "Share of the newest windows on which the model as trained gives the same diagnosis",
                )

    async def refresh(self) -> None:
        """Show the newest data."""
        summary = await self.view.summary(self.machine)
        status, diagnosis = summary.status, summary.status.diagnosis
        trust = None if diagnosis is None else diagnosis.trust
        problem = labels.describe_data_problem(summary)
        self._badge.show(summary.display_status)
        self._since.set_text(labels.describe_since(summary, self.session.zone))
        self._verdict.set_text(labels.describe_verdict(summary))
        self._data.set_text(problem or "")
        self._data.set_visibility(problem is not None)
        change = None if diagnosis is None else diagnosis.change
        self._change.set_text("" if change is None else labels.capitalise(change.text))
        self._change.set_visibility(change is not None)
        self._learning.set_text(labels.capitalise(labels.describe_learning(status)))
        for shown, text in (
            (self._operation, labels.describe_operation(status, self.session.zone)),
            (self._measured, None if summary.silent else labels.describe_measurements(summary)),
            (self._refused, labels.describe_refusal(status, self.session.zone)),
        ):
            shown.set_text(labels.capitalise(text or ""))
            shown.set_visibility(text is not None)
        counts = (
            f"{status.counts.windows:,} windows so far, {status.counts.flagged:,} rejected by the quality gate, "
            f"{status.counts.learnt:,} used for learning"
        )
        self._counts.set_text(counts if status.problem is None else f"{counts}. {status.problem}")
        fault = None if diagnosis is None else fault_probability(diagnosis)
        self._fault.show(labels.MISSING if diagnosis is None else labels.format_percent(fault))
        for tile, name in ((self._trust, "accuracy"), (self._coverage, "coverage"), (self._agreement, "agreement")):
            tile.show(labels.MISSING if trust is None else labels.format_percent(getattr(trust, name)))
