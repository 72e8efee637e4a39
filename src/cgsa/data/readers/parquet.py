"""The native format: a recording as one Parquet file.

The file has one float32 column per channel and per condition trace
(``condition:torque``); the metadata key ``cgsa`` holds everything else as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from cgsa.config import as_table, bind
from cgsa.data.columns import stack_columns
from cgsa.data.readers import Reader
from cgsa.data.readers.damage import parsing
from cgsa.data.readers.parquet_columns import open_columns
from cgsa.data.recording import Recording
from cgsa.data.signal_file import SignalFile, of_recording
from cgsa.errors import DataError
from cgsa.files import replacing

VERSION = 1
METADATA_KEY = b"cgsa"
CONDITION = "condition:"
"""Prefix of condition columns, so that a channel may have the name of a condition."""


@dataclass(frozen=True)
class _Metadata:
    """The fields of a recording without its samples."""

    sample_rate: float
    channels: tuple[str, ...]
    units: tuple[str, ...]
    conditions: tuple[str, ...]
    """Their names."""
    label: str | None
    source: str
    offset: int
    notes: tuple[str, ...]


def write_parquet(recording: Recording, path: str | Path) -> None:
    """Write a recording in the native format, atomically."""
    path = Path(path)
    recording.require_finite()
    if len(set(recording.channels)) != len(recording.channels):
        raise DataError(f"{path}: channel names are not unique: {', '.join(recording.channels)}")
    traces = {f"{CONDITION}{name}": trace for name, trace in recording.conditions.items()}
    values = {name: getattr(recording, name) for name in _Metadata.__dataclass_fields__}
    metadata = _Metadata(**values | {"conditions": tuple(recording.conditions)})
    columns = dict(zip(recording.channels, recording.signal, strict=True)) | traces
    stored = {METADATA_KEY: json.dumps({"version": VERSION, **as_table(metadata)})}
    table = pa.table({name: pa.array(column, pa.float32()) for name, column in columns.items()}, metadata=stored)
    with replacing(path, DataError) as fresh:
        # Samples of noise share only their high bytes, which a split by byte compresses; a dictionary would not help.
        parquet.write_table(
            table, fresh, compression="zstd", use_dictionary=False, use_byte_stream_split=True, write_page_checksum=True
        )


def open_parquet(path: Path, array: str | None) -> SignalFile:
    """Return what a Parquet file holds, of this format or of another program."""
    if array is not None:
        raise DataError(f"{path}: a Parquet file holds a single table; leave out array={array!r}")
    with parsing(path, "Parquet"), parquet.ParquetFile(path) as file:
        native = METADATA_KEY in (file.schema_arrow.metadata or {})
    return of_recording(path, "parquet", lambda: read_parquet(path)) if native else open_columns(path)


def stated_channels(path: Path) -> tuple[str, ...]:
    """Return the channels of a file that :func:`write_parquet` wrote, without reading a sample."""
    with parsing(path, "Parquet"), parquet.ParquetFile(path) as file:
        return _metadata(path, file.schema_arrow.metadata or {}).channels


def read_parquet(path: Path) -> Recording:
    """Return the recording in a file that :func:`write_parquet` wrote."""
    try:
        # The metadata is checked before any column is decoded.
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = _metadata(path, file.schema_arrow.metadata or {})
            names = [*metadata.channels, *(f"{CONDITION}{name}" for name in metadata.conditions)]
            _check_columns(path, names, file.schema_arrow)
            table = file.read(columns=names)
            data = stack_columns([table[name] for name in names])
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot read it as Parquet: {error}; it may be truncated") from error
    rows = len(metadata.channels)
    conditions = dict(zip(metadata.conditions, data[rows:], strict=True))
    return Recording(data[:rows], **vars(metadata) | {"conditions": conditions}).require_finite()


def _metadata(path: Path, stored: Mapping[bytes, bytes]) -> _Metadata:
    if METADATA_KEY not in stored:
        raise DataError(f"{path}: Parquet without 'cgsa' metadata; expected a file written by write_parquet")
    try:
        metadata = json.loads(stored[METADATA_KEY])
        version = metadata.pop("version")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: its 'cgsa' metadata is damaged: {error}") from error
    if version != VERSION:
        raise DataError(f"{path}: format version {version}; this release reads version {VERSION}")
    return bind(_Metadata, metadata, f"{path}: 'cgsa' metadata", DataError)


def _check_columns(path: Path, names: list[str], schema: pa.Schema) -> None:
    for name in names:
        if name not in schema.names:
            raise DataError(f"{path}: no column {name!r}; it has {', '.join(schema.names)}")
        if schema.field(name).type != pa.float32():
            raise DataError(f"{path}: column {name!r} is {schema.field(name).type}; expected float")


READER = Reader(suffixes=(".parquet",), accepts=lambda head: head.startswith(b"PAR1"), open=open_parquet)
