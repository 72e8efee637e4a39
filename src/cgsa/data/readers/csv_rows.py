"""The rows of a text file of numbers, block by block, in bounded memory."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute, csv

from cgsa.data.readers.csv_header import is_number, split_cells
from cgsa.data.readers.csv_layout import CsvLayout
from cgsa.data.signal_file import TextColumn
from cgsa.errors import DataError

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 22
"""A longer line is no row of numbers; without a limit, a file without line ends would be read as a whole."""
DoubleArray = npt.NDArray[np.float64]
_SPACES = re.compile(rb"[ \t]+")


def read_rows(path: Path, layout: CsvLayout, columns: Sequence[int]) -> Iterator[DoubleArray]:
    """Yield the values of some columns, (columns, rows); empty cells are NaN, time stamps are seconds."""
    origin: list[int] = []
    numbers = [place for place, kind in enumerate(layout.kinds) if kind == "number"]
    for batch in _batches(path, layout, columns, numbers):
        yield np.stack([_values(column, origin) for column in batch.columns])


def read_texts(path: Path, layout: CsvLayout, columns: Sequence[int]) -> Iterator[list[TextColumn]]:
    """Yield the cells of some columns as they are written, without outer spaces; one array per column."""
    for batch in _batches(path, layout, columns, ()):
        cells = [compute.utf8_trim_whitespace(compute.fill_null(column, "")) for column in batch.columns]
        yield [np.asarray(column.to_numpy(zero_copy_only=False), object) for column in cells]


def _batches(
    path: Path, layout: CsvLayout, columns: Sequence[int], numbers: Collection[int]
) -> Iterator[pa.RecordBatch]:
    """Yield some columns in blocks of rows; all but the columns of numbers are texts."""
    names = [str(place) for place in range(len(layout.names))]
    types = {name: pa.float64() if place in numbers else pa.string() for place, name in enumerate(names)}
    rows = 0
    try:
        with _Rows(path, layout) as source:
            reader = csv.open_csv(
                pa.PythonFile(source, mode="r"),
                csv.ReadOptions(column_names=names, block_size=CHUNK_BYTES, use_threads=False),
                csv.ParseOptions(delimiter=layout.delimiter, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=types,
                    decimal_point=layout.decimal,
                    include_columns=[names[place] for place in columns],
                    strings_can_be_null=True,
                    check_utf8=False,
                ),
            )
            for batch in reader:
                yield batch
                rows += batch.num_rows
    except (pa.ArrowException, UnicodeError) as error:
        bad = first_bad_row(path, layout, columns, begin=rows)
        raise DataError(bad or f"{path}: cannot read it as CSV after {layout.row(max(rows, 1))}: {error}") from error


def _values(column: pa.Array, origin: list[int]) -> DoubleArray:
    """Return numbers as they are, and time stamps in s since the first of the file, which ``origin`` keeps."""
    if column.type == pa.float64():
        return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
    text = compute.replace_substring(column, ",", ".")
    first = str(text[0]) if len(text) else ""
    if not re.match(r"\d{4}-", first):
        text = compute.binary_join_element_wise("1970-01-01T", text, "")
    zone = "UTC" if re.search(r"(?:Z|[+-]\d\d:?\d\d)$", first[10:]) else None
    counts = compute.cast(compute.cast(text, pa.timestamp("ns", zone)), pa.int64())
    origin += [counts[0].as_py() or 0] if len(counts) and not origin else []
    # Subtracted as whole numbers: seconds since 1970 would leave too few digits for the fraction.
    since = compute.subtract(counts, pa.scalar(origin[0] if origin else 0, pa.int64()))
    return np.asarray(compute.cast(since, pa.float64(), safe=False).to_numpy(zero_copy_only=False)) * 1e-9


class _Rows(io.RawIOBase):
    """The rows of data of a file as bytes: without the lines above them, and without empty lines at the end."""

    def __init__(self, path: Path, layout: CsvLayout) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._chunks = self._normalised(layout)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next ``size`` bytes, fewer only at the end: the parser needs whole blocks."""
        while size < 0 or len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        taken, self._rest = (self._rest, b"") if size < 0 else (self._rest[:size], self._rest[size:])
        return taken

    def close(self) -> None:
        self._file.close()
        super().close()

    def _normalised(self, layout: CsvLayout) -> Iterator[bytes]:
        held = b""
        for chunk in _skip_lines(_decoded(self._file, layout.encoding), layout.skipped):
            # Whole lines are normalised at a time; what follows the last line end is held back.
            lines, end, rest = (held + chunk).replace(b"\r\n", b"\n").rpartition(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise pa.ArrowInvalid(f"a line is longer than {MAX_LINE_BYTES} bytes")
            body = (lines + end).rstrip(b"\n")
            yield _clean(body, layout)
            held = (lines + end)[len(body) :] + rest
        yield _clean(held.rstrip(b"\r\n\x1a"), layout)
        yield b"\n"


def _clean(lines: bytes, layout: CsvLayout) -> bytes:
    """Make runs of spaces a single delimiter, if it is the space."""
    if layout.delimiter != " " or not lines:
        return lines
    return b"\n".join(_SPACES.sub(b" ", line).strip() for line in lines.split(b"\n"))


def _decoded(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Yield the bytes of a file; those of UTF-16 as UTF-8. Other encodings write numbers as ASCII does."""
    if not encoding.startswith("utf-16"):
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
        return
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    try:
        while part := text.read(CHUNK_BYTES // 2):
            yield part.encode()
    finally:
        text.detach()


def _skip_lines(chunks: Iterator[bytes], count: int) -> Iterator[bytes]:
    for chunk in chunks:
        rest = chunk
        while count and (end := rest.find(b"\n")) >= 0:
            rest, count = rest[end + 1 :], count - 1
        if not count:
            yield rest


def first_bad_row(path: Path, layout: CsvLayout, columns: Sequence[int], *, begin: int = 0) -> str | None:
    """Locate the first row from ``begin`` that is not one of numbers; slow, and only for files that cannot be read."""
    with path.open(encoding=layout.encoding, errors="replace") as file:
        for number, line in enumerate(file, start=1 - layout.skipped):
            if number <= begin:
                continue
            if len(line) > MAX_LINE_BYTES:
                return f"{path}: {layout.row(number)} is longer than {MAX_LINE_BYTES} bytes; the file is damaged"
            cells = split_cells(line, layout.delimiter)
            if len(cells) != len(layout.names):
                return f"{path}: {layout.row(number)} has {len(cells)} columns; expected {len(layout.names)}" + (
                    "" if next(file, None) else "; it is the last row, so the file seems to be truncated"
                )
            for place in columns:
                cell = cells[place]
                if layout.kinds[place] == "number" and not is_number(cell, layout.decimal):
                    name = layout.names[place]
                    return f"{path}: column {name!r} has {cell[:40]!r} in {layout.row(number)}; expected a number"
    return None
