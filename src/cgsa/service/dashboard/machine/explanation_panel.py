"""Which lines stand out around the last alarm, and which parts of the machine have such lines."""

from __future__ import annotations

from nicegui import ui

from cgsa.report.explain import FAMILY_HEADER, PEAK_HEADER
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import heading, scrolled_block, table_html

NO_ALARM = "There has been no alarm to explain"


class ExplanationPanel(Panel):
    """The explanation of the last alarm."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("div").classes("card stack"):
            heading("What stands out around the last alarm")
            self._when = ui.label("…").classes("muted")
            self._sentences = ui.label().classes("text").style("white-space: pre-line")
            self._notes = ui.label().classes("muted").style("white-space: pre-line")
        # Only a machine whose parts are known has lines with names.
        self._parts = ui.element("div").classes("card")
        self._parts.set_visibility(False)
        with self._parts:
            heading("Parts of the machine")
            self._families = scrolled_block("Parts of the machine")
        with ui.element("div").classes("card"):
            heading("Lines")
            self._peaks = scrolled_block("Lines")

    async def refresh(self) -> None:
        """Show the newest data."""
        found = await self.view.explanation(self.machine, self.session.context.trends.healthy)
        if found is None:
            self._when.set_text(NO_ALARM)
            return
        time = labels.format_time(found.time, self.session.zone, self.worker.now)
        self._when.set_text(f"Case {found.case}, from {time}")
        self._sentences.set_text("\n".join(labels.capitalise(text) for text in found.sentences))
        self._notes.set_text("\n".join(labels.capitalise(text) for text in found.notes))
        self._parts.set_visibility(bool(found.families))
        self._families.set_content(table_html(FAMILY_HEADER, found.families, numbers=(2, 3), wrapped=(0, 5, 6)))
        self._peaks.set_content(table_html(PEAK_HEADER, found.peaks, numbers=(1, 2, 3), wrapped=(4,)))
