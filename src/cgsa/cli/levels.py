"""Levels and their limits in ``cgsa watch``: the options, and what is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.table import Table

from cgsa.errors import ConfigError
from cgsa.events import Diagnosis, LevelQuantity, LimitedLevel

if TYPE_CHECKING:
    from cgsa.live.levels.config import LevelConfig

COLOURS = {"normal": "green", "warning": "yellow", "alarm": "red"}


def level_settings(settings: object, limits: Sequence[str]) -> LevelConfig:
    """Return the settings of the levels, from ``--set levels.NAME=VALUE`` and ``--limit``."""
    from cgsa.config import bind
    from cgsa.live.levels.config import LevelConfig

    if not isinstance(settings, Mapping):
        raise ConfigError(f"--set levels={settings!r}: expected one of its settings, such as levels.duration=30")
    if limits and "limits" in settings:
        raise ConfigError("--limit and --set levels.limits; expected one of them")
    chosen = {**settings, "limits": list(limits)} if limits else settings
    return bind(LevelConfig, chosen, "levels")


def level_table(events: Sequence[Diagnosis]) -> Table | None:
    """Return one line per level with limits; None if there is none."""
    levels = _limited_levels(events)
    if not levels:
        return None
    table = Table(title="Levels with limits")
    for name in ("channel", "level", "highest", "at", "warning", "alarm", "state"):
        table.add_column(name, justify="left" if name in {"channel", "level", "state"} else "right")
    for (channel, quantity), course in levels.items():
        measured = [(one.value, event.end) for event, one in course if one.value is not None]
        highest, time = max(measured, key=lambda pair: pair[0], default=(None, None))
        worst = max((one for _, one in course), key=lambda one: list(COLOURS).index(one.state))
        table.add_row(
            channel,
            f"{quantity}, {worst.unit}",
            _number(highest),
            "" if time is None else f"{time:.1f} s",
            _number(course[-1][1].warning),
            _number(course[-1][1].alarm),
            f"[{COLOURS[worst.state]}]{worst.state}[/]",
        )
    return table


def level_lines(events: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield one line per interval in which a level is above a limit, then the trends at the end and what is missing."""
    from cgsa.live.levels.texts import describe_level

    for course in _limited_levels(events).values():
        for state, group in groupby(course, key=lambda pair: pair[1].state):
            interval = list(group)
            if state != "normal":
                _, highest = max(interval, key=lambda pair: pair[1].value or 0.0)
                begin, end = interval[0][0].begin, interval[-1][0].end
                yield f"level {state}, {begin:.1f} to {end:.1f} s: up to {describe_level(highest)}"
    last = events[-1].levels if events else None
    if last is not None:
        yield from (trend.text for trend in last.trends)
        if last.limits and last.note is not None:
            yield last.note


def _limited_levels(
    events: Sequence[Diagnosis],
) -> dict[tuple[str, LevelQuantity], list[tuple[Diagnosis, LimitedLevel]]]:
    """Return the levels with limits by channel and quantity, each in the order of time."""
    found: dict[tuple[str, LevelQuantity], list[tuple[Diagnosis, LimitedLevel]]] = {}
    for event in events:
        for one in () if event.levels is None else event.levels.limits:
            found.setdefault((one.channel, one.quantity), []).append((event, one))
    return found


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
