from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cgsa.bench.plan import Plan
from cgsa.bench.published import Place, Spread, paper_figures, published_beside
from cgsa.bench.records import WHOLE_STREAM

FAULTS = ("gear_wear", "teeth_break", "teeth_crack")
TOTAL: Place = (WHOLE_STREAM, WHOLE_STREAM, "accuracy", "Tent-Full")
OF_A_STAGE: Place = ("gear_wear", "C1", "accuracy", "Tent-Full")


def test_the_papers_figures_are_whole_and_hold_together() -> None:
    """All 9 methods x 2 machines x 3 faults x 4 stages x 2 metrics; averages are the means of their parts."""
    values = {(figure.scenario, *figure.place): figure.spread for figure in paper_figures()}
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


def beside(*, objective: str = "supcon", watched: int = 1, faults: tuple[str, ...] = FAULTS) -> dict[Place, Spread]:
    about = {"scenario": "gearbox", "entry": "Tent-Full", "objective": objective, "watched": watched}
    rows = [{**about, "fault": fault, "stage": stage} for fault, stage in product(faults, ("C1", WHOLE_STREAM))]
    return published_beside(rows, "gearbox")


def test_the_papers_figures_stand_beside_what_was_done_alike() -> None:
    assert beside()[TOTAL] == (0.818, 0.026)
    assert beside()[OF_A_STAGE] == (0.752, 0.070)
    assert all(entry == "Tent-Full" for *_, entry in beside())


def test_no_figure_stands_beside_another_start_or_an_unknown_assembly() -> None:
    assert beside(objective="cal") == {}
    assert beside(watched=4) == {}
    assert published_beside([], "motor") == {}


def test_a_total_stands_beside_all_faults_alone() -> None:
    some = beside(faults=("gear_wear",))
    assert TOTAL not in some
    assert some[OF_A_STAGE] == (0.752, 0.070)


def test_every_figure_finds_its_entry() -> None:
    """The plans that repeat the paper's tables name entries and objectives as the figures do."""
    entries = {(entry.name, entry.objective) for plan in ("paper", "core") for entry in Plan.load(plan).entries}
    assert {(figure.place[-1], figure.objective) for figure in paper_figures()} <= entries
