from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Case, Comment, Label, Note
from cgsa.live.store import Snippet, Store
from cgsa.report.period import period_page
from tests.report.stored_batches import BEGUN, stored_batch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        for batch in range(60):
            state = "no data" if 20 <= batch < 25 else "health" if batch < 40 else "$wear$"
            opened.add_diagnosis(stored_batch(batch, state=state, flagged=256 if state == "no data" else 0))
        case = Case(1, "raised", "high", "$wear$", ("$wear$",), opened=BEGUN + 42, changed=BEGUN + 42)
        opened.add(100, 0, AlarmChange("press", BEGUN + 42, "opened", "$wear$", notify=True, case=case))
        opened.add(101, 0, Comment("press", BEGUN + 43, 1, "ann", "<b>bearing</b> ordered"))
        opened.add(102, 0, Label("press", BEGUN + 44, "ann", "wear", BEGUN + 40, BEGUN + 50, 1))
        opened.add(103, 0, Note("press", BEGUN + 20, "sensor", "flat line on x"))
        samples = np.random.default_rng(0).standard_normal((2, 5000)).astype(np.float32)
        samples[1] = np.nan
        opened.add(104, 0, Snippet("press", BEGUN + 41, 1, 12_800.0, ("x", "y"), samples))
        opened.flush()
        yield opened


def page(store: Store, begin: float = BEGUN, end: float = BEGUN + 61) -> str:
    with store.read() as snapshot:
        return period_page(snapshot, "press", begin, end).html


def test_the_page_shows_the_whole_period(store: Store) -> None:
    html = page(store)
    for text in (
        "press, 2023-11-14 22:13:20 UTC to 2023-11-14 22:14:21 UTC",
        "60 batches: 15,360 windows, of which 1,280 were rejected by the quality gate",
        "7,040 were used for adaptation",
        "1, raised",
        "nobody",
        "&lt;b&gt;bearing&lt;/b&gt; ordered",
        "flat line on x",
        "The signal at case 1",
    ):
        assert text in html
    assert "66.7%" not in html
    assert "58.3%" in html  # 35 of 60 s healthy
    assert html.count("<svg") == 2
    assert 'src="http' not in html
    assert 'href="http' not in html.replace('href="http://www.w3.org', "")


def test_a_case_from_before_is_shown_unless_it_was_closed_before(store: Store) -> None:
    assert "1, raised" in page(store, BEGUN + 50, BEGUN + 60)
    case = Case(1, "closed", "high", "wear", ("wear",), opened=BEGUN + 42, changed=BEGUN + 45, closed=BEGUN + 45)
    store.add(110, 0, AlarmChange("press", BEGUN + 45, "closed", "wear", notify=False, case=case))
    store.flush()
    assert "No alarm was raised" in page(store, BEGUN + 50, BEGUN + 60)


def test_an_empty_period_has_a_page(store: Store) -> None:
    assert "Nothing was diagnosed in this period" in page(store, BEGUN + 1e6, BEGUN + 2e6)
    with pytest.raises(DataError, match="expected one that ends after it begins"):
        page(store, BEGUN, BEGUN)
