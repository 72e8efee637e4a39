"""Colours and icons of the dashboard; ``theme.css`` has the same colours by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cgsa.service.dashboard.summary import DisplayStatus

CSS = Path(__file__).with_name("theme.css").read_text(encoding="utf-8")
FAVICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' fill='#1f5fa8'/>"
    "<path d='M3 17h6l3-9 5 16 4-11 2 4h6' fill='none' stroke='#fff' stroke-width='2.6' stroke-linejoin='round' "
    "stroke-linecap='round'/></svg>"
)
ICONS: Mapping[DisplayStatus, str] = {
    "alarm": "error",
    "cleared": "history",
    "acknowledged": "assignment_turned_in",
    "shelved": "snooze",
    "unknown": "help",
    "no data": "sensors_off",
    "suspect": "visibility",
    "unconfirmed": "contact_support",
    "healthy": "check_circle",
    "off": "power_settings_new",
    "waiting": "hourglass_empty",
}
"""Each status has its own icon: many people cannot distinguish statuses by colour alone."""


def status_class(status: DisplayStatus) -> str:
    """Return the style class of a status.

    >>> status_class("no data")
    'status-no-data'
    """
    return f"status-{status.replace(' ', '-')}"


@dataclass(frozen=True)
class Palette:
    """Colours of charts, to which style sheets do not apply."""

    text: str
    line: str
    """Axes and grids."""
    alarm: str
    """Periods with an open case."""
    training_range: str
    """Range of a quantity in training."""
    healthy: str
    faults: tuple[str, ...]
    """Distinguishable for colour-blind people, too."""
    unknown: str
    no_data: str
    learnt: str
    """Windows that were used for learning."""

    def state_colour(self, state: str, classes: tuple[str, ...]) -> str:
        """Return the colour of a state."""
        if state in classes:
            index = classes.index(state)
            return self.faults[(index - 1) % len(self.faults)] if index else self.healthy
        return self.unknown if state == "unknown" else self.no_data


LIGHT = Palette(
    text="#4a5560",
    line="#dde2e7",
    alarm="rgba(200, 40, 40, 0.10)",
    training_range="rgba(31, 95, 168, 0.08)",
    healthy="#2e7d4f",
    faults=("#c43d1f", "#8a5a00", "#0072b2", "#a0408a", "#5b5bd6", "#00796b"),
    unknown="#6b3fa0",
    no_data="#8b949e",
    learnt="#2e7d4f",
)
DARK = Palette(
    text="#a9b4be",
    line="#2c343c",
    alarm="rgba(255, 90, 80, 0.14)",
    training_range="rgba(110, 170, 240, 0.10)",
    healthy="#5cc58a",
    faults=("#ff8a66", "#e6b450", "#5ab4f0", "#e08bcf", "#9c9cff", "#4fd1c1"),
    unknown="#b794f4",
    no_data="#7d8893",
    learnt="#5cc58a",
)
