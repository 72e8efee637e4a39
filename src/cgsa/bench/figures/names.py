"""Names from plans and scenarios, formatted for figures."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 40


def readable_name(name: str) -> str:
    """Return a name such as ``gear_wear`` with spaces."""
    return name.replace("_", " ")


def readable_list(names: Sequence[str]) -> str:
    """Return names with spaces, separated by commas."""
    return readable_name(", ".join(names))


def shorten_name(name: str) -> str:
    """Return a name cut to :data:`LONGEST` characters."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
