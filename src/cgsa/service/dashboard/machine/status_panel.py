"""How the machine stands, in words and in four numbers."""

from __future__ import annotations

from nicegui import ui

from cgsa.service.dashboard import labels as words
from cgsa.service.dashboard.activity import fault_probability
from cgsa.service.dashboard.machine.panel import Panel
from cgsa.service.dashboard.widgets import Badge, StatTile


class StatusPanel(Panel):
    """The first thing that is read."""

    def build(self) -> None:
        """Draw it once, empty."""
        with ui.element("section").classes("card hero stack").props('aria-label="How it stands"'):
            with ui.element("div").classes("line"):
                self._badge = Badge()
                self._since = ui.label().classes("muted")
            self._verdict = ui.label("…").classes("verdict").props("role=status")
            with ui.element("div").classes("sentences"):
                self._data = ui.label().classes("text").style("color: var(--bad); font-weight: 600")
                self._learning = ui.label().classes("text")
                self._counts = ui.label().classes("muted")
            with ui.element("div").classes("figures"):
                self._fault = StatTile("P(fault)", "Mean probability of any fault over the newest batch")
                self._trust = StatTile(
                    "estimated right", "Share of the newest windows that are likely diagnosed rightly"
                )
                self._coverage = StatTile("inside training", "Share of the newest windows that lie where training was")
                self._agreement = StatTile(
                    "same as trained", "Share of which the model as it was trained says the same"
                )

    async def refresh(self) -> None:
        """Show what there is now."""
        one = await self.board.summary(self.machine)
        status, told = one.status, one.status.diagnosis
        trust = None if told is None else told.trust
        self._badge.show(one.mood)
        self._since.set_text(words.since(one, self.visit.zone))
        self._verdict.set_text(words.verdict(one))
        self._data.set_text(words.data(one) or "")
        self._data.set_visibility(words.data(one) is not None)
        self._learning.set_text(words.sentence(words.learning(status)))
        self._counts.set_text(
            _counts(status.problem, status.counts.windows, status.counts.flagged, status.counts.learnt)
        )
        self._fault.show(words.NONE if told is None else words.percent(fault_probability(told)))
        self._trust.show(words.NONE if trust is None else words.percent(trust.accuracy))
        self._coverage.show(words.NONE if trust is None else words.percent(trust.coverage))
        self._agreement.show(words.NONE if trust is None else words.percent(trust.agreement))


def _counts(problem: str | None, windows: int, flagged: int, learnt: int) -> str:
    seen = f"{windows:,} windows so far, {flagged:,} not believed, {learnt:,} learnt from"
    return seen if problem is None else f"{seen}. {problem}"
