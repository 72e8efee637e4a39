"""Past cases, labels and notes."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from cgsa.events import Case
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import heading, scrolled_block, table_html

_TABLES = {
    "Cases": (
        ("Case", "Severity", "Faults", "State", "Opened", "Closed", "Acknowledged by"),
        "There has never been an alarm",
    ),
    "Labels": (("Time", "By", "State", "From", "To"), "No operator has labelled the true state of the machine"),
    "Notes": (("Time", "Topic", "Note"), "Nothing unusual"),
}
"""Columns of each table, and the text of an empty one."""
_STATES = {"raised": "unacknowledged"}


class HistoryPanel(Panel):
    """The history of the machine."""

    def build(self) -> None:
        """Build the elements, without data."""
        self._tables: dict[str, tuple[ui.html, ui.label]] = {}
        for title, (_, empty) in _TABLES.items():
            with ui.element("div").classes("card"):
                heading(title)
                self._tables[title] = scrolled_block(title), ui.label(empty).classes("empty")

    async def refresh(self) -> None:
        """Show the newest data."""
        history = await self.view.history(self.machine)
        now, zone = self.worker.now, self.session.zone

        def when(time: float | None) -> str:
            return labels.MISSING if time is None else labels.format_time(time, zone, now)

        def case_row(case: Case) -> tuple[str, ...]:
            faults = ", ".join(map(labels.display_name, case.faults))
            state = "shelved" if case.shelved_until is not None else _STATES.get(case.state, case.state)
            person = case.acknowledged_by or labels.MISSING
            return str(case.number), case.severity, faults, state, when(case.opened), when(case.closed), person

        rows: dict[str, Sequence[Sequence[str]]] = {
            "Cases": [case_row(case) for case in history.cases],
            "Labels": [
                (when(one.time), one.who, labels.display_name(one.state), when(one.begin), when(one.end))
                for one in history.labels
            ],
            "Notes": [(when(note.time), note.topic, note.text) for note in history.notes],
        }
        for title, (table, empty) in self._tables.items():
            table.set_content(table_html(_TABLES[title][0], rows[title], wrapped=(2,)) if rows[title] else "")
            empty.set_visibility(not rows[title])
