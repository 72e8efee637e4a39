"""The open case: its faults, its history, and the commands for it."""

from __future__ import annotations

from datetime import tzinfo

from nicegui import ui

from cgsa.events import Case
from cgsa.live.commands import Name
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.actions import ask, may_send, send
from cgsa.service.dashboard.alarms.texts import describe_notification, is_undelivered
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.plant_view import History
from cgsa.service.dashboard.summary import MachineSummary
from cgsa.service.dashboard.widgets import button, heading, log_html, scrolled_block

SHELVINGS = {"15 minutes": 900.0, "1 hour": 3600.0, "8 hours": 28_800.0, "24 hours": 86_400.0}
SPANS = {"the last minute": 60.0, "the last 10 minutes": 600.0, "the last hour": 3600.0}
SINCE_OPENED = "since the case opened"


class AlarmPanel(Panel):
    """The alarms of the machine."""

    def build(self) -> None:
        """Build the elements, without data."""
        self._number: int | None = None
        """The case that is shown; commands refer to it, even if a newer one opens meanwhile."""
        with ui.element("section").classes("card case stack").props('aria-label="Alarm"'):
            heading("Alarm")
            self._title = ui.label("…").classes("text").style("font-weight: 600")
            self._state = ui.label().classes("muted")
            self._notified = ui.label().classes("muted").props("role=status")
            with ui.element("div").classes("line"):
                self._buttons: dict[Name, ui.button] = {
                    "acknowledge": button("Acknowledge", self._acknowledge, first=True),
                    "shelve": button("Shelve", self._shelve),
                    "unshelve": button("Unshelve", self._unshelve),
                    "close": button("Close", self._close),
                    "comment": button("Comment", self._comment),
                    "label": button("Label", self._label),
                }
            for one in self._buttons.values():
                one.set_visibility(False)
            self._log = scrolled_block("History of the case", "log")

    async def refresh(self) -> None:
        """Show the newest data."""
        one = await self.view.summary(self.machine)
        history = await self.view.history(self.machine)
        case, now, zone = one.case, one.status.now, self.session.zone
        if case is None:
            self._title.set_text("No open case")
            self._state.set_text("no action is needed" if history.cases else "there has never been one")
        else:
            faults = ", ".join(labels.display_name(fault) for fault in case.faults)
            self._title.set_text(f"Case {case.number}, {case.severity}: {faults}")
            opened = labels.format_time(case.opened, zone, now)
            self._state.set_text(f"{labels.describe_case_state(case, zone, now)}; opened {opened}")
        await self._show_notification(case)
        self._offer(one, cases=bool(history.cases))
        newest = history.cases[0].number if history.cases else None
        self._number = newest if case is None else case.number
        self._log.set_content(log_html(_lines(history, zone, now, self._number)))

    async def _show_notification(self, case: Case | None) -> None:
        """Show what became of the newest notification, and whether the machine is under maintenance."""
        context = self.session.context
        until = context.calendar.until(self.machine)
        texts = [] if until is None else [f"Under maintenance until {labels.format_time(until, self.session.zone)}"]
        late = False
        if case is not None:
            found = await self.view.notification(self.machine, case.number, context.escalation_steps)
            texts.append(labels.capitalise(describe_notification(found, case)))
            late = is_undelivered(found)
        self._notified.set_text(". ".join(texts))
        self._notified.set_visibility(bool(texts))
        self._notified.classes(add="late" if late else "", remove="" if late else "late")

    def _offer(self, one: MachineSummary, *, cases: bool) -> None:
        """Show the commands that apply now, to those who may send them."""
        case = one.case
        applicable: dict[Name, bool] = {
            "acknowledge": case is not None and case.state != "acknowledged",
            "shelve": case is not None and case.shelved_until is None,
            "unshelve": case is not None and case.shelved_until is not None,
            "close": case is not None,
            "comment": cases,
            "label": one.status.diagnosis is not None,
        }
        for name, offered in self._buttons.items():
            offered.set_visibility(applicable[name] and may_send(self.session, name))

    async def _acknowledge(self) -> None:
        case = self._number
        answer = await ask(
            "Acknowledge the alarm", "You take responsibility for it.", confirm="Acknowledge", text="Remark"
        )
        if answer:
            await send(self.session, self.machine, "acknowledge", answer.text, case=case)

    async def _shelve(self) -> None:
        case = self._number
        longest = self.worker.watch_config.alarms.longest_shelving
        choices = [name for name, seconds in SHELVINGS.items() if seconds <= longest] or [f"{longest:g} s"]
        answer = await ask(
            "Shelve the case",
            "It sends no notifications until the time is over, unless a more severe fault joins it.",
            confirm="Shelve",
            text="Reason",
            required=True,
            lists=[("For", choices)],
        )
        if answer:
            seconds = SHELVINGS.get(answer.chosen[0], longest)
            await send(self.session, self.machine, "shelve", answer.text, case=case, seconds=seconds)

    async def _unshelve(self) -> None:
        await send(self.session, self.machine, "unshelve", case=self._number)

    async def _close(self) -> None:
        case = self._number
        answer = await ask(
            "Close the case",
            "An alarm that is still active after the usual delay reopens it.",
            confirm="Close the case",
            text="Remark",
        )
        if answer:
            await send(self.session, self.machine, "close", answer.text, case=case)

    async def _comment(self) -> None:
        case = self._number
        answer = await ask("Comment on the case", confirm="Comment", text="Comment", required=True)
        if answer:
            await send(self.session, self.machine, "comment", answer.text, case=case)

    async def _label(self) -> None:
        one = await self.view.summary(self.machine)
        spans = [*([SINCE_OPENED] if one.case else []), *SPANS]
        answer = await ask(
            "Label the true state of the machine",
            "Later trainings learn from it. Choose a class of the model, or enter another.",
            confirm="Label",
            text="Another state",
            lists=[("State", list(self.manifest.classes)), ("From", spans)],
        )
        if answer is None:
            return
        end = one.status.now
        begin = (
            one.case.opened
            if one.case and answer.chosen[1] == SINCE_OPENED
            else end - SPANS.get(answer.chosen[1], 60.0)
        )
        case = None if one.case is None else one.case.number
        state = answer.text or answer.chosen[0]
        await send(self.session, self.machine, "label", answer.text, case=case, state=state, begin=begin, end=end)


def _lines(history: History, zone: tzinfo, now: float, number: int | None) -> list[tuple[str, str]]:
    """Return the history of a case, newest first."""
    lines = [(one.time, labels.describe_change(one)) for one in history.changes if one.case.number == number]
    lines += [(one.time, f"{one.who}: {one.text}") for one in history.comments if one.case == number]
    lines += [
        (one.time, f"{one.who} found: {labels.display_name(one.state)}") for one in history.labels if one.case == number
    ]
    lines.sort(key=lambda line: line[0], reverse=True)
    return [(labels.format_time(time, zone, now), text) for time, text in lines]
