"""The ledger: why the newest windows were learnt from or not."""

from __future__ import annotations

from nicegui import ui

from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.evidence import Evidence
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import bars_html, block, heading, table_html


class WindowsPanel(Panel):
    """Reasons and single windows."""

    def build(self) -> None:
        """Draw it once, empty."""
        with ui.element("div").classes("card"):
            heading("Why windows were learnt from or not")
            self._span = ui.label("…").classes("muted")
            self._reasons = block("")
        with ui.element("div").classes("card"):
            with ui.element("div").classes("spread"):
                heading("Newest windows")
                self._live = ui.switch("follow", value=True).props("dense")
            self._rows = block("data long")
            self._empty = ui.label("No window has come lately").classes("empty")

    async def refresh(self) -> None:
        """Show what there is now."""
        if not self._live.value:
            return
        evidence = await self.board.evidence(self.machine)
        self._span.set_text(f"{evidence.windows:,} windows of the last {evidence.seconds:.0f} s")
        self._reasons.set_content(bars_html(evidence.reasons))
        self._empty.set_visibility(not evidence.rows)
        self._rows.set_content(self._table(evidence) if evidence.rows else "")

    def _table(self, evidence: Evidence) -> str:
        figure = evidence.traces[0].name if evidence.traces else None
        now, zone = evidence.rows[0].time, self.visit.zone
        rows = []
        for row in evidence.rows:
            cells = [
                f"{row.window:,}",
                f"{words.moment(row.time, zone, now)}{row.time % 1:.3f}".replace("0.", ".", 1),
                words.display_name(row.verdict),
                words.NONE if row.confidence is None else words.percent(row.confidence),
                *([] if figure is None else [words.NONE if row.figure is None else f"{row.figure:.3g}"]),
                {None: words.NONE, True: "yes", False: "no"}[row.learnt],
                row.reason,
            ]
            rows.append(cells)
        head = ["Window", "Time", "Verdict", "Confidence", *([] if figure is None else [figure.capitalize()]), "Learnt"]
        return table_html([*head, "Reason"], rows, numbers=(0, 3, *((4,) if figure else ())))
