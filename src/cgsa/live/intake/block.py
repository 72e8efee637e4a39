"""A block: what travels from a sensor to the service, a moment of all its channels.

A block has two forms. The binary one is for machines: small, exact, and closed
by a checksum. The JSON one is for people and scripts. Whatever comes from
outside is checked before it is believed, and what is refused is refused with a
:class:`~cgsa.errors.DataError`. Samples may be anything that a sensor says, NaN
and infinity included: :mod:`cgsa.live.intake.quality` judges them.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.recording import FloatArray
from cgsa.errors import DataError

MAX_BYTES = 64 * 2**20
"""Of a block in either form."""
MAX_HEADER_BYTES = 2**16
MAX_CHANNELS = 256
MAX_SAMPLES = 2**20
"""Of one channel; 82 s at 12.8 kHz."""
MAX_NAME = 64
"""Letters of a machine or channel."""
MAX_SEQUENCE = 2**63 - 1
"""What a database holds as a whole number."""
MAX_TIME = 253_402_300_800.0
"""The year 10,000, where calendars of computers end; a time in milliseconds lies beyond it."""
MIN_RATE, MAX_RATE = 1e-3, 1e7
"""In Hz."""

MAGIC = b"CGSB"
VERSION = 1
_FRONT = struct.Struct("<4sHI")
"""Magic, version, length of the header."""
_SEAL = struct.Struct("<I")
"""CRC-32 of all that stands before it."""
_BEYOND = 4e38
"""JSON knows no infinity: a number too large for single precision stands for it."""
_MACHINE = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")


@dataclass(frozen=True, eq=False)
class Block:
    """Samples of all channels of one machine, one after the other without a gap."""

    machine: str
    """Name of the machine; it becomes a folder and a topic."""
    sequence: int
    """Number of the block, counted by the sender from 0."""
    time: float
    """Of the first sample: seconds since 1970 (UTC), by the sender's clock."""
    sample_rate: float
    """Samples a second, in Hz."""
    channels: tuple[str, ...]
    samples: FloatArray
    """In physical units, (channels, samples)."""

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

    @property
    def count(self) -> int:
        """Number of samples a channel."""
        return int(self.samples.shape[1])

    @property
    def seconds(self) -> float:
        """Length by the rate that the block declares."""
        return self.count / self.sample_rate

    def to_bytes(self) -> bytes:
        """Return the binary form."""
        header = json.dumps({**self._header(), "samples": self.count}).encode()
        body = _FRONT.pack(MAGIC, VERSION, len(header)) + header + self.samples.astype("<f4", copy=False).tobytes()
        return body + _SEAL.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Block:
        """Read the binary form, or say why it is refused."""
        header, body = _opened(data)
        values = _parsed(header, "header of a block")
        machine, sequence, time, sample_rate, channels = _about(values)
        count = _whole(values, "samples")
        _check_shape((len(channels), count), len(channels), f"block of {machine}, sequence {sequence}")
        if len(body) != 4 * len(channels) * count:
            raise DataError(
                f"block of {machine}, sequence {sequence}: {len(body)} bytes of samples; "
                f"expected {4 * len(channels) * count} for {count} samples of {len(channels)} channels"
            )
        samples = np.frombuffer(body, dtype="<f4").astype(np.float32).reshape(len(channels), count)
        return cls(machine, sequence, time, sample_rate, channels, samples)

    def to_json(self) -> str:
        """Return the JSON form: a list a channel; ``null`` is not a number, and 4e38 infinite."""
        wide = np.clip(self.samples.astype(np.float64), -_BEYOND, _BEYOND)
        rows = [[None if math.isnan(value) else value for value in row] for row in wide.tolist()]
        return json.dumps({**self._header(), "samples": rows})

    @classmethod
    def from_json(cls, text: str | bytes) -> Block:
        """Read the JSON form, or say why it is refused."""
        if len(text) > MAX_BYTES:
            raise DataError(f"block: {len(text)} bytes of JSON; at most {MAX_BYTES} are read")
        values = _parsed(text, "block")
        machine, sequence, time, sample_rate, channels = _about(values)
        samples = _rows(values, f"block of {machine}, sequence {sequence}")
        return cls(machine, sequence, time, sample_rate, channels, samples)

    def _header(self) -> dict[str, object]:
        return {
            "machine": self.machine,
            "sequence": self.sequence,
            "time": self.time,
            "sample_rate": self.sample_rate,
            "channels": list(self.channels),
        }


