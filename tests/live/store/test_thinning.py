from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError
from cgsa.ledger.columns import STANDS_FOR, Columns, LabelColumn, stands_for
from cgsa.live.store.thinning import LedgerBudget, averaged_windows, sampled_windows
from tests.live.store.examples import columns, plain


def kinds(found: Columns) -> list[tuple[object, ...]]:
    """Return the labels and the use of each row."""
    names = [name for name, column in found.items() if isinstance(column, LabelColumn) or name == "accepted"]
    return list(zip(*(plain(found[name]) for name in names), strict=True))


def totals(found: Columns) -> Counter[tuple[object, ...]]:
    """Return how many windows there were of each kind."""
    counts: Counter[tuple[object, ...]] = Counter()
    for kind, count in zip(kinds(found), stands_for(found), strict=True):
        counts[kind] += int(count)
    return counts


@given(windows=st.integers(1, 60), seed=st.integers(0, 99), every=st.integers(1, 20), learns=st.booleans())
def test_thinned_windows_stand_for_all(*, windows: int, seed: int, every: int, learns: bool) -> None:
    whole = columns(7.0, windows, seed, learns=learns)
    sampled = sampled_windows(whole, every)
    means = averaged_windows(sampled, 2.0)
    assert totals(whole) == totals(sampled) == totals(means)
    # Counted literally: of each kind, the windows number 0, `every`, 2 * `every` and so on.
    seen: Counter[tuple[object, ...]] = Counter()
    expected = []
    for row, kind in enumerate(kinds(whole)):
        if seen[kind] % every == 0:
            expected.append(row)
        seen[kind] += 1
    for name, column in whole.items():
        values = plain(column)
        assert plain(sampled[name]) == [values[row] for row in expected]


@given(windows=st.integers(1, 60), seed=st.integers(0, 99), seconds=st.sampled_from([0.5, 2.0, 100.0]))
def test_means_are_those_of_the_windows(windows: int, seed: int, seconds: float) -> None:
    whole = columns(7.0, windows, seed)
    found = averaged_windows(whole, seconds)
    times, of_kind = np.asarray(whole["time"]), kinds(whole)
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in range(windows):
        groups.setdefault((times[row] // seconds, *of_kind[row]), []).append(row)
    assert plain(found[STANDS_FOR]) == [len(rows) for rows in groups.values()]
    assert plain(found["time"]) == [times[rows[0]] for rows in groups.values()]
    for name in ("confidence", "deviation"):
        values = np.asarray(whole[name])
        literal = [[values[row] for row in rows if np.isfinite(values[row])] for rows in groups.values()]
        means = [np.mean(known, dtype=np.float64) if known else np.nan for known in literal]
        np.testing.assert_allclose(np.asarray(found[name]), means, rtol=1e-6)


def test_a_budget_needs_ages_in_ascending_order() -> None:
    with pytest.raises(ConfigError, match="expected 0 or more, and sampled_hours not below whole_hours"):
        LedgerBudget(whole_hours=2, sampled_hours=1)
    with pytest.raises(ConfigError, match="megabytes 0; expected at least 1, and more than 0"):
        LedgerBudget(megabytes=0)
