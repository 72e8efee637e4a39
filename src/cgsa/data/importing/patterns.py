"""Patterns of file names, such as ``{class}_{speed}rpm``: what the name of a file says about its recording."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from cgsa.data.dataset_file import Split
from cgsa.data.units import is_unit, normalise_unit
from cgsa.errors import ConfigError

CLASS, UNIT, RUN, SPLIT = "class", "unit", "run", "split"
TEXTS = (CLASS, UNIT, RUN, SPLIT)
"""Placeholders for text; any other name is an operating condition, whose value is a number."""
NUMBER = r"[-+]?\d+(?:[.,]\d+)?"
WHOLE = r"(?<!\d)(?<!\d[.,])"
UNIT_LETTERS = r"\s?[A-Za-z%°µ²]*"


@dataclass(frozen=True)
class NameParts:
    """What a name says."""

    label: str | None
    conditions: Mapping[str, float]
    unit: str | None = None
    run: str | None = None
    split: Split | None = None


@dataclass(frozen=True)
class NamePattern:
    """A pattern of the last parts of a path.

    Placeholders stand in braces: ``{class}``, ``{unit}``, ``{run}``, ``{split}`` and, under any other name, conditions;
    ``*`` is any text within a part. Letters behind a condition are its unit.
    """

    text: str
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Of the placeholders."""
    expression: re.Pattern[str] = field(init=False, repr=False, compare=False)
    condition_units: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = re.findall(r"\{([^{}]*)\}", self.text)
        if "{" in re.sub(r"\{[^{}]*\}", "", self.text) or not all(re.fullmatch(r"\w+", name) for name in names):
            raise ConfigError(f"pattern {self.text!r}: expected placeholders such as {{class}}, with a word in each")
        if len(set(names)) != len(names):
            raise ConfigError(f"pattern {self.text!r}: a placeholder stands twice; expected each once")
        object.__setattr__(self, "names", tuple(names))
        units: dict[str, str] = {}
        parts = [part for part in re.split(r"(\{\w+\}|\*)", self.text.strip("/")) if part]
        expression = ""
        for before, part, following in zip(["", *parts[:-1]], parts, [*parts[1:], ""], strict=True):
            if part == "*":
                expression += r"[^/]*"
            elif not part.startswith("{"):
                expression += re.escape(part)
            elif part[1:-1] in TEXTS:
                expression += _text(part[1:-1])
            else:
                behind = re.match(r"[A-Za-z%°µ²]+", following)
                units[part[1:-1]] = normalise_unit(behind[0]) if behind and is_unit(behind[0]) else ""
                # What a wildcard leaves is a whole number.
                expression += WHOLE if before == "*" else ""
                expression += _number(len(units) - 1, with_letters=behind is None)
        object.__setattr__(self, "expression", re.compile(expression))
        object.__setattr__(self, "condition_units", units)

    @property
    def depth(self) -> int:
        """Number of parts of a path that it describes."""
        return self.text.strip("/").count("/") + 1

    def match(self, path: PurePosixPath) -> NameParts | None:
        """Return what a path says; None if it does not fit.

        >>> NamePattern("{class}_{speed}rpm").match(PurePosixPath("data/outer_ring_1200rpm.csv")).conditions
        {'speed': 1200.0}
        """
        groups = self._groups(path)
        if groups is None:
            return None
        numbers = {name: _value(groups[f"value_{place}"]) for place, name in enumerate(self.condition_units)}
        split = groups.get(SPLIT)
        known: Split | None = "train" if split == "train" else "test" if split == "test" else None
        return NameParts(groups.get("label"), numbers, groups.get(UNIT), groups.get(RUN), known)

    def unit_of(self, name: str, paths: Sequence[PurePosixPath]) -> str:
        """Return the unit of a condition: of the pattern, or the letters behind its number in the first name."""
        place = list(self.condition_units).index(name)
        found = (self._groups(path) for path in paths)
        letters = next((groups.get(f"letters_{place}") for groups in found if groups is not None), None)
        return self.condition_units[name] or (normalise_unit(letters) if letters and is_unit(letters) else "")

    def _groups(self, path: PurePosixPath) -> Mapping[str, str] | None:
        parts = path.parts[-self.depth :]
        whole = "/".join(parts)
        # With or without the suffix of the file.
        found = self.expression.fullmatch(whole.removesuffix(path.suffix)) or self.expression.fullmatch(whole)
        return None if found is None or len(parts) < self.depth else found.groupdict()


def _text(name: str) -> str:
    """Return the expression of a placeholder for text."""
    if name == SPLIT:
        return r"(?P<split>train|test)"
    return rf"(?P<{'label' if name == CLASS else name}>[^/]+?)"


def _number(place: int, *, with_letters: bool) -> str:
    """Return the expression of a condition; its name may be no identifier, so that its place stands for it."""
    return rf"(?P<value_{place}>{NUMBER})" + (rf"(?P<letters_{place}>{UNIT_LETTERS})" if with_letters else "")


def _value(text: str) -> float:
    return float(text.replace(",", "."))
