"""The newest windows of the ledger, and why each was or was not used for learning."""

from __future__ import annotations

from datetime import tzinfo

from nicegui import ui

from cgsa.service.dashboard import labels
from cgsa.service.dashboard.evidence import Evidence
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import bars_html, heading, html_block, scrolled_block, table_html


class WindowsPanel(Panel):
    """Reasons and single windows."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("div").classes("card"):
            heading("Why windows were or were not used for learning")
            self._period = ui.label("…").classes("muted")
            self._reasons = html_block("")
        with ui.element("div").classes("card"):
            with ui.element("div").classes("spread"):
                heading("Newest windows")
                self._follow = ui.switch("follow", value=True).props("dense")
            self._rows = scrolled_block("Newest windows", "data long")
            self._empty = ui.label("No recent windows").classes("empty")

    async def refresh(self) -> None:
        """Show the newest data."""
        if not self._follow.value:
            return
        evidence = await self.view.evidence(self.machine)
        self._period.set_text(f"{evidence.windows:,} windows of the last {evidence.seconds:.0f} s")
        self._reasons.set_content(bars_html(evidence.reasons))
        self._empty.set_visibility(not evidence.rows)
        self._rows.set_content(_windows_html(evidence, self.session.zone))


def _windows_html(evidence: Evidence, zone: tzinfo) -> str:
    if not evidence.rows:
        return ""
    traces = [labels.capitalise(trace.name) for trace in evidence.traces[:1]]
    now = evidence.rows[0].time
    rows = [
        (
            f"{row.window:,}",
            labels.format_time(row.time, zone, now, milliseconds=True),
            labels.display_name(row.verdict),
            labels.MISSING if row.confidence is None else labels.format_percent(row.confidence),
            *(labels.MISSING if row.value is None else f"{row.value:.3g}" for _ in traces),
            {None: labels.MISSING, True: "yes", False: "no"}[row.learnt],
            row.reason,
        )
        for row in evidence.rows
    ]
    head = ("Window", "Time", "Verdict", "Confidence", *traces, "Used for learning", "Reason")
    return table_html(head, rows, numbers=(0, 3, 4) if traces else (0, 3))
