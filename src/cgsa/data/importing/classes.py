"""Classes by patterns of paths, such as ``healthy=*_K0*,inner=*_KI*``, for names that code what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from cgsa.errors import ConfigError

WILDCARD = re.compile(r"(\*|\?|\[[^\]]+\]|<\d*-\d*>)")


@dataclass(frozen=True)
class PathGlob:
    """A pattern of a path, or of its last parts.

    ``*`` is any text, also across folders; ``?`` is one character, ``[ab]`` one of them, and ``<1-40>`` a number.

    >>> PathGlob("run<8->*").matches(PurePosixPath("day1/run12.csv"))
    True
    """

    text: str
    expression: re.Pattern[str] = field(init=False, repr=False, compare=False)
    limits: tuple[tuple[int, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = WILDCARD.split(self.text)
        ranges = [part[1:-1].partition("-") for part in parts if re.fullmatch(r"<\d*-\d*>", part)]
        limits = tuple((int(low or 0), float(high or "inf")) for low, _, high in ranges)
        object.__setattr__(self, "expression", re.compile("".join(map(_expression, parts))))
        object.__setattr__(self, "limits", limits)

    def matches(self, path: PurePosixPath) -> bool:
        """Return whether it fits the path, or its last parts, with or without the suffix of the file."""
        for first in range(len(path.parts)):
            whole = "/".join(path.parts[first:])
            for text in (whole, whole.removesuffix(path.suffix)):
                found = self.expression.fullmatch(text)
                if found and all(
                    low <= int(number) <= high for number, (low, high) in zip(found.groups(), self.limits, strict=True)
                ):
                    return True
        return False


@dataclass(frozen=True)
class ClassGlobs:
    """Patterns with the class that each of them stands for."""

    globs: tuple[tuple[str, PathGlob], ...]

    @classmethod
    def parse(cls, text: str) -> ClassGlobs:
        """Return the patterns in words of a command line; one without a class belongs to the class before it.

        >>> [name for name, _ in ClassGlobs.parse("healthy=97*,98*,inner=105*").globs]
        ['healthy', 'healthy', 'inner']
        """
        return cls(tuple(_entries(text)))

    def classes_of(self, path: PurePosixPath) -> list[str]:
        """Return the classes whose patterns fit a path, in their order."""
        return list(dict.fromkeys(name for name, glob in self.globs if glob.matches(path)))


def _entries(text: str) -> Iterator[tuple[str, PathGlob]]:
    name = ""
    for word in text.split(","):
        before, equals, behind = word.partition("=")
        name = before.strip() if equals else name
        glob = (behind if equals else word).strip()
        if not name or not glob:
            raise ConfigError(
                f"--classes {text!r}: {word.strip()!r}; expected class=pattern, such as 'healthy=*_K0*,inner=*_KI*'"
            )
        yield name, PathGlob(glob)


def _expression(part: str) -> str:
    """Return the expression of a wildcard or of the text between two of them."""
    if part == "*":
        return ".*"
    if part == "?":
        return "."
    if WILDCARD.fullmatch(part):
        return r"(?<!\d)(\d+)(?!\d)" if part.startswith("<") else f"[{_escaped(part[1:-1])}]"
    return re.escape(part)


def _escaped(characters: str) -> str:
    """Return the characters of a set, where ``!`` means any other one."""
    own = characters.removeprefix("!").replace("\\", r"\\")
    return f"^{own}" if characters.startswith("!") else own
