"""The open case: what it is about, what happened to it, and what a person can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import tzinfo

from nicegui import ui

from cgsa.live.commands import Name
from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.actions import act, ask, may
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.plant_view import History
from cgsa.service.dashboard.summary import Summary
from cgsa.service.dashboard.widgets import block, button, heading, log_html

SHELVINGS = {"15 minutes": 900.0, "1 hour": 3600.0, "8 hours": 28_800.0, "24 hours": 86_400.0}
SPANS = {"the last minute": 60.0, "the last 10 minutes": 600.0, "the last hour": 3600.0}
SINCE_OPENED = "since the case opened"


class AlarmPanel(Panel):
    """The alarms of the machine."""

    def build(self) -> None:
        """Draw it once, empty."""
        with ui.element("section").classes("card case stack").props('aria-label="Alarm"'):
            heading("Alarm")
            self._title = ui.label("…").classes("text").style("font-weight: 600")
            self._state = ui.label().classes("muted")
            with ui.element("div").classes("line"):
                self._buttons: dict[Name, ui.button] = {
                    "acknowledge": self._button("Acknowledge", self._acknowledge, first=True),
                    "shelve": self._button("Shelve", self._shelve),
                    "unshelve": self._button("Unshelve", self._unshelve),
                    "close": self._button("Close", self._close),
                    "comment": self._button("Comment", self._comment),
                    "label": self._button("Label", self._label),
                }
            self._log = block("log")

    async def refresh(self) -> None:
        """Show what there is now."""
        one = await self.board.summary(self.machine)
        history = await self.board.history(self.machine)
        case, now, zone = one.case, one.status.now, self.visit.zone
        if case is None:
            self._title.set_text("No open case")
            count = len(history.cases)
            self._state.set_text("nothing asks for an answer" if count else "there never was one")
        else:
            faults = ", ".join(words.display_name(fault) for fault in case.faults)
            self._title.set_text(f"Case {case.number}, {case.severity}: {faults}")
            times = {0: "nobody was called", 1: "somebody was called once"}
            called = times.get(case.notified, f"somebody was called {case.notified} times")
            self._state.set_text(
                f"{words.case(case, zone, now)}; opened {words.moment(case.opened, zone, now)}, {called}"
            )
        self._offer(one, cases=bool(history.cases))
        number = None if case is None else case.number
        self._log.set_content(log_html(_lines(history, zone, now, number)))

    def _button(self, text: str, handler: Callable[[], Awaitable[None]], *, first: bool = False) -> ui.button:
        found = button(text, handler, first=first)
        found.set_visibility(False)
        return found

    def _offer(self, one: Summary, *, cases: bool) -> None:
        """Show the commands that make sense now, to those who may give them."""
        case = one.case
        sensible: dict[Name, bool] = {
            "acknowledge": case is not None and case.state != "acknowledged",
            "shelve": case is not None and case.shelved_until is None,
            "unshelve": case is not None and case.shelved_until is not None,
            "close": case is not None,
            "comment": cases,
            "label": one.status.diagnosis is not None,
        }
        for name, offered in self._buttons.items():
            offered.set_visibility(sensible[name] and may(self.visit, name))

    async def _acknowledge(self) -> None:
        answer = await ask(
            "Acknowledge the alarm", "You answer for what it tells of.", confirm="Acknowledge", text="Remark"
        )
        if answer:
            await act(self.visit, self.machine, "acknowledge", answer.text)

    async def _shelve(self) -> None:
        longest = self.worker.watch.config.alarms.longest_shelving
        choices = [name for name, seconds in SHELVINGS.items() if seconds <= longest] or [f"{longest:g} s"]
        answer = await ask(
            "Shelve the case",
            "It calls nobody until the time is over, unless a graver fault joins it.",
            confirm="Shelve",
            text="Reason",
            text_needed=True,
            lists=[("For", choices)],
        )
        if answer:
            seconds = SHELVINGS.get(answer.chosen[0], longest)
            await act(self.visit, self.machine, "shelve", answer.text, seconds=seconds)

    async def _unshelve(self) -> None:
        await act(self.visit, self.machine, "unshelve")

    async def _close(self) -> None:
        answer = await ask(
            "Close the case",
            "What still stands after the usual delay opens it again.",
            confirm="Close the case",
            text="Remark",
        )
        if answer:
            await act(self.visit, self.machine, "close", answer.text)

    async def _comment(self) -> None:
        answer = await ask("Comment on the case", confirm="Comment", text="Comment", text_needed=True)
        if answer:
            await act(self.visit, self.machine, "comment", answer.text)

    async def _label(self) -> None:
        one = await self.board.summary(self.machine)
        spans = [*([SINCE_OPENED] if one.case else []), *SPANS]
        answer = await ask(
            "Label what the machine really had",
            "Later trainings learn from it. Choose a class of the model, or write another.",
            confirm="Label",
            text="Another state",
            lists=[("State", list(self.about.classes)), ("From", spans)],
        )
        if answer is None:
            return
        end = one.status.now
        begin = (
            one.case.opened
            if one.case and answer.chosen[1] == SINCE_OPENED
            else end - SPANS.get(answer.chosen[1], 60.0)
        )
        await act(
            self.visit, self.machine, "label", answer.text, state=answer.text or answer.chosen[0], begin=begin, end=end
        )


def _lines(history: History, zone: tzinfo, now: float, number: int | None) -> list[tuple[str, str]]:
    """Return what happened to a case, the newest first; without one, to the newest."""
    if number is None and history.cases:
        number = history.cases[0].number
    told = [(one.time, words.change(one)) for one in history.changes if one.case.number == number]
    told += [(one.time, f"{one.who}: {one.text}") for one in history.comments if one.case == number]
    told += [
        (one.time, f"{one.who} found: {words.display_name(one.state)}") for one in history.labels if one.case == number
    ]
    told.sort(key=lambda line: line[0], reverse=True)
    return [(words.moment(time, zone, now), text) for time, text in told]
