"""Names that tell their file: the same channel may have the number or name of its file in its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

SEPARATORS = " _-."
NUMBERED = re.compile(r"([A-Za-z]{0,3}\d+)[ _.\-]*([A-Za-z].*)")
"""Letters with a number, and what follows: X097_DE_time and X097RPM."""
SHORTEST_STEM = 3
WHOLE = "signal"
"""Stands for a name that is that of its file."""


def shared_names(names: Collection[str], stem: str) -> dict[str, str]:
    """Return the names without what tells their file, by the names that have it; ``stem`` is the name of the file.

    That is the name of the file at the beginning or end of a name, or else letters with a number with which names
    begin: the same in all of them, or with the number of the file.

    >>> shared_names(["X097_DE_time", "X097RPM"], "normal_0"), shared_names(["x_run7", "y_run7"], "run7")
    ({'X097_DE_time': 'DE_time', 'X097RPM': 'RPM'}, {'x_run7': 'x', 'y_run7': 'y'})
    """
    found = {name: rest for name in names if (rest := _without_stem(name, stem)) is not None}
    if not found:
        parts = {name: match for name in names if (match := NUMBERED.fullmatch(name)) is not None}
        tokens = {match[1] for match in parts.values()}
        if len(tokens) > 1:
            numbers = {int(number) for number in re.findall(r"\d+", stem)}
            tokens = {token for token in tokens if int(re.sub(r"\D", "", token)) in numbers}
        found = {name: match[2] for name, match in parts.items() if tokens == {match[1]}}
    others = [name for name in names if name not in found]
    # Two names must not become one.
    return found if len({*found.values(), *others}) == len(found) + len(others) else {}


def file_token(name: str, shared: str) -> str:
    """Return what tells the file in a name.

    >>> file_token("X097_DE_time", "DE_time")
    'X097'
    """
    return name if shared == WHOLE else name.replace(shared, "", 1).strip(SEPARATORS)


def find_name(wanted: str, names: Collection[str], stem: str) -> str | None:
    """Return the name that is meant: itself, or the only one that is the same without what tells its file."""
    if wanted in names:
        return wanted
    return next((name for name, shared in shared_names(names, stem).items() if shared == wanted), None)


def without_token(names: Iterable[str]) -> str:
    """Return a note that channels have other names than in their files."""
    return f"channels are named without the name or number of the file: {', '.join(names)}"


def _without_stem(name: str, stem: str) -> str | None:
    """Return a name without that of its file at its beginning or end; None if it is not there."""
    # The names of variables have underscores where those of files have hyphens, blanks or dots.
    own = r"[\W_]+".join(re.escape(part) for part in re.split(r"[\W_]+", stem) if part)
    if re.fullmatch(own, name):
        return WHOLE
    # A shorter name of a file says nothing at the beginning or end of another one.
    if len(stem) < SHORTEST_STEM:
        return None
    found = re.fullmatch(rf"{own}[ _.\-]+(.+)", name) or re.fullmatch(rf"(.+?)[ _.\-]+{own}", name)
    return found[1] if found else None
