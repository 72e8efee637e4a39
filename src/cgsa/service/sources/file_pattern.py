"""Patterns of file names that say which machine a recording belongs to and when it began."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from cgsa.errors import ConfigError
from cgsa.live.intake.block import MAX_NAME

UNIX = "unix"
"""Format of a time in seconds since 1970."""
_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "j": 3}
_PART = re.compile(r"\{(?P<name>machine|time)(?::(?P<format>[^{}]*))?\}|(?P<any>\*)|(?P<one>\?)")


@dataclass(frozen=True)
class FilePattern:
    """A path below a folder, such as ``{machine}/*_{time:%Y%m%d-%H%M%S}.csv``.

    ``{machine}`` matches the name of a machine, ``{time:FORMAT}`` a time in the notation of ``strptime`` (or ``unix``),
    ``*`` any characters and ``?`` one; none of them matches a slash.
    """

    text: str
    levels: tuple[re.Pattern[str], ...] = field(init=False, compare=False)
    """One per level of folders, and the last for the names of files."""
    time_format: str | None = field(init=False, compare=False)
    names_machine: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        found = [match for match in _PART.finditer(self.text) if match["name"]]
        names = [match["name"] for match in found]
        formats = [match["format"] for match in found if match["name"] == "time"]
        rest = _PART.sub("", self.text)
        parts = self.text.split("/")
        if len(set(names)) < len(names) or {"{", "}"} & set(rest) or not all(parts) or {".", ".."} & set(parts):
            raise ConfigError(
                f"files {self.text!r}; expected a path below the folder such as '{{machine}}/*_{{time:%Y%m%d}}.csv', "
                "with {machine} and {time:FORMAT} at most once"
            )
        object.__setattr__(self, "time_format", formats[0] or "" if formats else None)
        object.__setattr__(self, "names_machine", "machine" in names)
        object.__setattr__(self, "levels", tuple(map(self._compiled, parts)))

    def machine_and_time(self, path: str, zone: tzinfo) -> tuple[str | None, float | None]:
        """Return the machine and the time that a path names; times without a zone are in ``zone``."""
        groups: dict[str, str] = {}
        for level, part in zip(self.levels, path.split("/"), strict=True):
            match = level.fullmatch(part)
            groups |= {} if match is None else match.groupdict()
        time = groups.get("time")
        if time is None or self.time_format is None:
            return groups.get("machine"), None
        if self.time_format == UNIX:
            return groups.get("machine"), float(time)
        try:
            found = datetime.strptime(time, self.time_format)
            return groups.get("machine"), (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
        except (ValueError, OverflowError):
            # Such as a month 13: the name is no time, and the file is refused.
            return groups.get("machine"), None

    def _compiled(self, part: str) -> re.Pattern[str]:
        expression, end = "", 0
        for match in _PART.finditer(part):
            expression += re.escape(part[end : match.start()])
            end = match.end()
            if match["any"]:
                expression += "[^/]*"
            elif match["one"]:
                expression += "[^/]"
            elif match["name"] == "machine":
                expression += f"(?P<machine>[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}?)"
            else:
                expression += f"(?P<time>{self._time_expression()})"
        return re.compile(expression + re.escape(part[end:]))

    def _time_expression(self) -> str:
        if self.time_format == UNIX:
            return r"\d{9,11}(?:\.\d+)?"
        expression, place, text = "", 0, self.time_format or ""
        while place < len(text):
            code = text[place + 1 : place + 2] if text[place] == "%" else None
            if code is None:
                expression += re.escape(text[place])
            elif code in _DIGITS:
                expression += rf"\d{{{_DIGITS[code]}}}"
            elif code in {"f", "z"}:
                expression += r"\d{1,6}" if code == "f" else r"(?:Z|[+-]\d\d:?\d\d)"
            else:
                raise ConfigError(
                    f"files {self.text!r}: %{code}; expected %{', %'.join([*_DIGITS, 'f', 'z'])}, or unix"
                )
            place += 1 if code is None else 2
        if not expression:
            raise ConfigError(
                f"files {self.text!r}: a time without a format; expected one such as {{time:%Y%m%d-%H%M%S}}"
            )
        return expression
