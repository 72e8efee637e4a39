from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cgsa.bench.paper_values import Spread, ValueKey, comparable_paper_values, paper_values
from cgsa.bench.plan import Plan
from cgsa.bench.records import WHOLE_STREAM

FAULTS = ("gear_wear", "teeth_break", "teeth_crack")
TOTAL: ValueKey = (WHOLE_STREAM, WHOLE_STREAM, "accuracy", "Tent-Full")
OF_A_STAGE: ValueKey = ("gear_wear", "C1", "accuracy", "Tent-Full")


def test_the_papers_values_are_complete_and_consistent() -> None:
    """All 9 methods x 2 machines x 3 faults x 4 stages x 2 metrics; averages are the means of their parts."""
    values = {(value.scenario, *value.key): value.spread for value in paper_values()}
    faults = {(key[0], key[1]) for key in values if key[1] != "all"}
    assert len(faults) == 6
    by_fault = [key for key in values if key[1] != "all"]
    assert len(by_fault) == 2 * 3 * 4 * 2 * 9
    for scenario, fault, stage, metric, entry in by_fault:
        if metric == "accuracy" and stage == "all":
            stages = [values[scenario, fault, f"C{n}", metric, entry][0] for n in (1, 2, 3)]
            assert values[scenario, fault, stage, metric, entry][0] == pytest.approx(np.mean(stages), abs=1.1e-3)
    for (scenario, fault, _, metric, entry), (total, _) in values.items():
        averages = [
            values[scenario, f, "all", metric, entry][0]
            for s, f in faults
            if (s, f, "all", metric, entry) in values and s == scenario
        ]
        if fault == "all" and metric == "accuracy" and averages:
            assert total == pytest.approx(np.mean(averages), abs=1.1e-3)


def comparable(
    *, objective: str = "supcon", watched: int = 1, faults: tuple[str, ...] = FAULTS
) -> dict[ValueKey, Spread]:
    about = {"scenario": "gearbox", "entry": "Tent-Full", "objective": objective, "watched": watched}
    rows = [{**about, "fault": fault, "stage": stage} for fault, stage in product(faults, ("C1", WHOLE_STREAM))]
    return comparable_paper_values(rows, "gearbox")


def test_runs_by_the_papers_procedure_are_comparable() -> None:
    assert comparable()[TOTAL] == (0.818, 0.026)
    assert comparable()[OF_A_STAGE] == (0.752, 0.070)
    assert all(entry == "Tent-Full" for *_, entry in comparable())


def test_another_training_or_an_unseen_specimen_is_not_comparable() -> None:
    assert comparable(objective="cal") == {}
    assert comparable(watched=4) == {}
    assert comparable_paper_values([], "motor") == {}


def test_a_total_is_comparable_only_over_all_faults() -> None:
    some = comparable(faults=("gear_wear",))
    assert TOTAL not in some
    assert some[OF_A_STAGE] == (0.752, 0.070)


def test_every_value_has_an_entry_in_a_plan() -> None:
    """The plans that repeat the paper's tables name entries and objectives as the values do."""
    entries = {(entry.name, entry.objective) for plan in ("paper", "core") for entry in Plan.load(plan).entries}
    assert {(value.key[-1], value.objective) for value in paper_values()} <= entries
