from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.errors import ConfigError, DataError
from cgsa.live.store import DAY, RowRetention, Store, StoredToken
from tests.live.store.examples import OLDEST, columns, told, write_story


def test_old_rows_go_and_their_space_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        write_story(store)
        for batch in range(5, 300):
            store.add_ledger("pump", batch, columns(batch, windows=400, seed=batch))
            store.add_diagnosis(told(batch))
        store.flush()
        now = 3 * DAY + 200.0
        removed = store.trim(now, RowRetention(ledger=3, diagnoses=3, notes=None, snippets=4), chunk=7)
        store.flush()
        with store.read() as view:
            left = [row.diagnosis.batch for row in view.diagnoses(pick=OLDEST).rows]
            sizes = view.sizes()
            assert view.free_pages() == 0
            assert len(view.ledger("pump", 0, 150)) == 0
        assert left == list(range(199, 300))
        assert removed["diagnoses"] == 199
        assert removed["ledger"] == sum(
            float(batch + 399 / 8 if batch > 4 else batch + 7 / 8) < 200 for batch in range(300)
        )
        assert (removed["snippets"], "notes" in removed) == (0, False)
        big = path.stat().st_size
        store.trim(1e12, RowRetention())
    with Store(path) as store, store.read() as view:
        after = view.sizes()
    for table in ("ledger", "diagnoses", "notes", "snippets"):
        assert (after[table].rows, after[table].bytes) == (0, 0)
    for table in ("cases", "alarm_changes", "comments", "labels"):
        assert after[table] == sizes[table]
        assert after[table].rows > 0
    assert path.stat().st_size < big / 2


def test_days_are_not_negative() -> None:
    with pytest.raises(ConfigError, match="ledger -1; expected days, 0 or more"):
        RowRetention(ledger=-1)


def test_tokens_come_are_used_and_end(store: Store) -> None:
    token = StoredToken("eve", "operator", "salt$hash", 1.0)
    store.add_token(token)
    with pytest.raises(DataError, match="there is a token 'eve' already"):
        store.add_token(replace(token, role="admin"))
    store.add_token(StoredToken("adam", "viewer", "pepper$hash", 2.0))
    store.use_token("eve", 9.0)
    store.use_token("eve", 7.0)
    store.revoke_token("adam", 8.0)
    for name in ("adam", "cain"):
        with pytest.raises(DataError, match=f"no token '{name}' that could be revoked"):
            store.revoke_token(name, 9.0)
    with store.read() as view:
        assert view.tokens() == (
            StoredToken("adam", "viewer", "pepper$hash", 2.0, None, 8.0),
            replace(token, last_used=9.0),
        )
        assert view.token("eve") == replace(token, last_used=9.0)
        assert view.token("cain") is None


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with store.read() as view:
        store.close()
        assert view.diagnoses().rows == ()
    store.close()
    with pytest.raises(DataError, match="the store is closed"):
        store.add_diagnosis(told(0))
    with pytest.raises(DataError, match="the store is closed"), store.read():
        pass
