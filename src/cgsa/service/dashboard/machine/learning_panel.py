"""Learning: freeze, reset, compare and roll back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from cgsa.errors import CgsaError
from cgsa.live.commands import Name
from cgsa.service.comparison import Difference
from cgsa.service.dashboard import labels
from cgsa.service.dashboard.actions import ask, may_send, send
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import button, heading, scrolled_block, table_html

MAX_DIFFERENCES = 20


class LearningPanel(Panel):
    """Saved states, and commands about learning."""

    def build(self) -> None:
        """Build the elements, without data."""
        with ui.element("div").classes("two"):
            with ui.element("div").classes("card stack"):
                heading("Learning")
                self._learning = ui.label("…").classes("text")
                self._about = ui.label(self._describe()).classes("muted")
                with ui.element("div").classes("line"):
                    self._freeze = self._button("Freeze learning", "freeze", self._freeze_or_thaw)
                    self._thaw = self._button("Resume learning", "thaw", self._freeze_or_thaw)
                    self._reset = self._button("Reset to the model as trained", "reset", self._reset_all)
            with ui.element("div").classes("card stack"):
                heading("Roll back or compare")
                with ui.element("div").classes("line"):
                    self._state, self._other = self._choice("State"), self._choice("With")
                    button("Compare", self._compare)
                    self._roll_back = self._button("Roll back", "roll_back", self._go_back)
                ui.label("The model returns to that state; alarms and history stay").classes("muted")
        with ui.element("div").classes("card") as self._compared:
            self._between = ui.label().classes("text").style("font-weight: 600")
            self._differences = scrolled_block("Differences between the states")
        self._compared.set_visibility(False)
        with ui.element("div").classes("card"):
            heading("Saved states")
            self._states = scrolled_block("Saved states")
            self._empty = ui.label("No state is saved yet; the first follows within seconds").classes("empty")

    async def refresh(self) -> None:
        """Show the newest data."""
        one = await self.view.summary(self.machine)
        states = await self.view.states(self.machine)
        frozen = one.status.frozen
        self._learning.set_text(labels.capitalise(labels.describe_learning(one.status)))
        self._freeze.set_visibility(not frozen and may_send(self.session, "freeze"))
        self._thaw.set_visibility(frozen and may_send(self.session, "thaw"))
        for select in (self._state, self._other):
            # A chosen state stays selected even if it has been deleted meanwhile; using it then shows an error.
            chosen = set() if select.value is None else {int(select.value)}
            numbers = sorted(chosen | {state.number for state in states}, reverse=True)
            if select.options != numbers:
                select.set_options(numbers, value=select.value)
        self._empty.set_visibility(not states)
        now, zone = one.status.now, self.session.zone
        rows = [
            (
                str(state.number),
                labels.format_time(state.time, zone, now),
                f"{state.position:,}",
                state.change,
                f"{state.learnt:,}",
                "frozen" if state.frozen else "learning",
                labels.format_size(state.bytes),
            )
            for state in states
        ]
        head = ("State", "Time", "Position", "Change since previous", "Windows used in total", "Learning", "Size")
        self._states.set_content(table_html(head, rows, numbers=(2, 4, 6), wrapped=(3,)) if rows else "")

    def _describe(self) -> str:
        about, method = self.manifest, self.worker.watch_config.method
        model = about.scenario or "unnamed"
        return f"method {method}; model {model}, trained with objective {about.objective or 'unknown'}"

    def _choice(self, label: str) -> ui.select:
        def hold() -> None:
            if found.value is not None:
                self.worker.protect_state(int(found.value))

        found = ui.select([], label=label, on_change=hold).props("dense outlined options-dense")
        return found.style("width: 132px")

    def _button(self, text: str, name: Name, handler: Callable[[], Awaitable[None]]) -> ui.button:
        found = button(text, handler)
        found.set_visibility(may_send(self.session, name))
        return found

    async def _freeze_or_thaw(self) -> None:
        await send(self.session, self.machine, "thaw" if self.worker.status().frozen else "freeze")
        await self.refresh()

    async def _reset_all(self) -> None:
        answer = await ask(
            f"Reset {self.machine}",
            "Everything learnt on this machine is discarded, and the machine is assumed to be healthy now. "
            "Saved states stay; you can roll back to them.",
            confirm="Reset",
            text="Reason",
            destructive=True,
        )
        if answer:
            await send(self.session, self.machine, "reset", answer.text)

    async def _go_back(self) -> None:
        if self._state.value is None:
            ui.notify("Choose a state first", type="warning")
            return
        number = int(self._state.value)
        answer = await ask(
            f"Roll back to state {number}",
            "The model returns to that state. Diagnoses, alarms and history stay as they are.",
            confirm="Roll back",
            text="Reason",
            destructive=True,
        )
        if answer:
            await send(self.session, self.machine, "roll_back", answer.text, state=number)

    async def _compare(self) -> None:
        if self._state.value is None or self._other.value is None:
            ui.notify("Choose two states first", type="warning")
            return
        try:
            found = await self.view.compare_states(self.machine, int(self._state.value), int(self._other.value))
        except CgsaError as error:
            ui.notify(str(error), type="negative")
            return
        self._between.set_text(f"From state {self._state.value} to state {self._other.value}")
        self._differences.set_content(_differences(found))
        self._compared.set_visibility(True)


def _differences(found: tuple[Difference, ...]) -> str:
    if not found:
        return table_html(("Difference",), [("none: the states are identical",)])
    # The state of the optimiser does not affect the diagnoses.
    shown = [one for one in found if not one.name.startswith("optimizer.")]
    rows = [
        (one.name, f"{one.changed:,}", "new" if one.relative is None else f"{one.relative:.2%}")
        for one in shown[:MAX_DIFFERENCES]
    ]
    if len(found) > len(rows):
        rows.append((f"and {len(found) - len(rows)} more: smaller ones and those of the optimiser", "", ""))
    return table_html(("Tensor", "Elements that differ", "Relative change"), rows, numbers=(1, 2), wrapped=(0,))