def check_machine(name: str) -> str:
    """Return the name of a machine, or say what it must be like to be a folder and a topic.

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
    odd = [name for name in channels if not (0 < len(name) <= MAX_NAME and name.isprintable())]
    if odd:
        raise DataError(f"{where}: channel {reprlib.repr(odd[0])}; expected a name of 1 to {MAX_NAME} printable signs")
    if len(set(channels)) != len(channels):
        raise DataError(f"{where}: channels {', '.join(channels)}; expected different names")


def _check_shape(shape: Sequence[int], channels: int, where: str) -> None:
    # Both limits together could still ask for a gigabyte.
    if len(shape) != 2 or shape[0] != channels or not 1 <= shape[1] <= MAX_SAMPLES or 4 * math.prod(shape) > MAX_BYTES:
        raise DataError(
            f"{where}: samples of shape {tuple(shape)}; expected ({channels}, samples), 1 to {MAX_SAMPLES} of them, "
            f"in at most {MAX_BYTES} bytes"
        )


def _opened(data: bytes) -> tuple[bytes, memoryview]:
    """Return header and samples of the binary form, the seal checked."""
    if len(data) > MAX_BYTES + MAX_HEADER_BYTES:
        raise DataError(f"block: {len(data)} bytes; at most {MAX_BYTES} of samples are read")
    if len(data) < _FRONT.size + _SEAL.size or not data.startswith(MAGIC):
        raise DataError(f"block: {len(data)} bytes that begin with {data[:4]!r}; expected a block, {MAGIC!r}")
    _, version, length = _FRONT.unpack_from(data)
    if version != VERSION:
        raise DataError(f"block: version {version}; this cgsa reads version {VERSION}")
    room = len(data) - _FRONT.size - _SEAL.size
    if length > min(MAX_HEADER_BYTES, room):
        raise DataError(f"block: its header would take {length} bytes of {room}; expected a whole block")
    if _SEAL.unpack_from(data, len(data) - _SEAL.size)[0] != zlib.crc32(memoryview(data)[: -_SEAL.size]):
        raise DataError(f"block: {len(data)} bytes whose checksum differs; it was torn or damaged on its way")
    begin = _FRONT.size + length
    return data[_FRONT.size : begin], memoryview(data)[begin : -_SEAL.size]


def _parsed(text: str | bytes, what: str) -> Mapping[str, object]:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON; null stands for what is not a number")

    try:
        # Words such as NaN are an invention of Python's parser.
        values = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{what}: not JSON ({error})") from error
    if not isinstance(values, dict):
        raise DataError(f"{what}: holds a {type(values).__name__}; expected an object with machine, sequence, ...")
    expected = {"machine", "sequence", "time", "sample_rate", "channels", "samples"}
    problems = [f"no {name}" for name in sorted(expected - values.keys())]
    problems += [f"unknown {reprlib.repr(name)}" for name in sorted(values.keys() - expected)[:1]]
    if problems:
        raise DataError(f"{what}: {', '.join(problems)}; expected {', '.join(sorted(expected))}")
    return values


def _about(values: Mapping[str, object]) -> tuple[str, int, float, float, tuple[str, ...]]:
    """Return all but the samples, by their kinds; what they may be, the block itself checks."""
    machine, channels = values["machine"], values["channels"]
    if not isinstance(machine, str):
        raise DataError(f"block: machine {reprlib.repr(machine)}; expected a name")
    check_machine(machine)
    if not isinstance(channels, list) or not all(isinstance(name, str) for name in channels):
        raise DataError(f"block of {machine}: channels {reprlib.repr(channels)}; expected names")
    time, rate = (_number(values, name) for name in ("time", "sample_rate"))
    return machine, _whole(values, "sequence"), time, rate, tuple(channels)


def _whole(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    # bool is an int to Python; a count must still refuse true and false.
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"block: {name} {reprlib.repr(value)}; expected a whole number")
    return value


def _number(values: Mapping[str, object], name: str) -> float:
    value = values[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(f"block: {name} {reprlib.repr(value)}; expected a number")
    try:
        return float(value)
    except OverflowError as error:
        raise DataError(f"block: {name} {reprlib.repr(value)}; expected a smaller number") from error


def _rows(values: Mapping[str, object], where: str) -> FloatArray:
    """Return samples that stand as a list a channel."""
    rows = values["samples"]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise DataError(f"{where}: samples {reprlib.repr(rows)}; expected a list of numbers a channel")
    for place, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DataError(
                f"{where}: channel {place} has {len(row)} samples, channel 0 has {len(rows[0])}; expected equally many"
            )
        odd = set(map(type, row)) - {int, float, type(None)}
        if odd:
            raise DataError(f"{where}: channel {place} holds a {odd.pop().__name__}; expected numbers and null")
    try:
        # What is too large for single precision turns infinite, and the quality gate flags it.
        with np.errstate(over="ignore"):
            return np.array(rows, dtype=np.float64).astype(np.float32)
    except OverflowError as error:
        raise DataError(f"{where}: a sample of hundreds of digits; expected numbers") from error
