"""A copy of the first page of a store: without that page, nothing of an SQLite file can be read.

The page has the header of the file, and where its tables begin. Both change with the schema alone, so that the copy of
the last start or stop fits.
"""

from __future__ import annotations

import struct
from pathlib import Path

from cgsa.errors import DataError
from cgsa.files import replacing

MAGIC = b"SQLite format 3\0"
_PAGE_SIZE = struct.Struct(">H")
_COUNTS = struct.Struct(">II")


def header_copy(path: Path) -> Path:
    """Return where the copy for a store is."""
    return Path(f"{path}.header")


def read_header(path: Path) -> bytes | None:
    """Return the first page of a store; None if there is none.

    Nobody in this process may have the store open: closing a file would end the locks that SQLite has on it.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        begin = file.read(100)
        return begin + file.read(_page_size(begin) - 100) if begin.startswith(MAGIC) else None


def save_header(path: Path, page: bytes | None) -> None:
    """Keep the first page of an intact store."""
    copy = header_copy(path)
    if page is not None and (not copy.exists() or copy.read_bytes() != page):
        with replacing(copy, DataError) as fresh:
            fresh.touch(mode=0o600)
            fresh.write_bytes(page)


def restore_header(path: Path) -> bool:
    """Write the copy into a damaged store, whose own first page goes beside it; return whether there is a copy."""
    copy = header_copy(path)
    if not copy.is_file():
        return False
    page = bytearray(copy.read_bytes())
    with path.open("r+b") as file:
        Path(f"{path}.first-page").write_bytes(file.read(len(page)))
        size = file.seek(0, 2)
        # The size is that of this file, and its free pages are not known any more: nothing is read from them.
        _COUNTS.pack_into(page, 24, 0, size // _page_size(page))
        _COUNTS.pack_into(page, 32, 0, 0)
        _COUNTS.pack_into(page, 92, 0, 0)
        file.seek(0)
        file.write(page)
    return True


def _page_size(page: bytes | bytearray) -> int:
    found: int = _PAGE_SIZE.unpack_from(page, 16)[0]
    return 65_536 if found == 1 else found
