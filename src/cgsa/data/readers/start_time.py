"""When a recording began, if its file says so: CSV with time stamps or seconds since 1970, TDMS and MDF4."""

from __future__ import annotations

import codecs
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from cgsa.data.readers import open_signal
from cgsa.data.readers.clock import TIME_UNITS
from cgsa.data.readers.csv_header import split_cells
from cgsa.data.readers.csv_layout import SAMPLE_BYTES, sniff_layout
from cgsa.data.readers.damage import require_extra

EARLIEST = 9.4e8
"""Seconds since 1970; a smaller number in a time column is no date (this one is in 1999)."""
_MDF_START = struct.Struct("<QhhB")
"""Nanoseconds since 1970, offsets of zone and summer time in minutes, and flags."""
_MDF_PLACE, _MDF_LOCAL = 64 + 24 + 6 * 8, 1


def recording_start(path: Path, zone: tzinfo) -> float | None:
    """Return the time of the first sample in seconds since 1970; None if the file does not say.

    Times without a zone are in ``zone``. A damaged file raises a :class:`~cgsa.errors.DataError`.
    """
    find = _FORMATS.get(open_signal(path).format)
    return None if find is None else find(path, zone)


def _csv_start(path: Path, zone: tzinfo) -> float | None:
    layout = sniff_layout(path)
    place = layout.time_column
    stamps = [column for column, kind in enumerate(layout.kinds) if kind == "timestamp"]
    place = stamps[0] if stamps else place
    if place is None:
        return None
    with path.open("rb") as file:
        text = codecs.getincrementaldecoder(layout.encoding)(errors="replace").decode(file.read(SAMPLE_BYTES))
    rows = [line for line in text.split("\n")[layout.skipped :] if line.strip()]
    cell = split_cells(rows[0].rstrip("\r"), layout.delimiter)[place].strip() if rows else ""
    if layout.kinds[place] == "timestamp":
        return _time_of(cell, zone)
    try:
        seconds = float(cell.replace(layout.decimal, ".")) * TIME_UNITS.get(layout.units[place] or "s", 1.0)
    except ValueError:
        return None
    return seconds if seconds >= EARLIEST else None


def _time_of(stamp: str, zone: tzinfo) -> float | None:
    """Return the seconds since 1970 of a time stamp; None if it has no date."""
    if not re.match(r"\d{4}-", stamp):
        return None
    # Only microseconds are read; more digits are beyond any clock.
    short = re.sub(r"([.,]\d{6})\d+", r"\1", stamp).replace(",", ".")
    found = datetime.fromisoformat(short)
    return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).timestamp()


def _tdms_start(path: Path, _: tzinfo) -> float | None:
    nptdms = require_extra(path, "nptdms", "npTDMS")
    for group in nptdms.TdmsFile.read_metadata(path).groups():
        for channel in group.channels():
            start = channel.properties.get("wf_start_time")
            if start is not None:
                # A time of LabVIEW, which is in UTC and begins in 1904: unset ones are that.
                seconds = float(start.astype("datetime64[us]").astype("int64")) * 1e-6
                return seconds if seconds >= EARLIEST else None
    return None


def _mdf4_start(path: Path, zone: tzinfo) -> float | None:
    with path.open("rb") as file:
        file.seek(_MDF_PLACE)
        nanoseconds, _, _, flags = _MDF_START.unpack(file.read(_MDF_START.size))
    seconds = nanoseconds * 1e-9
    if flags & _MDF_LOCAL:
        seconds = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone).timestamp()
    return seconds if seconds >= EARLIEST else None


_FORMATS: dict[str, Callable[[Path, tzinfo], float | None]] = {
    "csv": _csv_start,
    "tdms": _tdms_start,
    "mdf4": _mdf4_start,
}
