"""Suggesting a pattern from the names of files: where the class stands, and where numbers with units do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from cgsa.data.dataset_selection import natural_order
from cgsa.data.importing.patterns import NUMBER, RUN, UNIT
from cgsa.data.importing.plan import find_healthy
from cgsa.data.units import is_unit, normalise_unit

QUANTITIES = {
    "rpm": "speed",
    "Hz": "frequency",
    "Nm": "torque",
    "N": "force",
    "kN": "force",
    "lb": "load",
    "kg": "load",
    "%": "load",
    "percent": "load",
    "bar": "pressure",
    "kW": "power",
    "W": "power",
    "A": "current",
    "V": "voltage",
    "degC": "temperature",
}
"""Names for conditions of which only the unit is known."""
RUN_WORDS = ("run", "rep", "repeat", "repetition", "trial", "session", "take", "measurement")
UNIT_WORDS = ("unit", "bearing", "specimen", "machine", "motor", "pump", "gearbox", "sn", "serial")
SEPARATORS = r"[_\-\s/;()]+"
WORD, SEPARATOR, NUMERIC = "word", "separator", "number"
CONDITION = "condition"
"""Placeholder for a number of which only is known that it recurs."""
MAX_LEVELS = 12
"""More different numbers than these are no levels of an operating condition."""
MAX_SHOWN = 6
UNITS_PER_CLASS = 2
"""Names with fewer numbers behind the same letters are names of classes themselves."""
BLANK = "\0"
"""Stands for a blank that is no separator."""

_Token: TypeAlias = tuple[tuple[str, ...], str]
"""What a part of a name has in common with the parts at the same place of other names, and its text; words are alike,
and so are numbers with the same letters around them."""


@dataclass(frozen=True)
class Suggestion:
    """A pattern that fits all names, and what it takes for granted."""

    pattern: str
    notes: tuple[str, ...] = ()
    classes: str | None = None
    """Patterns of paths with their classes, if the names code the class in the name of the unit."""

    @property
    def option(self) -> str:
        """The options of the command line."""
        return f"--names '{self.pattern}'" + (f" --classes '{self.classes}'" if self.classes else "")


def suggest_pattern(paths: Sequence[PurePosixPath]) -> Suggestion | None:
    """Return a pattern that fits all paths, relative to one folder; None if none is found.

    >>> paths = [PurePosixPath(f"{name}_{speed}rpm.csv") for name in ("ok", "worn_gear") for speed in (1, 2)]
    >>> suggest_pattern(paths).pattern
    '{class}_{speed}rpm'
    """
    names = ["/".join(path.parts).removesuffix(path.suffix) for path in paths]
    depth = min((name.count("/") for name in names), default=0)
    levels = [["/".join(name.split("/")[-1 - level :]) for name in names] for level in range(depth + 1)]
    # Names of files alone if one of them says that it is healthy; then with the folders above them.
    for needs_healthy in (True, False):
        for level in levels:
            found = _pattern(level, needs_healthy=needs_healthy)
            if found is not None:
                return found
    return None


def _pattern(names: Sequence[str], *, needs_healthy: bool) -> Suggestion | None:
    rows = _aligned([_merged(_tokens(name)) for name in names])
    if not rows or not rows[0]:
        return None
    columns = [[text for _, text in column] for column in zip(*rows, strict=True)]
    kinds = [kind for kind, _ in rows[0]]
    places = [place for place, kind in enumerate(kinds) if kind == (WORD,) and len(set(columns[place])) > 1]
    healthy = [place for place in places if find_healthy(sorted(set(columns[place]))) is not None]
    # Where all recordings are healthy, the word for it is the same in all names.
    only = [place for place, kind in enumerate(kinds) if kind == (WORD,) and find_healthy(columns[place][:1])]
    chosen = healthy or places or only
    if len(chosen) != 1 or (needs_healthy and chosen not in (healthy, only)):
        return None
    [label] = chosen
    used: set[str] = set()
    notes: list[str] = []
    parts = []
    for place, kind in enumerate(kinds):
        if place == label:
            parts.append(_class_part(columns[place]))
        elif kind[0] == NUMERIC and recur(columns[place], columns[label]) and not _named(kind):
            name = _free(CONDITION, used)
            parts.append(f"{kind[1]}{{{name}}}{kind[2]}")
            values = ", ".join(sorted(set(columns[place]), key=natural_order)[:MAX_SHOWN])
            notes.append(
                f"{{{name}}} is {values}, which recur in several classes: likely an operating condition; give it its "
                f"name, such as {{speed}} or {{load}}, or {{{RUN}}} if it numbers repetitions"
            )
        else:
            parts.append(_part(kind, columns[place], used))
    return _with_coded_classes(Suggestion("".join(parts), tuple(notes)), columns[label])


def recur(values: Sequence[str], labels: Sequence[str]) -> bool:
    """Return whether numbers are few and each stands in the names of several classes, as operating conditions do.

    Numbers that count from 1 are taken for repetitions.

    >>> recur(["1000", "1500"] * 2, ["ok", "ok", "bad", "bad"]), recur(["1", "2"] * 2, ["ok", "ok", "bad", "bad"])
    (True, False)
    """
    classes: dict[str, set[str]] = {}
    for value, label in zip(values, labels, strict=True):
        classes.setdefault(value, set()).add(label)
    counted = sorted(classes, key=natural_order) == [str(number) for number in range(1, len(classes) + 1)]
    return 1 < len(classes) <= MAX_LEVELS and not counted and all(len(found) > 1 for found in classes.values())


def _named(kind: tuple[str, ...]) -> bool:
    """Return whether letters around a number say what it is."""
    return bool(kind[1] or kind[2])


def _with_coded_classes(found: Suggestion, labels: Sequence[str]) -> Suggestion:
    """Suggest the letters as the class if the names of classes are letters with a number, as those of units are."""
    coded = [re.fullmatch(r"([A-Za-z]+)(\d+)", label) for label in labels]
    letters = sorted({one[1] for one in coded if one is not None})
    units = {one[0] for one in coded if one is not None}
    if None in coded or len(letters) == 1 or len(units) < UNITS_PER_CLASS * len(letters):
        return found
    note = f"{{{UNIT}}} is {', '.join(sorted(units, key=natural_order)[:MAX_SHOWN])}: likely units of {len(letters)} "
    classes = ",".join(f"{one}=*{one}[0-9]*" for one in letters)
    return Suggestion(
        found.pattern.replace("{class}", f"{{{UNIT}}}"),
        (*found.notes, f"{note}classes; give them their names, such as healthy, and say which with --healthy"),
        classes,
    )


def _tokens(name: str) -> list[_Token]:
    """Return the parts of a name, separators included."""
    found: list[_Token] = []
    # A unit may stand behind a blank.
    joined = re.sub(rf"(?<![A-Za-z])({NUMBER}) ([A-Za-z%]+)", lambda one: _with_unit(one[1], one[2]), name)
    for part in re.split(f"({SEPARATORS})", joined):
        if re.fullmatch(SEPARATORS, part):
            found.append(((SEPARATOR, part), part))
        elif part:
            text = part.replace(BLANK, " ")
            number = re.fullmatch(rf"([A-Za-z]*?)({NUMBER})([ A-Za-z%°µ]*)", text)
            found.append(((WORD,) if number is None else (NUMERIC, number[1], number[3]), text))
    return found


def _with_unit(number: str, letters: str) -> str:
    return f"{number}{BLANK}{letters}" if is_unit(letters) else f"{number} {letters}"


def _merged(tokens: Sequence[_Token]) -> list[_Token]:
    """Return the same with neighbouring words as one, since the name of a class may have several."""
    found: list[_Token] = []
    for kind, text in tokens:
        joins = len(found) > 1 and found[-2][0] == (WORD,) and found[-1][0][0] == SEPARATOR and "/" not in found[-1][1]
        if kind == (WORD,) and joins:
            [(_, first), (_, between)] = found[-2:]
            found[-2:] = [(kind, first + between + text)]
        else:
            found.append((kind, text))
    return found


def _aligned(rows: Sequence[list[_Token]]) -> list[list[_Token]]:
    """Return the rows with as many equal kinds at both ends as they share, and all between them as one word."""
    shortest = min((len(row) for row in rows), default=0)
    if rows and all([kind for kind, _ in row] == [kind for kind, _ in rows[0]] for row in rows):
        return [list(row) for row in rows]
    tail = 0
    while tail < shortest - 1 and len({row[-1 - tail][0] for row in rows}) == 1:
        tail += 1
    # The name of the class ends at a separator, and it is not spread over folders.
    while tail and rows[0][-tail][0][0] != SEPARATOR:
        tail -= 1
    head = 0
    # A word that differs may be a part of the name of the class.
    while (
        head < shortest - tail - 1
        and len({row[head] if row[head][0] == (WORD,) else row[head][0] for row in rows}) == 1
    ):
        head += 1
    while head and rows[0][head - 1][0][0] != SEPARATOR:
        head -= 1
    between = ["".join(text for _, text in row[head : len(row) - tail]) for row in rows]
    if any("/" in text for text in between):
        return []
    return [[*row[:head], ((WORD,), text), *row[len(row) - tail :]] for text, row in zip(between, rows, strict=True)]


def _class_part(texts: Sequence[str]) -> str:
    """Return the placeholder between what all names of classes have in common, up to a separator."""
    if len(set(texts)) == 1:
        return "{class}"
    before = re.match(rf"(.*{SEPARATORS})?", _common_begin(texts))
    begin = before[0] if before else ""
    rest = [text.removeprefix(begin)[::-1] for text in texts]
    behind = re.match(rf"(.*{SEPARATORS})?", _common_begin(rest))
    return f"{begin}{{class}}{(behind[0] if behind else '')[::-1]}"


def _common_begin(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    same = (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(same, min(len(first), len(last)))]


def _part(kind: tuple[str, ...], texts: Sequence[str], used: set[str]) -> str:
    """Return what stands for a part in the pattern."""
    if kind == (WORD,) and len(set(texts)) > 1:
        return "*"
    if kind[0] in {WORD, SEPARATOR}:
        return texts[0]
    _, prefix, suffix = kind
    if len(set(texts)) == 1 and not is_unit(suffix.strip()):
        return texts[0]
    word = prefix.lower()
    if not suffix and (word in RUN_WORDS or word in UNIT_WORDS):
        name = _free(RUN if word in RUN_WORDS else UNIT, used)
        return f"{prefix}{{{name}}}"
    if not _named(kind):
        # A second number without letters says nothing that could be named.
        return "*" if RUN in used else f"{{{_free(RUN, used)}}}"
    known = QUANTITIES.get(normalise_unit(suffix.strip()) if is_unit(suffix.strip()) else suffix.strip())
    name = _free(word or known or suffix.strip(), used)
    return f"{prefix}{{{name}}}{suffix}"


def _free(name: str, used: set[str]) -> str:
    """Return the name, with a number if the pattern has it already."""
    number, free = 1, re.sub(r"\W", "_", name)
    while free in used:
        number += 1
        free = f"{name}_{number}"
    used.add(free)
    return free
