from __future__ import annotations

import pytest

from cgsa.bench.speed.fleet import BATCHES, WARM_UP, measure_fleet
from cgsa.bench.speed.measure import RATE, Setting

SMALL = Setting(batch=8, channels=1, batches=WARM_UP + BATCHES + 1)


def test_the_speed_counts_all_machines() -> None:
    reported: list[tuple[int, int]] = []
    speed = measure_fleet(3, setting=SMALL, report=lambda done, total: reported.append((done, total)))
    assert reported[-1] == (WARM_UP + BATCHES, WARM_UP + BATCHES)
    assert speed.windows_per_second == pytest.approx(3 * SMALL.batch / speed.step_ms * 1e3)
    signal = SMALL.batch * SMALL.step / RATE
    assert speed.times_real_time == pytest.approx(signal / speed.step_ms * 1e3)
