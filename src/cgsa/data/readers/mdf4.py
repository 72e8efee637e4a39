"""Reader for MDF4 (ASAM MDF 4.x) with sorted records, as measurement systems write it when they finish a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cgsa.data.columns import single_precision
from cgsa.data.readers import Reader
from cgsa.data.readers.clock import TIME_UNITS, Clock
from cgsa.data.readers.damage import CURE, parsing
from cgsa.data.readers.groups import SignalGroup, choose_group
from cgsa.data.readers.mdf4_blocks import BlockFile, MdfBlock
from cgsa.data.recording import FloatArray
from cgsa.data.signal_file import SignalFile
from cgsa.data.units import normalise_unit
from cgsa.errors import DataError

FIXED, MASTER, VIRTUAL_MASTER = 0, 2, 3
"""Types of channels that are read."""
TIME = 1
"""The kind of a master channel that is a clock."""
MAX_BLOCK_BYTES = 1 << 22
IDENTITY = (0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
DoubleArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Channel:
    """Where the numbers of a channel are in a record, and how they become physical."""

    name: str
    unit: str | None
    is_master: bool
    first_byte: int
    bit_offset: int
    bits: int
    kind: str
    """u, i or f, as NumPy calls unsigned, signed and floating-point numbers; v for the number of the record."""
    order: str
    invalid_bit: int | None
    rational: tuple[float, ...]
    """The six coefficients of (p1 x^2 + p2 x + p3) / (p4 x^2 + p5 x + p6)."""

    @property
    def width(self) -> int:
        """Bytes that hold the number."""
        return (self.bit_offset + self.bits + 7) // 8

    def values(self, records: npt.NDArray[np.uint8], data_bytes: int, first: int) -> DoubleArray:
        """Return the physical values in records, (records, bytes); invalid ones are NaN."""
        raw = np.arange(first, first + len(records), dtype=np.float64) if self.kind == "v" else self._raw(records)
        p1, p2, p3, p4, p5, p6 = self.rational
        if self.rational != IDENTITY:
            with np.errstate(all="ignore"):
                above = (p1 * raw + p2) * raw + p3 if p1 else p2 * raw + p3
                raw = above / ((p4 * raw + p5) * raw + p6) if p4 or p5 or p6 != 1 else above
        if self.invalid_bit is not None:
            flags = records[:, data_bytes + self.invalid_bit // 8] >> (self.invalid_bit % 8) & 1
            raw = np.where(flags == 1, np.nan, raw)
        return raw

    def _raw(self, records: npt.NDArray[np.uint8]) -> DoubleArray:
        cells = records[:, self.first_byte : self.first_byte + self.width]
        cells = cells[:, ::-1] if self.order == ">" else cells
        if self.kind == "f":
            with np.errstate(invalid="ignore"):
                return np.ascontiguousarray(cells).view(f"<f{self.width}")[:, 0].astype(np.float64)
        wide = np.zeros((len(cells), 8), np.uint8)
        wide[:, : cells.shape[1]] = cells
        whole = wide.view("<u8")[:, 0] >> np.uint64(self.bit_offset)
        rest = np.uint64(64 - self.bits)
        if self.kind == "i":
            # Shifted to the sign bit and back.
            return ((whole << rest).view(np.int64) >> np.int64(64 - self.bits)).astype(np.float64)
        return ((whole << rest) >> rest).astype(np.float64)


@dataclass(frozen=True)
class _Group:
    """A channel group whose data group holds nothing else."""

    signal: SignalGroup
    channels: tuple[_Channel, ...]
    data: int
    data_bytes: int
    record_bytes: int


def open_mdf4(path: Path, array: str | None) -> SignalFile:
    """Return what an MDF4 file holds; ``array`` names one of its channel groups."""
    with parsing(path, "MDF4"), path.open("rb") as file:
        groups = _groups(BlockFile(path, file))
    signal, several = choose_group(path, [group.signal for group in groups], array)
    chosen = next(group for group in groups if group.signal is signal)
    with parsing(path, "MDF4"), path.open("rb") as file:
        rate, notes = _rate(BlockFile(path, file), chosen)

    def blocks(samples: int) -> Iterator[FloatArray]:
        with parsing(path, "MDF4"), path.open("rb") as opened:
            used = [channel for channel in chosen.channels if not channel.is_master]
            for values in _values(BlockFile(path, opened), chosen, used, samples):
                yield single_precision(values)

    known = replace(signal, sample_rate=rate)
    return known.signal_file(path, "mdf4", blocks, several=several, notes=(*signal.notes, *notes))


def _groups(blocks: BlockFile) -> list[_Group]:
    head = blocks.read(0, 64, "the header")
    if not head.startswith(b"MDF     "):
        raise DataError(f"{blocks.path}: was never completed by its writer; finalise it with the program that wrote it")
    groups = []
    for number, data_group in enumerate(blocks.chain(blocks.link(blocks.block(64, "HD"), 0), "DG"), start=1):
        members = list(blocks.chain(blocks.link(data_group, 1), "CG"))
        (id_bytes,) = blocks.fields(data_group, "<B")
        if len(members) > 1 or (members and id_bytes):
            problem = "unsorted records; sort the file with the program that wrote it"
            groups.append(_Group(SignalGroup(f"group {number}", (), (), (), None, 0, problem=problem), (), 0, 0, 0))
        elif members:
            group = _group(blocks, f"group {number}", members[0], blocks.link(data_group, 2))
            groups += [group] if group.signal.channels and group.signal.samples > 1 else []
    return groups


def _group(blocks: BlockFile, name: str, block: MdfBlock, data: int) -> _Group:
    _, cycles, _, _, data_bytes, invalid_bytes = map(int, blocks.fields(block, "<QQHHxxxxII"))
    name = blocks.text(blocks.link(block, 2)) or name
    record = data_bytes + invalid_bytes
    channels: list[_Channel] = []
    notes: list[str] = []
    for one in blocks.chain(blocks.link(block, 1), "CN"):
        channel = _channel(blocks, one, data_bytes, invalid_bytes)
        if isinstance(channel, str):
            notes.append(channel)
        else:
            channels.append(channel)
    used = [channel for channel in channels if not channel.is_master]
    repeated = {channel.name for channel in used if [other.name for other in used].count(channel.name) > 1}
    names = [f"{one.name} ({place})" if one.name in repeated else one.name for place, one in enumerate(used, start=1)]
    signal = SignalGroup(
        name, tuple(names), tuple(names), tuple(channel.unit for channel in used), None, cycles, tuple(notes)
    )
    return _Group(signal, tuple(channels), data, data_bytes, record)


def _channel(blocks: BlockFile, block: MdfBlock, data_bytes: int, invalid_bytes: int) -> _Channel | str:
    """Return a channel, or why it is not used."""
    kind, sync, number, bit, first, bits, flags, invalid = map(int, blocks.fields(block, "<BBBBIIII"))
    name = blocks.text(blocks.link(block, 2)) or f"channel at byte {first}"
    unit = blocks.text(blocks.link(block, 6))
    is_master = kind in {MASTER, VIRTUAL_MASTER}
    if is_master and sync != TIME:
        return f"master channel {name!r} is no clock; it tells no sample rate"
    if blocks.link(block, 1) or kind not in {FIXED, MASTER, VIRTUAL_MASTER} or (number > 5 and kind != VIRTUAL_MASTER):
        return f"channel {name!r} is not one of single numbers and not used"
    rational = _conversion(blocks, blocks.link(block, 4))
    if rational is None:
        return f"channel {name!r} has a conversion that is not rational and is not used"
    letter = "v" if kind == VIRTUAL_MASTER else "uuiiff"[number]
    widths = {"f": {16, 32, 64}, "v": {0, *range(1, 65)}}.get(letter, set(range(1, 65)))
    channel = _Channel(
        name,
        normalise_unit(unit) if unit else ("s" if is_master else None),
        is_master,
        first,
        bit,
        bits,
        letter,
        ">" if number in {1, 3, 5} else "<",
        invalid if flags & 2 and invalid_bytes else None,
        rational,
    )
    beyond = letter != "v" and (first + channel.width > data_bytes or channel.width > 8)
    if bits not in widths or beyond or bit > 7 or (channel.invalid_bit or 0) >= 8 * max(invalid_bytes, 1):
        raise DataError(f"{blocks.path}: channel {name!r} lies outside its records of {data_bytes} bytes; {CURE}")
    return channel


def _conversion(blocks: BlockFile, place: int) -> tuple[float, ...] | None:
    """Return the coefficients of a conversion; None for one that is not rational."""
    if not place:
        return IDENTITY
    block = blocks.block(place, "CC")
    kind, _, _, _, count, _, _ = blocks.fields(block, "<BBHHHdd")
    if kind == 0:
        return IDENTITY
    needed = {1: 2, 2: 6}.get(int(kind))
    if needed is None:
        return None
    if count != needed:
        raise DataError(f"{blocks.path}: the conversion at byte {place} has {count} numbers; expected {needed}; {CURE}")
    values = [float(value) for value in blocks.fields(block, f"<24x{needed}d")]
    return (0.0, values[1], values[0], 0.0, 0.0, 1.0) if kind == 1 else tuple(values)


def _rate(blocks: BlockFile, group: _Group) -> tuple[float | None, list[str]]:
    """Return the sample rate by the master channel, and check that all records are there."""
    master = next((channel for channel in group.channels if channel.is_master), None)
    clock = Clock(master.name if master else "", master.unit if master and master.unit in TIME_UNITS else "s")
    for values in _values(
        blocks, group, [master] if master else [], MAX_BLOCK_BYTES // max(group.record_bytes, 1) or 1
    ):
        if master:
            clock.add(values[0])
    return clock.rate() if master else (None, [])


def _values(
    blocks: BlockFile, group: _Group, channels: list[_Channel], samples: int
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the values of channels, (channels, at most ``samples``); all records must be there."""
    held, first, total = bytearray(), 0, group.signal.samples
    if not group.record_bytes:
        raise DataError(f"{blocks.path}: group {group.signal.name!r} has records of 0 bytes; {CURE}")
    for part in blocks.data(group.data):
        held += part
        while (count := min(samples, len(held) // group.record_bytes)) and (
            count == samples or first + count >= total
        ):  # fmt: skip
            size = count * group.record_bytes
            records = np.frombuffer(bytes(held[:size]), np.uint8).reshape(count, -1)
            del held[:size]
            yield np.array([channel.values(records, group.data_bytes, first) for channel in channels]).reshape(
                len(channels), count
            )
            first += count
    if first != total or held:
        raise DataError(
            f"{blocks.path}: group {group.signal.name!r} has {first} complete records of {total} stated; {CURE}"
        )


READER = Reader(
    suffixes=(".mf4", ".mdf4", ".mdf"),
    accepts=lambda head: head.startswith((b"MDF     4", b"UnFinMF 4")),
    open=open_mdf4,
)
