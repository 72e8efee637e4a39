"""Blocks: short intervals of samples that a sensor sends to the service.

A block has two encodings. The binary one is for machines: compact, exact and
protected by a checksum. The JSON one is for people and scripts. Everything in a
received block is validated, and an invalid one raises a
:class:`~cgsa.errors.DataError`. Sample values may be NaN or infinite:
:mod:`cgsa.live.intake.quality` checks them.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError

MAX_BYTES = 64 * 2**20
"""Largest block in either encoding."""
MAX_HEADER_BYTES = 2**16
MAX_CHANNELS = 256
MAX_SAMPLES = 2**20
"""Per channel; 82 s at 12.8 kHz."""
MAX_CONDITIONS = 64
MAX_NAME = 64
"""Characters in the name of a machine, channel or condition."""
MAX_SEQUENCE = 2**63 - 1
"""Largest integer that a database column holds."""
MAX_TIME = 253_402_300_800.0
"""The year 10,000, where computer calendars end; a time given in milliseconds is beyond it."""
MIN_RATE, MAX_RATE = 1e-3, 1e7
"""In Hz."""

MAGIC = b"CGSB"
VERSION = 1
_PREFIX = struct.Struct("<4sHI")
"""Magic, version, length of the header."""
_CHECKSUM = struct.Struct("<I")
"""CRC-32 of all bytes before it."""
_METADATA = ("machine", "sequence", "time", "sample_rate", "channels")
"""Fields of a block besides its samples, in the order of its header."""
_CONDITIONS, _UNITS = "conditions", "units"
"""Fields that a block may lack; they are written only if they say something."""
_JSON_INFINITY = 4e38
"""JSON has no infinity: a number too large for single precision represents it."""
_MACHINE = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive samples of all channels of one machine; the samples must not be modified."""

    machine: str
    """Name of the machine; also used as folder and topic name."""
    sequence: int
    """Number of the block; the sender counts from 0."""
    time: float
    """Time of the first sample by the sender's clock, in seconds since 1970 (UTC)."""
    sample_rate: float
    """In Hz."""
    channels: tuple[str, ...]
    samples: FloatArray
    """In physical units, (channels, samples)."""
    conditions: Mapping[str, float] = field(default_factory=dict)
    """Known operating conditions by name, each with its mean over the block in the unit of the training."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of channels by name, to be checked against those of the model; a channel without one is not checked."""
    _encoded: bytes | None = field(default=None, init=False, repr=False)
    """The binary encoding that the block was decoded from, if it is the one :meth:`to_bytes` would produce."""

    def __post_init__(self) -> None:
        where = f"block of {check_machine(self.machine)}"
        if not 0 <= self.sequence <= MAX_SEQUENCE:
            raise DataError(f"{where}: sequence {reprlib.repr(self.sequence)}; expected 0 to {MAX_SEQUENCE}")
        where = f"{where}, sequence {self.sequence}"
        if not 0 <= self.time < MAX_TIME:
            raise DataError(f"{where}: time {self.time:g}; expected seconds since 1970 (UTC), before the year 10,000")
        if not MIN_RATE <= self.sample_rate <= MAX_RATE:
            raise DataError(f"{where}: sample rate {self.sample_rate:g} Hz; expected {MIN_RATE:g} to {MAX_RATE:g} Hz")
        _check_channels(self.channels, where)
        _check_shape(self.samples.shape, len(self.channels), where)
        if self.samples.dtype != np.float32:
            raise DataError(f"{where}: samples are {self.samples.dtype}; expected float32")
        _check_condition_values(self.conditions, where)
        for name, unit in self.units.items():
            if name not in self.channels or not (len(unit) <= MAX_NAME and unit.isprintable()):
                raise DataError(
                    f"{where}: unit {reprlib.repr(unit)} of {reprlib.repr(name)}; expected a printable unit of at most "
                    f"{MAX_NAME} characters for a channel of the block"
                )

    @property
    def count(self) -> int:
        """Number of samples per channel."""
        return int(self.samples.shape[1])

    @property
    def seconds(self) -> float:
        """Duration according to the declared sample rate."""
        return self.count / self.sample_rate

    def to_bytes(self) -> bytes:
        """Return the binary encoding; a block decoded from it returns the same bytes without encoding again."""
        if self._encoded is not None:
            return self._encoded
        header = self._binary_header()
        body = _PREFIX.pack(MAGIC, VERSION, len(header)) + header + self.samples.astype("<f4", copy=False).tobytes()
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Block:
        """Decode the binary encoding; raise :class:`~cgsa.errors.DataError` if it is invalid."""
        header, body = _header_and_samples(data)
        values = _parse_object(header, "header of a block")
        machine, sequence, time, sample_rate, channels = _metadata(values)
        count = _integer(values, "samples")
        _check_shape((len(channels), count), len(channels), f"block of {machine}, sequence {sequence}")
        if len(body) != 4 * len(channels) * count:
            raise DataError(
                f"block of {machine}, sequence {sequence}: {len(body)} bytes of samples; "
                f"expected {4 * len(channels) * count} for {count} samples of {len(channels)} channels"
            )
        samples = np.frombuffer(body, dtype="<f4").astype(np.float32).reshape(len(channels), count)
        block = cls(
            machine, sequence, time, sample_rate, channels, samples, _condition_values(values), _unit_texts(values)
        )
        # Everything after the header has one encoding only. Senders may write the same header differently.
        if header == block._binary_header():
            object.__setattr__(block, "_encoded", data)
        return block

    def to_json(self) -> str:
        """Return the JSON encoding: one list per channel, with ``null`` for NaN and 4e38 for infinity."""
        wide = np.clip(self.samples.astype(np.float64), -_JSON_INFINITY, _JSON_INFINITY)
        rows = [[None if math.isnan(value) else value for value in row] for row in wide.tolist()]
        return json.dumps({**self._header(), "samples": rows})

    @classmethod
    def from_json(cls, text: str | bytes) -> Block:
        """Decode the JSON encoding; raise :class:`~cgsa.errors.DataError` if it is invalid."""
        if len(text) > MAX_BYTES:
            raise DataError(f"block: {len(text)} bytes of JSON; at most {MAX_BYTES} are read")
        values = _parse_object(text, "block")
        machine, sequence, time, sample_rate, channels = _metadata(values)
        samples = _sample_rows(values, f"block of {machine}, sequence {sequence}")
        return cls(
            machine, sequence, time, sample_rate, channels, samples, _condition_values(values), _unit_texts(values)
        )

    def _header(self) -> dict[str, object]:
        known: dict[str, object] = {_CONDITIONS: dict(self.conditions)} if self.conditions else {}
        known |= {_UNITS: dict(self.units)} if self.units else {}
        return {name: getattr(self, name) for name in _METADATA} | known

    def _binary_header(self) -> bytes:
        return json.dumps({**self._header(), "samples": self.count}).encode()


