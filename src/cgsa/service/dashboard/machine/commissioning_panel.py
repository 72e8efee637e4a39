"""Commissioning: why it waits, what it asks, and the commands for it."""

from __future__ import annotations

from nicegui import ui

from cgsa.events import CommissioningStatus
from cgsa.live.commands import Name
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.actions import ask, may_send, send
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import button, heading

HISTORIES = {"the last 5 minutes": 300.0, "the last hour": 3600.0, "the last 8 hours": 28_800.0}
STARTS = {"it is known to be healthy": True, "ask me if it does not look healthy": False}


class CommissioningPanel(Panel):
    """The commissioning of the machine; hidden if its method needs none."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("section").classes("card stack").props('aria-label="Commissioning"') as self._card:
            heading("Commissioning")
            self._text = ui.label("…").classes("text").props("role=status")
            with ui.element("div").classes("line"):
                self._buttons: dict[Name, ui.button] = {
                    "confirm_healthy": button("Confirm healthy", self._confirm, first=True),
                    "mark_faulty": button("Mark as faulty", self._mark),
                    "commission": button("Repeat commissioning", self._repeat),
                    "take_reference": button("Reference from history", self._take),
                    "withdraw_reference": button("Take the reference back", self._withdraw),
                }
        self._card.set_visibility(False)

    async def refresh(self) -> None:
        """Show the newest data."""
        status = self.worker.status().commissioning
        self._card.set_visibility(status is not None)
        if status is None:
            return
        self._text.set_text(labels.capitalise(status.text))
        for name, offered in self._buttons.items():
            offered.set_visibility(applies(name, status) and may_send(self.session, name))

    async def _confirm(self) -> None:
        answer = await ask(
            "Confirm that the machine is healthy",
            "Its reference is taken from the observed start, or from the next suitable one. Only confirm what you have "
            "checked: a fault that is confirmed as healthy will not be reported.",
            confirm="Confirm healthy",
            text="How do you know?",
            required=True,
        )
        if answer:
            await send(self.session, self.machine, "confirm_healthy", answer.text)

    async def _mark(self) -> None:
        answer = await ask(
            "Mark the machine as faulty",
            "It gets no reference, and the verdicts of the model as trained stand.",
            confirm="Mark as faulty",
            text="Remark",
        )
        if answer:
            await send(self.session, self.machine, "mark_faulty", answer.text)

    async def _repeat(self) -> None:
        answer = await ask(
            "Repeat the commissioning",
            "The reference is discarded, and a new start is observed, such as after a repair.",
            confirm="Repeat",
            text="Reason",
            lists=[("The machine", list(STARTS))],
            destructive=True,
        )
        if answer:
            await send(self.session, self.machine, "commission", answer.text, healthy=STARTS[answer.chosen[0]])

    async def _take(self) -> None:
        end = self.worker.now
        answer = await ask(
            "Take the reference from the history",
            "The machine must have been healthy and steady all the time.",
            confirm="Take the reference",
            text="How do you know?",
            required=True,
            lists=[("From", list(HISTORIES))],
        )
        if answer:
            begin = max(0.0, end - HISTORIES[answer.chosen[0]])
            await send(self.session, self.machine, "take_reference", answer.text, begin=begin, end=end)

    async def _withdraw(self) -> None:
        answer = await ask(
            "Take the reference back",
            "The verdicts of the model as trained stand from now on.",
            confirm="Take back",
            text="Reason",
            destructive=True,
        )
        if answer:
            await send(self.session, self.machine, "withdraw_reference", answer.text)


def applies(name: Name, status: CommissioningStatus) -> bool:
    """Return whether a command makes sense now."""
    if name in {"confirm_healthy", "mark_faulty"}:
        return status.state in {"waiting", "question"}
    return status.reference if name == "withdraw_reference" else True
