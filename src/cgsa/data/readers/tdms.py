"""Reader for TDMS, LabVIEW's format, with the library npTDMS."""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cgsa.data.columns import single_precision
from cgsa.data.readers import Reader
from cgsa.data.readers.clock import Clock
from cgsa.data.readers.damage import CURE, parsing, require_extra, truncated
from cgsa.data.readers.groups import SignalGroup, choose_group
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import BLOCK_SAMPLES, SignalFile
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError

LEAD_IN = 28
INTERRUPTED = 0xFFFF_FFFF_FFFF_FFFF
MAX_SEGMENTS = 1_000_000


def open_tdms(path: Path, array: str | None) -> SignalFile:
    """Return what a TDMS file holds; ``array`` names one of its groups."""
    nptdms = require_extra(path, "nptdms", "npTDMS")
    with parsing(path, "TDMS"):
        _check_segments(path)
        with _without_warnings(path), nptdms.TdmsFile.open(path) as file:
            groups = [_group(path, group) for group in file.groups()]
    group, several = choose_group(path, [group for group in groups if group.channels or group.problem], array)
    notes = [f"group {group.name!r}", *group.notes]

    def blocks(samples: int) -> Iterator[FloatArray]:
        with parsing(path, "TDMS"), nptdms.TdmsFile.open(path) as opened:
            channels = [opened[group.name][name] for name in group.keys]
            for start in range(0, group.samples, samples):
                stop = min(start + samples, group.samples)
                yield np.stack([single_precision(np.asarray(channel[start:stop])) for channel in channels])

    return group.signal_file(path, "tdms", blocks, several=several, notes=notes)


class _Warnings(logging.Handler):
    """Keeps what the library logs in this thread."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        if record.thread == self._thread:
            self.texts.append(record.getMessage())


@contextmanager
def _without_warnings(path: Path) -> Iterator[None]:
    """Refuse a file about which the library only warns: it would read the rest of a damaged segment."""
    log, handler = logging.getLogger("nptdms"), _Warnings()
    # The library prints its warnings as well, which would be said twice.
    require_extra(path, "nptdms.log", "npTDMS").log_manager.console_handler.setLevel(logging.CRITICAL)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
    if handler.texts:
        raise DataError(f"{path}: {handler.texts[0][:200]}; {CURE}")


def _check_segments(path: Path) -> None:
    """Check that every segment lies within the file, before memory is allocated for it."""
    size = path.stat().st_size
    place = 0
    with path.open("rb") as file:
        while place < size:
            head = file.read(LEAD_IN)
            if len(head) < LEAD_IN:
                raise truncated(path, "a segment", place, place + LEAD_IN, size)
            if head[:4] != b"TDSm":
                raise DataError(f"{path}: no segment begins at byte {place}; {CURE}")
            order = ">" if head[4] & 0x40 else "<"
            following, raw = struct.unpack(f"{order}QQ", head[12:28])
            if following == INTERRUPTED:
                raise DataError(
                    f"{path}: the segment at byte {place} was never completed: the recording was interrupted"
                )
            end = place + LEAD_IN + following
            if end > size:
                raise truncated(path, "a segment", place, end, size)
            if raw > following:
                raise DataError(f"{path}: the segment at byte {place} states data beyond its end; {CURE}")
            place = end
            file.seek(place)


def _group(path: Path, group: Any) -> SignalGroup:
    """Return what a group holds; its longest channels of numbers are the signals."""
    size = path.stat().st_size
    numbers = [one for one in group.channels() if one.dtype.kind in "iuf" and len(one) > 1]
    for channel in numbers:
        if len(channel) > size:
            raise DataError(f"{path}: channel {channel.name!r} states {len(channel)} samples in {size} bytes; {CURE}")
    lengths = {len(channel) for channel in numbers}
    if len(lengths) > 1:
        listing = ", ".join(f"{channel.name} ({len(channel)})" for channel in numbers)
        return SignalGroup(group.name, (), (), (), None, 0, problem=f"channels of different lengths: {listing}")
    stamps = [channel for channel in group.channels() if channel.dtype.kind == "M" and len(channel) in lengths]
    notes: list[str] = []
    steps = {round(_step(channel.properties), 15) for channel in numbers} - {0.0}
    if len(steps) > 1:
        return SignalGroup(group.name, (), (), (), None, 0, problem="channels of different sample rates")
    rate = float(f"{1 / steps.pop():.9g}") if steps else None
    clock = next((one for one in numbers if one.name.strip().lower() in {"time", "t", "zeit"}), None)
    if clock is not None and rate is None and len(numbers) > 1:
        rate, notes = _clock_rate(clock)
    used = [channel for channel in numbers if channel is not clock or len(numbers) == 1]
    notes += [f"channel {channel.name!r} holds time stamps and is not used" for channel in stamps]
    return SignalGroup(
        name=group.name,
        keys=tuple(channel.name for channel in used),
        channels=tuple(channel.name for channel in used),
        units=tuple(_unit(channel.properties) for channel in used),
        sample_rate=rate,
        samples=lengths.pop() if lengths else 0,
        notes=tuple(notes),
    )


def _step(properties: Mapping[str, Any]) -> float:
    """Return the sample interval that a channel states, in s; 0 if it states none."""
    try:
        step = float(properties.get("wf_increment", 0.0))
    except (TypeError, ValueError):
        return 0.0
    return step if 0 < step < float("inf") else 0.0


def _unit(properties: Mapping[str, Any]) -> str | None:
    text = next((properties[key] for key in ("unit_string", "NI_UnitDescription", "unit") if properties.get(key)), None)
    return normalise_unit(text) if isinstance(text, str) else None


def _clock_rate(channel: Any) -> tuple[float | None, list[str]]:
    clock = Clock(channel.name, _unit(channel.properties))
    for start in range(0, len(channel), BLOCK_SAMPLES):
        clock.add(np.asarray(channel[start : start + BLOCK_SAMPLES]))
    return clock.rate()


READER = Reader(suffixes=(".tdms",), accepts=lambda head: head.startswith(b"TDSm"), open=open_tdms)