def check_machine(name: str) -> str:
    """Return the name of a machine; raise an error if it cannot be a folder and topic name.

    >>> check_machine("pump-3.north")
    'pump-3.north'
    """
    if not _MACHINE.fullmatch(name):
        raise DataError(
            f"machine {reprlib.repr(name)}: expected 1 to {MAX_NAME} letters, digits, '.', '_' or '-', no dot first"
        )
    return name


def _check_channels(channels: Sequence[str], where: str) -> None:
    if not 1 <= len(channels) <= MAX_CHANNELS:
        raise DataError(f"{where}: {len(channels)} channels; expected 1 to {MAX_CHANNELS}")
    invalid = [name for name in channels if not (0 < len(name) <= MAX_NAME and name.isprintable())]
    if invalid:
        raise DataError(
            f"{where}: channel {reprlib.repr(invalid[0])}; expected a name of 1 to {MAX_NAME} printable characters"
        )
    if len(set(channels)) != len(channels):
        raise DataError(f"{where}: channels {', '.join(channels)}; expected different names")


def _check_condition_values(conditions: Mapping[str, float], where: str) -> None:
    if len(conditions) > MAX_CONDITIONS:
        raise DataError(f"{where}: {len(conditions)} conditions; expected at most {MAX_CONDITIONS}")
    for name, value in conditions.items():
        if not (0 < len(name) <= MAX_NAME and name.isprintable()):
            raise DataError(
                f"{where}: condition {reprlib.repr(name)}; expected a name of 1 to {MAX_NAME} printable characters"
            )
        if not math.isfinite(value):
            raise DataError(
                f"{where}: condition {name!r} is {value}; expected a finite number, or no entry if it is unknown"
            )


def _check_shape(shape: Sequence[int], channels: int, where: str) -> None:
    # Within both limits a block could still take a gigabyte.
    if len(shape) != 2 or shape[0] != channels or not 1 <= shape[1] <= MAX_SAMPLES or 4 * math.prod(shape) > MAX_BYTES:
        raise DataError(
            f"{where}: samples of shape {tuple(shape)}; expected ({channels}, samples) with 1 to {MAX_SAMPLES} samples "
            f"in at most {MAX_BYTES} bytes"
        )


