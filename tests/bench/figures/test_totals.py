from __future__ import annotations

from cgsa.bench.figures import Drawing, all_drawings
from tests.bench.figures.made_records import RECORDS


def test_totals_are_means_over_faults_then_trials(drawings: dict[str, Drawing]) -> None:
    by_trial = [
        sum(float(str(r.whole_stream["accuracy"])) for r in RECORDS if (r.entry, r.trial) == ("CGSA", trial)) / 3
        for trial in range(2)
    ]
    mean, deviation = sum(by_trial) / 2, abs(by_trial[0] - by_trial[1]) / 2
    found = drawings["totals-gearbox"].table.rows
    assert [row[0] for row in found] == ["SupCon", "CGSA", "CoTTA"]
    assert found[1] == ("CGSA", f"{mean:.4f}", f"{deviation:.4f}", "2", "0.918", "0.037")


def test_the_papers_total_is_shown_only_for_all_faults() -> None:
    totals = all_drawings([record for record in RECORDS if record.fault != "teeth_crack"])[0]
    assert {row[4:] for row in totals.table.rows} == {("", "")}
