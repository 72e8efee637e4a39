"""Text that clients sent, safe to show in a log or an audit."""

from __future__ import annotations

from collections.abc import Mapping


def escape_controls(text: str) -> str:
    r"""Return text whose control characters, line separators and direction marks are written out.

    Otherwise a client could end a line of a log and begin another one, or colour a terminal.

    >>> escape_controls("pump\n2026 INFO all is well")
    'pump\\n2026 INFO all is well'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in text)


def escape_values(value: object) -> object:
    """Return a value as JSON has it, with all text in it escaped."""
    match value:
        case str():
            return escape_controls(value)
        case Mapping():
            return {escape_controls(str(key)): escape_values(one) for key, one in value.items()}
        case list() | tuple():
            return [escape_values(one) for one in value]
        case _:
            return value
