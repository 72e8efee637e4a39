"""Damage of a store's file, as a failing disk leaves it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

PAGE = 4096


def unclean(path: Path) -> None:
    """Mark a store as one that a killed service leaves."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET clean = 0")


def root_page(path: Path, name: str) -> int:
    """Return the number of the first page of a table or index, from 1."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        return int(found[0])


def scribble(path: Path, begin: int, end: int) -> None:
    """Overwrite the bytes of a file."""
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(b"\xa5" * (end - begin))


def scribble_page(path: Path, page: int) -> None:
    scribble(path, (page - 1) * PAGE, page * PAGE)


def leaf_pages(path: Path, table: str) -> list[int]:
    """Return the pages with the rows of a table, by the numbers of their first rows; it must have two levels."""
    data = path.read_bytes()
    root = data[(root_page(path, table) - 1) * PAGE :][:PAGE]
    assert root[0] == 5
    cells = int.from_bytes(root[3:5], "big")
    places = [int.from_bytes(root[12 + 2 * n : 14 + 2 * n], "big") for n in range(cells)]
    return [int.from_bytes(root[place : place + 4], "big") for place in places]
