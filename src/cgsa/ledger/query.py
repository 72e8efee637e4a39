"""Conditions on the rows of a table, as a person types them; they are parsed, never run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cgsa.errors import ConfigError

EXAMPLE = "deviation > 0.05 and verdict == 'gear_wear'"

_COMPARISON = re.compile(
    r"""\s*(?P<column>[A-Za-z_]\w*)
        \s*(?P<operator>==|!=|<=|>=|<|>)
        \s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
            | '(?P<single>[^']*)' | "(?P<double>[^"]*)"
            | (?P<truth>true|false)\b)""",
    re.VERBOSE,
)
_AND = re.compile(r"\s+and\b")


@dataclass(frozen=True)
class Comparison:
    """One column against one value."""

    column: str
    operator: str
    """One of ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``."""
    value: float | str | bool


def parse_where(text: str) -> tuple[Comparison, ...]:
    """Return the comparisons that ``text`` joins by ``and``.

    >>> [found.column for found in parse_where("deviation > 0.05 and accepted == false")]
    ['deviation', 'accepted']
    """
    found: list[Comparison] = []
    place = 0
    while True:
        match = _COMPARISON.match(text, place)
        if match is None:
            raise _refusal(text, place, "COLUMN, one of == != < <= > >=, and a number, a 'text', true or false")
        found.append(Comparison(match["column"], match["operator"], _value(match)))
        place = match.end()
        if not text[place:].strip():
            return tuple(found)
        joint = _AND.match(text, place)
        if joint is None:
            raise _refusal(text, place, "'and' or the end")
        place = joint.end()


def _value(match: re.Match[str]) -> float | str | bool:
    if match["number"] is not None:
        return float(match["number"])
    if match["truth"] is not None:
        return match["truth"] == "true"
    return str(match["double"] if match["single"] is None else match["single"])


def _refusal(text: str, place: int, expected: str) -> ConfigError:
    rest = text[place:].strip()
    found = f"at {rest!r}" if rest else "at its end"
    return ConfigError(f"condition {text!r}: {found} expected {expected}; such as: {EXAMPLE}")
