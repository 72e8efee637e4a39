"""The native format: a recording as one Parquet file.

The file has one float32 column per channel and per condition trace
(``condition:torque``); the metadata key ``cgsa`` holds everything else as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from cgsa.data.columns import stack_columns
from cgsa.data.readers import Reader
from cgsa.data.recording import Recording
from cgsa.errors import DataError
from cgsa.files import replacing

VERSION = 1
METADATA_KEY = b"cgsa"
CONDITION = "condition:"
"""Prefix of condition columns, so that a channel may have the name of a condition."""


def write_parquet(recording: Recording, path: str | Path) -> None:
    """Write a recording in the native format, atomically."""
    path = Path(path)
    recording.require_finite()
    if len(set(recording.channels)) != len(recording.channels):
        raise DataError(f"{path}: channel names are not unique: {', '.join(recording.channels)}")
    traces = {f"{CONDITION}{name}": trace for name, trace in recording.conditions.items()}
    metadata = {
        "version": VERSION,
        "sample_rate": recording.sample_rate,
        "channels": recording.channels,
        "units": recording.units,
        "conditions": list(recording.conditions),
        "label": recording.label,
        "source": recording.source,
        "offset": recording.offset,
        "notes": recording.notes,
    }
    columns = dict(zip(recording.channels, recording.signal, strict=True)) | traces
    table = pa.table({name: pa.array(column, pa.float32()) for name, column in columns.items()})
    with replacing(path, DataError) as fresh:
        # Samples of noise share only their high bytes, which a split by byte compresses; a dictionary would not help.
        parquet.write_table(
            table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata)}),
            fresh,
            compression="zstd",
            use_dictionary=False,
            use_byte_stream_split=True,
        )


def read_parquet(path: Path) -> Recording:
    """Return the recording in a file that :func:`write_parquet` wrote."""
    try:
        # The metadata is checked before any column is decoded.
        with parquet.ParquetFile(path) as file:
            metadata = _metadata(path, file.schema_arrow.metadata or {})
            names = [*metadata["channels"], *(f"{CONDITION}{name}" for name in metadata["conditions"])]
            _check_columns(path, names, file.schema_arrow)
            table = file.read(columns=names)
            data = stack_columns([table[name] for name in names])
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot read it as Parquet: {error}; it may be truncated") from error
    rows = len(metadata["channels"])
    return Recording(
        signal=data[:rows],
        sample_rate=metadata["sample_rate"],
        channels=tuple(metadata["channels"]),
        units=tuple(metadata["units"]),
        conditions=dict(zip(metadata["conditions"], data[rows:], strict=True)),
        label=metadata["label"],
        source=metadata["source"],
        offset=metadata["offset"],
        notes=tuple(metadata["notes"]),
    ).require_finite()


def _metadata(path: Path, stored: Mapping[bytes, bytes]) -> dict[str, Any]:
    if METADATA_KEY not in stored:
        raise DataError(f"{path}: Parquet without 'cgsa' metadata; expected a file written by write_parquet")
    try:
        metadata = json.loads(stored[METADATA_KEY])
        version = metadata["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: its 'cgsa' metadata is damaged: {error}") from error
    if version != VERSION:
        raise DataError(f"{path}: format version {version}; this release reads version {VERSION}")
    return _check_types(path, metadata)


def _check_types(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata after checking that every entry exists with its type."""
    entries: dict[str, tuple[type, ...]] = {
        "sample_rate": (int, float),
        "channels": (list,),
        "units": (list,),
        "conditions": (list,),
        "label": (str, type(None)),
        "source": (str,),
        "offset": (int,),
        "notes": (list,),
    }
    for name, types in entries.items():
        if name not in metadata or not isinstance(metadata[name], types):
            raise DataError(f"{path}: its 'cgsa' metadata has no usable {name!r}; found {metadata.get(name)!r}")
    return metadata


def _check_columns(path: Path, names: list[str], schema: pa.Schema) -> None:
    for name in names:
        if name not in schema.names:
            raise DataError(f"{path}: no column {name!r}; it has {', '.join(schema.names)}")
        if schema.field(name).type != pa.float32():
            raise DataError(f"{path}: column {name!r} is {schema.field(name).type}; expected float")


READER = Reader(
    suffixes=(".parquet",),
    accepts=lambda head: head.startswith(b"PAR1"),
    read=read_parquet,
)
