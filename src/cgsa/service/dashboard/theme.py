"""Colours and type of the dashboard; the style sheet beside this file has the same ones by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cgsa.service.dashboard.summary import Mood

CSS = Path(__file__).with_name("theme.css").read_text(encoding="utf-8")
FAVICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='#1f5fa8'/>"
    "<path d='M3 17h6l3-9 5 16 4-11 2 4h6' fill='none' stroke='#fff' stroke-width='2.6' stroke-linejoin='round' "
    "stroke-linecap='round'/></svg>"
)
ICONS: Mapping[Mood, str] = {
    "alarm": "error",
    "over": "history",
    "acknowledged": "assignment_turned_in",
    "shelved": "snooze",
    "unknown": "help",
    "no data": "sensors_off",
    "suspect": "visibility",
    "healthy": "check_circle",
    "waiting": "hourglass_empty",
}
"""A shape for each mood: colour alone tells nothing to many people."""


def mood_class(mood: Mood) -> str:
    """Return the style class of a mood.

    >>> mood_class("no data")
    'mood-no-data'
    """
    return f"mood-{mood.replace(' ', '-')}"


@dataclass(frozen=True)
class Palette:
    """Colours of charts, which know nothing of style sheets."""

    text: str
    line: str
    """Of axes and grids."""
    alarm: str
    """Of the time in which a case was open."""
    usual: str
    """Of what training saw."""
    healthy: str
    faults: tuple[str, ...]
    """Told apart by those who see colours differently, too."""
    unknown: str
    no_data: str
    marked: str

    def of_state(self, state: str, classes: tuple[str, ...]) -> str:
        """Return the colour of a state."""
        if state in classes:
            place = classes.index(state)
            return self.faults[(place - 1) % len(self.faults)] if place else self.healthy
        return self.unknown if state == "unknown" else self.no_data


LIGHT = Palette(
    text="#4a5560",
    line="#dde2e7",
    alarm="rgba(200, 40, 40, 0.10)",
    usual="rgba(31, 95, 168, 0.08)",
    healthy="#2e7d4f",
    faults=("#c43d1f", "#8a5a00", "#0072b2", "#a0408a", "#5b5bd6", "#00796b"),
    unknown="#6b3fa0",
    no_data="#8b949e",
    marked="#2e7d4f",
)
DARK = Palette(
    text="#a9b4be",
    line="#2c343c",
    alarm="rgba(255, 90, 80, 0.14)",
    usual="rgba(110, 170, 240, 0.10)",
    healthy="#5cc58a",
    faults=("#ff8a66", "#e6b450", "#5ab4f0", "#e08bcf", "#9c9cff", "#4fd1c1"),
    unknown="#b794f4",
    no_data="#7d8893",
    marked="#5cc58a",
)


def palette(*, dark: bool) -> Palette:
    """Return the colours for a dark or a light page."""
    return DARK if dark else LIGHT
