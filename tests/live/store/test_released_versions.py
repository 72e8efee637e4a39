"""Stores of all released versions, and of all versions in between, are brought to the present one with their rows."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cgsa.errors import DataError
from cgsa.live.store import MIGRATIONS, Store
from cgsa.live.store.schema import APPLICATION
from tests.live.store.damage import root_page, scribble_page, unclean

FIXTURES = Path(__file__).parents[2] / "fixtures"
RELEASED = {"0.1.0": FIXTURES / "v0_1_0" / "live" / "plant", "0.2.0": FIXTURES / "v0_2_0" / "plant"}
FIRST_ROWS = """
    INSERT INTO diagnoses (machine, batch, time, source, "begin", windows, verdict, probabilities, flagged)
        VALUES ('pump', 0, 2, 'live', 1, 8, 'health', '{"health": 1.0}', 0);
    INSERT INTO ledger (machine, batch, "begin", time, windows, layout, data) VALUES ('pump', 0, 1, 2, 0, '[]', x'');
    INSERT INTO notes (machine, position, "index", time, topic, text, details) VALUES ('pump', 0, 0, 1, 'a', 'b', '{}');
    INSERT INTO tokens (name, role, digest, created) VALUES ('eve', 'admin', 'x', 1);
    INSERT INTO audit (time, who, what, origin, result, details) VALUES (1, 'eve', 'open', '', '', '{}');
"""


def rows(path: Path) -> dict[str, list[dict[str, object]]]:
    """Return all rows of all tables that are counted."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [name for (name,) in connection.execute("SELECT name FROM sizes ORDER BY name")]
        return {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in tables}  # noqa: S608


def assert_kept(before: dict[str, list[dict[str, object]]], after: dict[str, list[dict[str, object]]]) -> None:
    """Fail if a row or a value is gone; columns and tables may be new."""
    for table, wanted in before.items():
        found = [{name: row[name] for name in wanted[0]} for row in after[table]] if wanted else []
        assert found == wanted, table


@pytest.mark.parametrize("version", RELEASED)
def test_a_store_of_a_released_version_keeps_its_rows(version: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(RELEASED[version] / "store.sqlite", tmp_path))
    before = rows(path)
    assert before["diagnoses"]
    assert before["ledger"]
    assert before["tokens"]
    with Store(path) as store, store.read() as snapshot:
        assert snapshot.version() == len(MIGRATIONS)
        assert store.repairs == ()
        machine = str(before["diagnoses"][0]["machine"])
        assert len(snapshot.diagnoses(machine).rows) == sum(row["machine"] == machine for row in before["diagnoses"])
        assert len(snapshot.ledger(machine, 0, 1e12)["time"]) > 0
        assert snapshot.unreadable == []
    assert_kept(before, rows(path))


@pytest.mark.parametrize("version", RELEASED)
def test_a_damaged_store_of_a_released_version_is_repaired(version: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(RELEASED[version] / "store.sqlite", tmp_path))
    before = rows(path)
    scribble_page(path, root_page(path, "diagnoses_in_time"))
    unclean(path)
    with Store(path) as store:
        assert "lost rows: none" in store.repairs[0]
    after = rows(path)
    assert after["audit"].pop()["what"] == "repair the store"
    assert_kept(before, after)


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_store_of_any_version_keeps_its_rows(version: int, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("".join(MIGRATIONS[:version]) + FIRST_ROWS)
        connection.executescript(f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version};")
    before = rows(path)
    with Store(path) as store, store.read() as snapshot:
        assert snapshot.version() == len(MIGRATIONS)
        assert len(snapshot.diagnoses().rows) == 1
        assert snapshot.token("eve") is not None
    assert_kept(before, rows(path))


def test_a_newer_store_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(DataError, match=f"store of version {len(MIGRATIONS) + 1}; this cgsa reads versions up to"):
        Store(path)
    assert path.read_bytes() == before
