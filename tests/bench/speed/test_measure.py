from __future__ import annotations

import pytest

from cgsa.bench.speed import measure as module
from cgsa.bench.speed.measure import ENGINES, LITERAL, Setting, grow, measure
from cgsa.nn.mlp import count_parameters

SMALL = Setting(batch=8, channels=1, batches=4)


def test_the_default_setting_is_the_papers() -> None:
    assert count_parameters(Setting().bundle().network) == 6_965_316
    assert len(Setting(batches=3).windows()) == 3 * 256


def test_every_engine_is_compared_with_the_literal_loop() -> None:
    reported: list[tuple[int, int]] = []
    speeds = measure(SMALL, report=lambda done, total: reported.append((done, total)))
    assert [speed.engine for speed in speeds] == [LITERAL, *ENGINES["cpu"]]
    assert speeds[0].ratio == 1.0
    for speed in speeds:
        assert speed.windows_per_second == pytest.approx(1e3 * SMALL.batch / speed.p50_ms)
        assert speed.ratio == pytest.approx(speeds[0].p50_ms / speed.p50_ms)
        assert 0 < speed.p50_ms <= speed.p99_ms
        assert speed.share > 0
    assert reported == [(4, 4)]


def test_costs_are_relative_to_the_default_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Setting", lambda: SMALL)
    found = grow("float32", {"batch": (4, 16), "batches": (6,)})
    assert [(one.what, one.value) for one in found] == [("batch", 4), ("batch", 16), ("batches", 6)]
    assert all(one.cost > 0 for one in found)
