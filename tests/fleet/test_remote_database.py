from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cgsa.errors import DataError, UnavailableError
from cgsa.fleet.remote_database import RemoteDatabase
from cgsa.live.store import AuditEntry, Store
from cgsa.live.store.database import Outcome
from cgsa.live.store.mapping import Statement
from cgsa.service.auth import Authenticator


def test_a_file_that_another_process_has_open_is_read_here_and_written_there(tmp_path: Path) -> None:
    away = False
    with Store(tmp_path / "store.sqlite") as writer:

        def write_each(jobs: Sequence[Sequence[Statement]]) -> list[Outcome]:
            if away:
                raise UnavailableError("a process of the fleet does not answer") from ConnectionError(0, "gone")
            return writer.write_each(*jobs)

        with Store(RemoteDatabase(tmp_path / "store.sqlite", write_each), retry_seconds=0.01) as store:
            authenticator = Authenticator(store)
            authenticator.create_token("eve", "viewer")
            with pytest.raises(DataError, match="there is a token 'eve' already"):
                authenticator.create_token("eve", "viewer")
            assert [token.name for token in authenticator.tokens()] == ["eve"]
            away = True
            store.add_audit(AuditEntry(1.0, "eve", "look"))
            with pytest.raises(DataError, match="does not answer"):
                store.flush()
            away = False
            store.flush()
            assert (store.problem, store.lost) == (None, 0)
            assert store.thin(0.0, None) == {}  # type: ignore[arg-type]
        with writer.read() as snapshot:
            assert [entry.what for entry in snapshot.audit(who="eve").rows] == ["look"]
