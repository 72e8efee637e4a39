"""The numbered Parquet files of a ledger: what is missing or damaged is left out and named, with its period."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

PART = "part-{:06d}.parquet"
FORMAT = dataset.ParquetFileFormat(
    default_fragment_scan_options=dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_NUMBER = re.compile(r"part-(\d{6,})\.parquet")
_READ_ERRORS = (pa.ArrowException, OSError)


class LedgerParts:
    """The files of a ledger in their order, as far as they can be read.

    ``schema`` has the columns that every file needs.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.lost: list[str] = []
        """What is missing or damaged, and the seconds of the stream that it held."""
        self._spans: dict[str, tuple[float, float]] = {}
        """Times of the first and of the last window of each file."""
        self._damaged: set[str] = set()
        schemas, readable, missing = [schema], [], []
        for path in _numbered(folder):
            try:
                metadata = parquet.read_metadata(path)
                found = metadata.schema.to_arrow_schema().remove_metadata()
                pa.unify_schemas([schema, found])
                self._spans[path.name] = _span(metadata)
            except _READ_ERRORS as error:
                missing.append((path, "is missing" if not path.exists() else f"cannot be read ({error})"))
                continue
            schemas.append(found)
            readable.append(path)
        for path, why in missing:
            self.lost.append(f"{path.name} {why}: {self._period(path.name)}")
        joined = pa.unify_schemas(schemas)
        self.dataset: Any = (
            dataset.dataset(readable, schema=joined, format=FORMAT)
            if readable
            else dataset.dataset(joined.empty_table())
        )

    def scan(self, columns: list[str] | None, chosen: Any) -> Iterator[pa.RecordBatch]:
        """Yield rows in the order of the stream; a file ends where it is damaged."""
        for fragment in self.dataset.get_fragments():
            try:
                batches = fragment.to_batches(schema=self.dataset.schema, columns=columns, filter=chosen)
                yield from (batch for batch in batches if batch.num_rows)
            except _READ_ERRORS as error:
                name = Path(fragment.path).name
                if name not in self._damaged:
                    self._damaged.add(name)
                    begin, end = self._spans[name]
                    self.lost.append(
                        f"{name} is damaged ({error}): some windows from {begin:g} s to {end:g} s are lost"
                    )

    def _period(self, name: str) -> str:
        """Return which windows a file held that cannot be read: those between its neighbours."""
        before = [end for other, (_, end) in self._spans.items() if other < name]
        after = [begin for other, (begin, _) in self._spans.items() if other > name]
        begin = f" after {max(before):g} s" if before else ""
        return f"the windows{begin}{f' before {min(after):g} s' if after else ''} are lost"


def _numbered(folder: Path) -> Iterator[Path]:
    """Yield the paths of all files up to the last, also of those that are missing."""
    # Temporary files of a killed writer have other names.
    numbers = [int(match[1]) for match in (_NUMBER.fullmatch(path.name) for path in folder.iterdir()) if match]
    for number in range(max(numbers, default=-1) + 1):
        yield folder / PART.format(number)


def _span(metadata: parquet.FileMetaData) -> tuple[float, float]:
    """Return the times of the first and of the last window in a file."""
    column = metadata.schema.names.index("time")
    found = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
    return min(one.min for one in found), max(one.max for one in found)
