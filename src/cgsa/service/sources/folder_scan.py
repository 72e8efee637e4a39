"""Finding complete recordings in a folder that loggers write to.

A folder is listed only when its modification time has changed, and a file is examined only until it is known: the cost
of a folder at rest does not depend on how many files it holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from cgsa.errors import DataError
from cgsa.service.links.link import Clock
from cgsa.service.sources.file_pattern import FilePattern

Complete: TypeAlias = Literal["settled", "renamed", "marker"]
MARKER = ".done"
PROCESSED, REFUSED = "processed", "refused"
"""Subfolders for files that are done with."""
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", MARKER)
"""Suffixes of files that are no complete recordings; neither are hidden files."""
CLOCK_STEP = 2_000_000_000
"""Nanoseconds; some file systems keep modification times no finer, so a younger folder is listed again."""


@dataclass(frozen=True)
class FoundFile:
    """A complete file."""

    path: str
    """Relative to the folder, with slashes."""
    size: int
    modified: int
    """Nanoseconds since 1970."""


@dataclass
class _Listing:
    """The folder as it was listed last."""

    modified: int = -1
    settled: bool = False
    """Whether it had not been changed for a while then, so that an equal time means that it is unchanged."""
    folders: tuple[str, ...] = ()


class FolderScan:
    """Follows the files of one folder.

    ``is_known`` returns whether a path needs no further attention, ``stopwatch`` counts seconds.
    """

    def __init__(
        self,
        root: Path,
        pattern: FilePattern,
        *,
        complete: Complete,
        settle_seconds: float,
        is_known: Callable[[str], bool],
        clock: Clock,
        stopwatch: Clock,
    ) -> None:
        self._root, self._pattern, self._complete = root, pattern, complete
        self._settle_seconds, self._is_known = settle_seconds, is_known
        self._clock, self._stopwatch = clock, stopwatch
        self._listings: dict[str, _Listing] = {}
        self._waiting: dict[str, tuple[int, int, float] | None] = {}
        """Size, modification time and since when both are the same, of files that may be incomplete."""
        self.listed = 0
        """Number of listings so far."""

    def scan(self) -> list[FoundFile]:
        """Return the files that have been completed since the last call."""
        try:
            self._walk("", 0)
        except OSError as error:
            raise DataError(f"{self._root}: the folder cannot be read ({error.strerror or error})") from error
        return [found for path in tuple(self._waiting) for found in self._completed(path)]

    def _walk(self, folder: str, level: int) -> None:
        listing = self._listings.setdefault(folder, _Listing())
        modified = (self._root / folder).stat().st_mtime_ns
        if not listing.settled or modified != listing.modified:
            listing.settled = self._clock() * 1e9 - modified > CLOCK_STEP
            listing.modified = modified
            listing.folders = tuple(self._list(folder, level))
        for inner in listing.folders:
            with suppress(FileNotFoundError):
                self._walk(inner, level + 1)

    def _list(self, folder: str, level: int) -> Iterator[str]:
        """Remember the new files of a folder; yield the subfolders to follow."""
        self.listed += 1
        matches, is_last = self._pattern.levels[level].fullmatch, level == len(self._pattern.levels) - 1
        with os.scandir(self._root / folder) as entries:
            for entry in entries:
                name = entry.name
                path = f"{folder}/{name}" if folder else name
                if not matches(name) or name.startswith(".") or (not folder and name in {PROCESSED, REFUSED}):
                    continue
                if not is_last:
                    if entry.is_dir(follow_symlinks=False):
                        yield path
                elif path in self._waiting or name.lower().endswith(UNFINISHED) or self._is_known(path):
                    continue
                elif entry.is_file(follow_symlinks=False):
                    # Neither links, which may lead anywhere, nor pipes, which may never end.
                    self._waiting[path] = None

    def _completed(self, path: str) -> Iterator[FoundFile]:
        try:
            about = (self._root / path).stat(follow_symlinks=False)
        except FileNotFoundError:
            del self._waiting[path]
            return
        except OSError:
            return
        before, now = self._waiting[path], self._stopwatch()
        if before is None or before[:2] != (about.st_size, about.st_mtime_ns):
            before = self._waiting[path] = about.st_size, about.st_mtime_ns, now
        match self._complete:
            case "settled":
                complete = now - before[2] >= self._settle_seconds
            case "marker":
                complete = (self._root / f"{path}{MARKER}").exists()
            case _:
                complete = True
        if complete:
            del self._waiting[path]
            yield FoundFile(path, about.st_size, about.st_mtime_ns)
