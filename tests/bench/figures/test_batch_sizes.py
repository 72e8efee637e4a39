from __future__ import annotations

from cgsa.bench.figures import all_drawings
from tests.bench.figures.made_records import FAULTS, make_record


def test_batch_sizes_have_accuracy_and_time() -> None:
    records = [
        make_record(f"CGSA batch_size={size}", fault, trial, batch_size=size)
        for size in (200, 50)
        for fault in FAULTS[:2]
        for trial in range(2)
    ]
    drawing = all_drawings(records)[-1]
    assert drawing.name == "batch-size-gearbox"
    by_trial = [
        sum(
            float(str(r.whole_stream["accuracy"]))
            for r in records
            if (r.trial, r.whole_stream["batch_size"]) == (trial, 50)
        )
        / 2
        for trial in range(2)
    ]
    mean, deviation = sum(by_trial) / 2, abs(by_trial[0] - by_trial[1]) / 2
    assert drawing.table.rows[0] == ("cgsa from cal", "50", f"{mean:.4f}", f"{deviation:.4f}", "2.00")
    assert drawing.table.rows[1][1] == "200"