def _header_and_samples(data: bytes) -> tuple[bytes, memoryview]:
    """Return header and samples of the binary encoding after verifying its checksum."""
    if len(data) > MAX_BYTES + MAX_HEADER_BYTES:
        raise DataError(f"block: {len(data)} bytes; at most {MAX_BYTES} bytes of samples are read")
    if len(data) < _PREFIX.size + _CHECKSUM.size or not data.startswith(MAGIC):
        raise DataError(
            f"block: {len(data)} bytes that start with {data[:4]!r}; expected a block, which starts with {MAGIC!r}"
        )
    _, version, length = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise DataError(f"block: version {version}; this cgsa reads version {VERSION}")
    available = len(data) - _PREFIX.size - _CHECKSUM.size
    if length > min(MAX_HEADER_BYTES, available):
        raise DataError(f"block: declares a header of {length} bytes, {available} are there; expected a whole block")
    if _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)[0] != zlib.crc32(memoryview(data)[: -_CHECKSUM.size]):
        raise DataError(f"block: {len(data)} bytes whose checksum differs; it was truncated or damaged in transit")
    begin = _PREFIX.size + length
    return data[_PREFIX.size : begin], memoryview(data)[begin : -_CHECKSUM.size]


def _parse_object(text: str | bytes, what: str) -> Mapping[str, object]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON; write null for NaN")

    try:
        # Python's parser accepts NaN and Infinity, which JSON does not have.
        values = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{what}: not JSON ({error})") from error
    if not isinstance(values, dict):
        raise DataError(f"{what}: is a {type(values).__name__}; expected an object with machine, sequence, ...")
    expected = {*_METADATA, "samples"}
    problems = [f"no {name}" for name in sorted(expected - values.keys())]
    problems += [
        f"unknown {reprlib.repr(name)}" for name in sorted(values.keys() - expected - {_CONDITIONS, _UNITS})[:1]
    ]
    if problems:
        wanted = f"{', '.join(sorted(expected))}, and {_CONDITIONS} and {_UNITS} if any are known"
        raise DataError(f"{what}: {', '.join(problems)}; expected {wanted}")
    return values


def _metadata(values: Mapping[str, object]) -> tuple[str, int, float, float, tuple[str, ...]]:
    """Return everything but the samples with its types checked; the block itself checks the values."""
    machine, channels = values["machine"], values["channels"]
    if not isinstance(machine, str):
        raise DataError(f"block: machine {reprlib.repr(machine)}; expected a name")
    check_machine(machine)
    if not isinstance(channels, list) or not all(isinstance(name, str) for name in channels):
        raise DataError(f"block of {machine}: channels {reprlib.repr(channels)}; expected names")
    time, rate = (_number(values, name) for name in ("time", "sample_rate"))
    return machine, _integer(values, "sequence"), time, rate, tuple(channels)


def _condition_values(values: Mapping[str, object]) -> dict[str, float]:
    """Return the conditions with their types checked; none if the field is missing."""
    found = values.get(_CONDITIONS, {})
    if not isinstance(found, dict):
        example = '{"speed": 1480}'
        raise DataError(f"block: {_CONDITIONS} {reprlib.repr(found)}; expected an object such as {example}")
    return {name: _number(found, name) for name in found}


def _unit_texts(values: Mapping[str, object]) -> dict[str, str]:
    """Return the units with their types checked; none if the field is missing."""
    found = values.get(_UNITS, {})
    if not isinstance(found, dict) or not all(isinstance(unit, str) for unit in found.values()):
        example = '{"x": "g"}'
        raise DataError(f"block: {_UNITS} {reprlib.repr(found)}; expected an object such as {example}")
    return found


def _integer(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    # bool is a subclass of int, but true is not a count.
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"block: {name} {reprlib.repr(value)}; expected an integer")
    return value


def _number(values: Mapping[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(f"block: {name} {reprlib.repr(value)}; expected a number")
    try:
        return float(value)
    except OverflowError as error:
        raise DataError(f"block: {name} {reprlib.repr(value)}; expected a smaller number") from error


def _sample_rows(values: Mapping[str, object], where: str) -> FloatArray:
    """Return samples that are given as one list per channel."""
    rows = values["samples"]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise DataError(f"{where}: samples {reprlib.repr(rows)}; expected one list of numbers per channel")
    for channel, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DataError(
                f"{where}: channel {channel} has {len(row)} samples, channel 0 has {len(rows[0])}; expected the same"
            )
        invalid = set(map(type, row)) - {int, float, type(None)}
        if invalid:
            raise DataError(f"{where}: channel {channel} has a {invalid.pop().__name__}; expected numbers and null")
    try:
        # A number too large for single precision becomes infinite, and the quality gate flags it.
        with np.errstate(over="ignore"):
            return np.array(rows, dtype=np.float64).astype(np.float32)
    except OverflowError as error:
        raise DataError(f"{where}: a sample with hundreds of digits; expected numbers") from error
