"""Send the samples of a machine to the service that watches it; needs Python 3.10 alone.

    python THIS_FILE recording.csv another.npy     plays files in real time (--speed 0: as fast as they are diagnosed)
    logger | python THIS_FILE -                    sends lines of CSV as they come

It reads CSV, with any delimiter and decimal commas, and NPY. A row of names and a row of units above the numbers are
used: columns with the names of the channels are sent in their order, and the units go with them. What the service
refuses is printed with its reason; while the service is away, blocks are sent again until it answers.
"""

from __future__ import annotations

import argparse
import array
import ast
import http.client
import json
import math
import re
import ssl
import struct
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# What follows is replaced by the settings of a machine when this file is written for it.
URL = "http://127.0.0.1:8765"
TOKEN = ""
MACHINE = "machine"
SAMPLE_RATE = 1.0
CHANNELS = ["x"]
UNITS = {"x": "g"}
CERTIFICATE: str | None = None
# End of the settings.

BLOCK_SECONDS = 0.5
LONGEST_WAIT = 30.0
"""Seconds between two attempts at most, while the service does not answer."""
RATE_ROWS = 100
"""Rows from whose time column the rate is taken."""
MAX_RATE_ERROR = 0.01
"""Deviation of the rate of a time column above which a file is refused."""
TIME_NAMES = {"t", "time", "zeit", "seconds", "sekunden", "timestamp"}
ARRAY_CODES = {"f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}

Row = list[float]
"""Values of all channels at one time."""


class SendError(Exception):
    """What is wrong with a file, or what the service refuses; sending it again does not help."""


def split_line(line: str) -> list[str]:
    """Return the cells of a line; a comma is decimal if anything else separates the cells."""
    text = line.strip("\ufeff\r\n ")
    for delimiter in (";", "\t"):
        if delimiter in text:
            return [cell.strip().strip('"').replace(",", ".") for cell in text.split(delimiter)]
    return [cell.strip().strip('"') for cell in (text.split(",") if "," in text else text.split())]


def read_number(cell: str) -> float | None:
    """Return the value of a cell; None if it is text. A missing value is NaN."""
    try:
        return float(cell) if cell else math.nan
    except ValueError:
        return None


class CsvRows:
    """The rows of a CSV file or stream, with the channels in order; ``units`` are known once the first row is read."""

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self.units: dict[str, str] = {}
        self._lines, self._name = lines, name
        self._time_column: int | None = None
        self._header: list[list[str]] = []

    def __iter__(self) -> Iterator[Row]:
        columns: list[int] | None = None
        times: list[float] = []
        for number, line in enumerate(self._lines, start=1):
            if not line.strip():
                continue
            cells = split_line(line)
            values = [read_number(cell) for cell in cells]
            if columns is None and (None in values or all(not cell for cell in cells)):
                self._header.append(cells)
                continue
            if columns is None:
                columns = self._choose_columns(len(cells))
            row = [value for place in columns if place < len(values) and (value := values[place]) is not None]
            if len(row) < len(columns):
                raise SendError(f"{self._name}, line {number}: {line.strip()[:60]!r}; expected {len(columns)} numbers")
            if self._time_column is not None and len(times) < RATE_ROWS:
                times.append(values[self._time_column] or 0.0)
                self._check_rate(times)
            yield row
        if columns is None:
            raise SendError(f"{self._name}: no numbers; expected one column per channel: {', '.join(CHANNELS)}")

    def _choose_columns(self, count: int) -> list[int]:
        """Return the columns of the channels: those with their names, else all of them in order."""
        names = self._header[0] if self._header and len(self._header[0]) == count else [""] * count
        units = self._header[1] if len(self._header) > 1 and len(self._header[1]) == count else [""] * count
        # Units may also stand behind the names, such as in "acc_x (g)".
        pairs = [re.fullmatch(r"(.*?)\s*[\[(]([^\])]*)[\])]", name) for name in names]
        names = [pair[1] if pair else name for pair, name in zip(pairs, names, strict=True)]
        units = [unit or (pair[2] if pair else "") for pair, unit in zip(pairs, units, strict=True)]
        known = [name.casefold() for name in names]
        self._time_column = next((place for place, name in enumerate(known) if name in TIME_NAMES), None)
        if all(name in names for name in CHANNELS):
            columns = [names.index(name) for name in CHANNELS]
        else:
            columns = [place for place in range(count) if place != self._time_column]
        if len(columns) != len(CHANNELS):
            found = ", ".join(name for name in names if name) or f"{count} columns"
            raise SendError(f"{self._name}: {found}; expected the channels {', '.join(CHANNELS)}")
        stated = {name: units[place] for name, place in zip(CHANNELS, columns, strict=True)}
        self.units = {name: unit for name, unit in stated.items() if unit and name in UNITS}
        return columns

    def _check_rate(self, times: list[float]) -> None:
        """Refuse a file whose time column, in seconds, has another rate."""
        span = times[-1] - times[0]
        if len(times) == RATE_ROWS and span > 0 and abs((RATE_ROWS - 1) / span / SAMPLE_RATE - 1) > MAX_RATE_ERROR:
            rate = (RATE_ROWS - 1) / span
            raise SendError(f"{self._name}: {rate:.6g} Hz by its time column; expected {SAMPLE_RATE:g} Hz")


class NpyRows:
    """The rows of an NPY file with one column or one row per channel; it states no units."""

    def __init__(self, path: str) -> None:
        self.units: dict[str, str] = {}
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        header, values = self._read()
        kind, shape, many = str(header["descr"]), tuple(header["shape"]), len(CHANNELS)
        flat = array.array(ARRAY_CODES.get(kind[1:], "B"))
        if kind[1:] not in ARRAY_CODES or kind[0] == ">" or len(shape) not in (1, 2):
            raise SendError(f"{self._path}: {kind} of shape {shape}; expected numbers of shape (samples, {many})")
        rows, columns = shape if len(shape) == 2 else (shape[0], 1)
        if len(values) != rows * columns * flat.itemsize:
            raise SendError(f"{self._path}: {len(values)} bytes of values for shape {shape}; it may be cut off")
        if many not in (rows, columns):
            raise SendError(f"{self._path}: shape {shape}; expected {many} channels: {', '.join(CHANNELS)}")
        flat.frombytes(values)
        if sys.byteorder == "big":
            flat.byteswap()
        # Whether the values of one channel stand side by side, or those of one time.
        by_channel = bool(header["fortran_order"]) == (columns == many)
        count = rows * columns // many
        for place in range(count):
            yield list(flat[place::count] if by_channel else flat[place * many : (place + 1) * many])

    def _read(self) -> tuple[dict[str, Any], bytes]:
        with Path(self._path).open("rb") as file:
            start = file.read(8)
            if start[:6] != b"\x93NUMPY":
                raise SendError(f"{self._path}: not an NPY file; expected one, or a CSV file")
            form = struct.Struct("<H" if start[6] == 1 else "<I")
            (length,) = form.unpack(file.read(form.size))
            return dict(ast.literal_eval(file.read(length).decode("latin-1"))), file.read()


def encode_block(
    sequence: int, begin: float, rows: list[Row], units: dict[str, str], conditions: dict[str, float]
) -> bytes:
    """Return a block in the binary form of the service."""
    about = {
        "machine": MACHINE,
        "sequence": sequence,
        "time": begin,
        "sample_rate": SAMPLE_RATE,
        "channels": CHANNELS,
        "units": {**UNITS, **units},
        "conditions": conditions,
        "samples": len(rows),
    }
    samples = array.array("f", [value for channel in zip(*rows, strict=True) for value in channel])
    if sys.byteorder == "big":
        samples.byteswap()
    header = json.dumps(about).encode()
    body = struct.pack("<4sHI", b"CGSB", 1, len(header)) + header + samples.tobytes()
    return body + struct.pack("<I", zlib.crc32(body))


class ServiceClient:
    """The service; a request waits until it is answered."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._context = ssl.create_default_context(cafile=CERTIFICATE) if self._url.startswith("https") else None
        self._refused = ""

    def status(self) -> dict[str, object]:
        """Return how the blocks of the machine are received."""
        return self._request(f"/api/machines/{MACHINE}/intake", None)

    def wait_until_diagnosed(self) -> None:
        """Wait until no more than a block waits, so that none has to be diagnosed in haste."""
        while float(str((found := self.status()).get("waiting", 0.0))) > BLOCK_SECONDS:
            if found.get("problem"):
                raise SendError(f"{MACHINE} is not diagnosed: {found['problem']}")
            time.sleep(0.02)

    def post(self, block: bytes) -> None:
        """Send a block, and print what the service refused of the blocks before it."""
        answer = self._request("/api/blocks", block)
        refused = answer.get("last_refused")
        if not isinstance(refused, dict):
            return
        text, what = str(refused["text"]), "missing" if refused.get("what") == "gap" else "refused"
        # That this program began anew is known here.
        if text != self._refused and refused.get("reason") != "sender restarted":
            report(f"{what}: {text}")
        self._refused = text

    def _request(self, path: str, body: bytes | None) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(self._url + path, data=body, headers=headers)  # noqa: S310 - http or https
        wait = 0.5
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:  # noqa: S310 - as above
                    return dict(json.load(answer))
            except urllib.error.HTTPError as error:
                reason = _reason(error)
                if error.code == 409:
                    # The block is older than what is known; the next one may be right.
                    report(f"refused: {reason}")
                    return {}
                if error.code not in (408, 429, 500, 502, 503, 504):
                    raise SendError(f"refused ({error.code}): {reason}") from None
                pause = _seconds(error.headers.get("Retry-After"), wait)
            except (OSError, http.client.HTTPException) as error:
                reason, pause = f"no answer from {self._url} ({getattr(error, 'reason', error)})", wait
            report(f"{reason}; again in {pause:g} s")
            time.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return str(error.reason)


def _seconds(text: str | None, usual: float) -> float:
    try:
        return min(max(float(text or ""), 0.1), LONGEST_WAIT)
    except ValueError:
        return usual


def report(text: str) -> None:
    """Print a message for people."""
    print(text, file=sys.stderr, flush=True)


def in_blocks(rows: Iterable[Row], length: int) -> Iterator[list[Row]]:
    """Yield rows in lists of a length; the last one may be shorter."""
    block: list[Row] = []
    for row in rows:
        block.append(row)
        if len(block) == length:
            yield block
            block = []
    if block:
        yield block


def open_rows(name: str) -> CsvRows | NpyRows:
    """Return the rows of a file, or of the standard input for ``-``."""
    if name == "-":
        return CsvRows(sys.stdin, name)
    return NpyRows(name) if name.casefold().endswith(".npy") else CsvRows(read_lines(name), name)


def send_files(names: list[str], service: ServiceClient, *, speed: float, conditions: dict[str, float]) -> int:
    """Send files one after the other as one stream; return the number of samples."""
    missing = [name for name in names if name != "-" and not Path(name).is_file()]
    if missing:
        raise SendError(f"{missing[0]}: no such file; expected a CSV or NPY file, or - for the standard input")
    # A stream may be ahead of the clock, after files that were sent faster than real time.
    known = service.status().get("now")
    begin = max(time.time(), known + 1.0 if isinstance(known, (int, float)) else 0.0)
    due, sequence, sent = time.monotonic(), 0, 0
    for name in names:
        rows = open_rows(name)
        for block in in_blocks(rows, max(1, round(BLOCK_SECONDS * SAMPLE_RATE))):
            due += len(block) / SAMPLE_RATE / speed if speed else 0.0
            if speed and name != "-":
                # A block is complete when its last sample was taken.
                time.sleep(max(0.0, due - time.monotonic()))
            service.post(encode_block(sequence, begin + sent / SAMPLE_RATE, block, rows.units, conditions))
            sequence, sent = sequence + 1, sent + len(block)
            if not speed:
                service.wait_until_diagnosed()
    return sent


def read_lines(name: str) -> Iterator[str]:
    """Yield the lines of a file."""
    with Path(name).open(encoding="utf-8", errors="replace") as file:
        yield from file


def parse_condition(text: str) -> tuple[str, float]:
    """Return the name and value of an operating condition, such as ``speed=1480``."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=NUMBER, such as speed=1480") from None


def run_sender() -> int:
    """Send what the command line names."""
    parser = argparse.ArgumentParser(description=f"Send samples of {MACHINE} to {URL}.")
    parser.add_argument(
        "files", nargs="+", help="CSV or NPY files in order, or - for lines of CSV from another program"
    )
    parser.add_argument("--speed", type=float, default=1.0, help="multiple of real time; 0: as fast as possible")
    parser.add_argument("--condition", type=parse_condition, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--url", default=URL, help="address of the service")
    options = parser.parse_args()
    try:
        sent = send_files(
            options.files, ServiceClient(options.url), speed=options.speed, conditions=dict(options.condition)
        )
    except (SendError, OSError) as error:
        report(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    report(f"{sent} samples of {MACHINE} sent, {sent / SAMPLE_RATE:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(run_sender())
