"""Names from plans and scenarios as figures write them."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 40


def words(name: str) -> str:
    """Return a name such as ``gear_wear`` as words."""
    return name.replace("_", " ")


def listed(names: Sequence[str]) -> str:
    """Return names as words, one after the other."""
    return words(", ".join(names))


def cut(name: str) -> str:
    """Return a name that leaves room for the figure."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
