"""What keeps a machine from being monitored: failures that are tried again, refused blocks, a wrong clock."""

from __future__ import annotations

from nicegui import ui

from cgsa.service.dashboard import labels
from cgsa.service.dashboard.actions import ask, may_send, send
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import button, heading


class MonitoringPanel(Panel):
    """Visible only while something is wrong."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("section").classes("card stack").props('aria-label="Monitoring"') as self._card:
            heading("Monitoring")
            self._texts = [ui.label().classes("text").props("role=status") for _ in range(3)]
            with ui.element("div").classes("line"):
                self._readmit_button = button("Admit the sender anew", self._readmit)
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        """Show the newest data."""
        status = self.worker.status()
        found = labels.describe_work(status), labels.describe_refused_run(status), labels.describe_clock(status)
        for shown, text in zip(self._texts, found, strict=True):
            shown.set_text(labels.capitalise(text or ""))
            shown.set_visibility(text is not None)
        self._readmit_button.set_visibility(status.refused_run is not None and may_send(self.session, "readmit"))
        self._card.set_visibility(any(found))

    async def _readmit(self) -> None:
        answer = await ask(
            "Admit the sender anew",
            "The next block may have any number and any time. Do this once the clock of the sender is right.",
            confirm="Admit",
            text="Reason",
        )
        if answer:
            await send(self.session, self.machine, "readmit", answer.text)
