"""Sentences about levels, for events, notes and pages."""

from __future__ import annotations

from collections.abc import Mapping

from cgsa.events import LevelQuantity, LimitedLevel

QUANTITY_WORDS: Mapping[LevelQuantity, str] = {"rms": "RMS", "peak": "peak", "velocity": "velocity"}
_UNITS = ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def describe_level(level: LimitedLevel) -> str:
    """Return a level and its limits.

    >>> describe_level(LimitedLevel("z", "velocity", 5.213, "mm/s", 4.5, 7.1, "warning"))
    'z velocity 5.21 mm/s, warning limit 4.5 mm/s'
    >>> describe_level(LimitedLevel("z", "rms", None, "g", None, 2.0, "normal"))
    'z RMS not measured, alarm limit 2 g'
    """
    value = "not measured" if level.value is None else f"{level.value:.3g} {level.unit}"
    limits = {"warning": level.warning, "alarm": level.alarm}
    shown = [level.state] if level.state != "normal" else [name for name, limit in limits.items() if limit is not None]
    texts = [f"{name} limit {limits[name]:.3g} {level.unit}" for name in shown]
    return ", ".join([f"{name_of_level(level.channel, level.quantity)} {value}", *texts])


def describe_trend(name: str, per_day: float, unit: str, limit: str, seconds: float) -> str:
    """Return how fast a level rises, and when it reaches a limit if that is named.

    >>> describe_trend("z velocity", 0.4, "mm/s", "alarm", 6.2 * 86_400)
    'z velocity rises 0.4 mm/s per day, alarm limit in about 6 days'
    """
    text = f"{name} rises {per_day:.2g} {unit} per day"
    return f"{text}, {limit} limit in about {about(seconds)}" if limit else text


def name_of_level(channel: str, quantity: LevelQuantity) -> str:
    """Return how sentences name a level.

    >>> name_of_level("gearbox_z", "rms")
    'gearbox_z RMS'
    """
    return f"{channel} {QUANTITY_WORDS[quantity]}"


def about(seconds: float) -> str:
    """Return a time in its largest unit of which there are at least two.

    >>> about(6.2 * 86_400), about(30 * 3600), about(90), about(40)
    ('6 days', '30 hours', '2 minutes', 'a minute')
    """
    for size, unit in _UNITS:
        if round(seconds / size) >= 2:
            return f"{seconds / size:.0f} {unit}s"
    return "a minute"
