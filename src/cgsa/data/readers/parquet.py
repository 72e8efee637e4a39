"""The native format: a recording as one Parquet file.

One float32 column a channel and a condition trace (``condition:torque``), and
everything else as JSON under the metadata key ``cgsa``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from cgsa.data.readers import Reader
from cgsa.data.recording import FloatArray, Recording
from cgsa.errors import DataError
from cgsa.files import replacing

VERSION = 1
METADATA_KEY = b"cgsa"
CONDITION = "condition:"
"""Prefix of condition columns, so that a channel may bear the name of a condition."""


def write_parquet(recording: Recording, path: str | Path) -> None:
    """Write a recording in the native format; the file is there whole or not at all."""
    path = Path(path)
    recording.require_finite()
    if len(set(recording.channels)) != len(recording.channels):
        raise DataError(f"{path}: channel names are not unique: {', '.join(recording.channels)}")
    traces = {f"{CONDITION}{name}": trace for name, trace in recording.conditions.items()}
    about = {
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
        # Samples of noise share only their high bytes: split by byte they still shrink, a dictionary would not help.
        parquet.write_table(
            table.replace_schema_metadata({METADATA_KEY: json.dumps(about)}),
            fresh,
            compression="zstd",
            use_dictionary=False,
            use_byte_stream_split=True,
        )


def read_parquet(path: Path) -> Recording:
    """Return the recording in a file that :func:`write_parquet` wrote."""
    try:
        # The metadata is judged before any column is decoded.
        with parquet.ParquetFile(path) as file:
            about = _about(path, file.schema_arrow.metadata or {})
            names = [*about["channels"], *(f"{CONDITION}{name}" for name in about["conditions"])]
            _check_columns(path, names, file.schema_arrow)
            data = _stacked(file.read(columns=names), names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot read it as Parquet: {error}; it may be cut off") from error
    rows = len(about["channels"])
    return Recording(
        signal=data[:rows],
        sample_rate=about["sample_rate"],
        channels=tuple(about["channels"]),
        units=tuple(about["units"]),
        conditions=dict(zip(about["conditions"], data[rows:], strict=True)),
        label=about["label"],
        source=about["source"],
        offset=about["offset"],
        notes=tuple(about["notes"]),
    ).require_finite()


def _about(path: Path, metadata: dict[bytes, bytes]) -> dict[str, Any]:
    if METADATA_KEY not in metadata:
        raise DataError(f"{path}: Parquet without the 'cgsa' metadata; expected a file written by write_parquet")
    try:
        about = json.loads(metadata[METADATA_KEY])
        version = about["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: its 'cgsa' metadata is damaged: {error}") from error
    if version != VERSION:
        raise DataError(f"{path}: format version {version}; this release reads version {VERSION}")
    return _checked(path, about)


def _checked(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata if every entry is there and of its type."""
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
        if name not in about or not isinstance(about[name], types):
            raise DataError(f"{path}: its 'cgsa' metadata has no usable {name!r}; found {about.get(name)!r}")
    return about


def _check_columns(path: Path, names: list[str], schema: pa.Schema) -> None:
    for name in names:
        if name not in schema.names:
            raise DataError(f"{path}: no column {name!r}; it has {', '.join(schema.names)}")
        if schema.field(name).type != pa.float32():
            raise DataError(f"{path}: column {name!r} is {schema.field(name).type}; expected float")


def _stacked(table: pa.Table, names: list[str]) -> FloatArray:
    """Return the columns as rows of one array, copied once."""
    data = np.empty((len(names), table.num_rows), np.float32)
    for row, name in zip(data, names, strict=True):
        start = 0
        for chunk in table[name].chunks:
            row[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
            start += len(chunk)
    return data


READER = Reader(
    suffixes=(".parquet",),
    accepts=lambda head: head.startswith(b"PAR1"),
    read=read_parquet,
)
