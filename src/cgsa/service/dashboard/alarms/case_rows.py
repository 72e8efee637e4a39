"""The rows of the alarm list: one case each, with a box to select it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from html import escape
from urllib.parse import quote

from nicegui import ui

from cgsa.service.dashboard import labels
from cgsa.service.dashboard.alarms.texts import describe_notification, is_undelivered
from cgsa.service.dashboard.plant_view import CaseRow
from cgsa.service.dashboard.widgets import html_block

CaseKey = tuple[str, int]
"""Machine and number of a case."""
HEAD = ("Severity", "Machine", "Alarm", "State", "Opened", "Notification")
_CELLS = (
    '<a class="alarm-link" href="/machine/{link}"><span class="a-severity severity-{severity}">{severity}</span>'
    '<span class="name a-machine">{machine}</span><span class="a-fault">{fault}</span>'
    '<span class="a-state">{state}</span><span class="small a-opened">{opened}</span>'
    '<span class="small a-notification{late}">{notification}</span></a>'
)


class CaseRows:
    """The cases of one page of the list."""

    def __init__(self, on_select: Callable[[], None], *, selectable: bool) -> None:
        self.selected: set[CaseKey] = set()
        self._on_select, self._selectable = on_select, selectable
        self._cells: dict[CaseKey, ui.html] = {}
        self._boxes: dict[CaseKey, ui.checkbox] = {}
        self._list = ui.element("div").classes("alarm-rows").props('role=list aria-label="Alarms"')

    def show(self, rows: Sequence[CaseRow], zone: tzinfo, now: float) -> None:
        """Show cases; a selection of cases that are not among them is dropped."""
        keys = [(row.machine, row.case.number) for row in rows]
        if keys != list(self._cells):
            self._build(keys)
        for key, row in zip(keys, rows, strict=True):
            content = _cells(row, zone, now)
            if self._cells[key].content != content:
                self._cells[key].set_content(content)

    def select_all(self, *, chosen: bool) -> None:
        """Select all cases that are shown, or none."""
        for box in self._boxes.values():
            box.set_value(chosen)

    def _build(self, keys: Sequence[CaseKey]) -> None:
        self.selected &= set(keys)
        self._list.clear()
        self._cells, self._boxes = {}, {}
        with self._list:
            for key in keys:
                with ui.element("div").classes("alarm-row").props("role=listitem"):
                    if self._selectable:
                        self._boxes[key] = self._box(key)
                    self._cells[key] = html_block("alarm-cells")
        self._on_select()

    def _box(self, key: CaseKey) -> ui.checkbox:
        found = ui.checkbox(value=key in self.selected, on_change=lambda event: self._select(key, chosen=event.value))
        return found.props(f'dense aria-label="Select case {key[1]} of {key[0]}"')

    def _select(self, key: CaseKey, *, chosen: bool) -> None:
        if chosen:
            self.selected.add(key)
        else:
            self.selected.discard(key)
        self._on_select()


def _cells(row: CaseRow, zone: tzinfo, now: float) -> str:
    """Return the cells of a case as HTML; all texts are escaped."""
    case = row.case
    faults = ", ".join(labels.display_name(fault) for fault in case.faults)
    texts = {
        "severity": case.severity,
        "machine": row.machine,
        "fault": f"{faults} (case {case.number})",
        "state": labels.describe_case_state(case, zone, now),
        "opened": labels.format_time(case.opened, zone, now),
        "notification": describe_notification(row.notification, case),
    }
    late = " late" if is_undelivered(row.notification) and case.open else ""
    return _CELLS.format(link=quote(row.machine), late=late, **{name: escape(text) for name, text in texts.items()})
