"""What happened: cases, and notes of sensors, gaps and the service."""

from __future__ import annotations

from nicegui import ui

from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import block, heading, table_html


class HistoryPanel(Panel):
    """The memory of the machine."""

    def build(self) -> None:
        """Draw it once, empty."""
        with ui.element("div").classes("card"):
            heading("Cases")
            self._cases = block()
            self._no_cases = ui.label("There never was an alarm").classes("empty")
        with ui.element("div").classes("card"):
            heading("Labels")
            self._labels = block()
            self._no_labels = ui.label("Nobody has said what the machine really had").classes("empty")
        with ui.element("div").classes("card"):
            heading("Notes")
            self._notes = block()
            self._no_notes = ui.label("Nothing out of the ordinary").classes("empty")

    async def refresh(self) -> None:
        """Show what there is now."""
        history = await self.board.history(self.machine)
        now, zone = self.worker.watch.now, self.visit.zone

        def when(time: float | None) -> str:
            return words.NONE if time is None else words.moment(time, zone, now)

        cases = [
            (
                str(case.number),
                case.severity,
                ", ".join(map(words.display_name, case.faults)),
                "shelved" if case.shelved_until is not None else case.state,
                when(case.opened),
                when(case.closed),
                case.acknowledged_by or words.NONE,
            )
            for case in history.cases
        ]
        labels = [
            (when(one.time), one.who, words.display_name(one.state), when(one.begin), when(one.end))
            for one in history.labels
        ]
        notes = [(when(note.time), note.topic, note.text) for note in history.notes]
        head = ("Case", "Severity", "Faults", "State", "Opened", "Closed", "Acknowledged by")
        self._cases.set_content(table_html(head, cases, wrapped=(2,)) if cases else "")
        head_of_labels = ("Said", "By", "State", "From", "To")
        self._labels.set_content(table_html(head_of_labels, labels, wrapped=(2,)) if labels else "")
        self._notes.set_content(table_html(("Time", "About", "Note"), notes, wrapped=(2,)) if notes else "")
        for empty, rows in ((self._no_cases, cases), (self._no_labels, labels), (self._no_notes, notes)):
            empty.set_visibility(not rows)
