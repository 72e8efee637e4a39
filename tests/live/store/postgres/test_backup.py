"""A store is dumped and restored with the programs of PostgreSQL, as docs/operations.md describes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cgsa.live.store import Store
from tests.live.store.examples import all_rows, stored_diagnosis, write_example_events
from tests.postgres import PostgresServer, postgres_programs


def test_a_store_is_restored_with_its_rows_and_goes_on(postgres: PostgresServer, tmp_path: Path) -> None:
    dump = tmp_path / "monday.dump"

    def call(program: str, *words: str) -> None:
        login = ["--host=127.0.0.1", f"--port={postgres.port}", "--username=cgsa"]
        subprocess.run([str(postgres_programs() / program), *login, *words], check=True, capture_output=True)

    with postgres.database() as old, postgres.database() as new:
        with Store(old) as store:
            write_example_events(store)
        call("pg_dump", "--format=custom", f"--file={dump}", old.database)
        call("pg_restore", f"--dbname={new.database}", "--no-owner", "--clean", "--if-exists", str(dump))
        assert all_rows(new) == all_rows(old)
        with Store(new) as store:
            write_example_events(store)
            store.add_diagnosis(stored_diagnosis(5))
            store.flush()
            assert store.notes == ()
            with store.read() as view:
                assert [row.diagnosis.batch for row in view.diagnoses().rows] == [5, 4, 3, 2, 1, 0]
