from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Plan, PlanEntry
from cgsa.bench.records import WHOLE_STREAM, RunRecord
from cgsa.bench.stream_details import BatchSeries, StreamDetails
from cgsa.bench.tuning import (
    TUNING_SPECIMEN,
    SearchRange,
    best_settings,
    restrict_to_scenarios,
    search_plan,
    search_spaces,
    tuned_plan,
)
from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.online import METHODS

PLAN = Plan(
    "p",
    ("gearbox", "motor"),
    (
        PlanEntry("Frozen", "supcon", "source"),
        PlanEntry("Tent", "supcon", "tent_full"),
        PlanEntry("Ours", "cal", "cgsa", {"queue": 20}),
        PlanEntry("LAME", "supcon", "lame"),
    ),
    trials=3,
)


def make_record(entry: PlanEntry, accuracy: float, fault: str = "f") -> RunRecord:
    row = {"scenario": "s", "fault": fault, "entry": entry.name, "trial": 0, "stage": WHOLE_STREAM}
    row |= {"accuracy": accuracy, "settings": json.dumps(dict(entry.settings))}
    return RunRecord((row,), StreamDetails(BatchSeries((), (), (), ()), (), None))


def test_every_range_is_a_setting_of_its_method() -> None:
    spaces = search_spaces()
    assert spaces.keys() == set(METHODS) - {"source", "cofa", "reference", "commissioning", "change"}
    for method, ranges in spaces.items():
        known = {field.name for field in fields(METHODS[method].Config)}
        assert ranges.keys() <= known
    rates = {
        (each.low, each.high) for ranges in spaces.values() for name, each in ranges.items() if name.endswith("lr")
    }
    assert len(rates) == 1, "the same range of learning rates for all"


def test_every_method_gets_the_same_number_of_draws_and_its_defaults_first() -> None:
    plan = search_plan(PLAN, 5)
    names = [entry.name for entry in plan.entries]
    assert names == ["Frozen #0", *(f"{name} #{n}" for name in ("Tent", "Ours", "LAME") for n in range(5))]
    by_name = {entry.name: entry for entry in plan.entries}
    assert by_name["Ours #0"].settings == {"queue": 20}
    assert by_name["Ours #3"].settings.keys() == {"queue", "lr", "tau", "min_confidence"}
    for entry in plan.entries:
        bind(METHODS[entry.method].Config, entry.settings, entry.name)
    assert len({json.dumps(dict(entry.settings)) for entry in plan.entries if entry.method == "cgsa"}) == 5
    assert plan == search_plan(PLAN, 5), "drawn from the seed of the plan"


def test_a_search_uses_nothing_that_a_comparison_scores() -> None:
    plan = search_plan(PLAN, 2)
    assert (plan.watched, plan.first_trial, plan.trials) == (TUNING_SPECIMEN, 3, 1)
    assert PLAN.watched != TUNING_SPECIMEN
    assert not {job.training for job in plan.stream_runs()} & {job.training for job in PLAN.stream_runs()}


def test_candidates_are_read_back_as_written(tmp_path: Path) -> None:
    plan = search_plan(PLAN, 4)
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml())
    assert Plan.load(path) == plan


def test_the_best_mean_is_chosen_and_defaults_win_a_tie() -> None:
    drawn = {entry.name: entry for entry in search_plan(PLAN, 3).entries}
    scores = {"Tent #0": (0.5, 0.5), "Tent #1": (0.9, 0.0), "Tent #2": (0.4, 0.8)}
    scores |= {f"Ours #{n}": (0.7, 0.7) for n in range(3)} | {f"LAME #{n}": (n / 10, n / 10) for n in range(3)}
    scores["Frozen #0"] = (0.3, 0.3)
    records = [
        make_record(drawn[name], value, fault)
        for name, values in scores.items()
        for fault, value in zip(("f", "g"), values, strict=True)
    ]
    choices = {choice.entry.name: choice for choice in best_settings(PLAN, records)}
    assert choices["Tent"].entry.settings == drawn["Tent #2"].settings
    assert choices["Tent"].default == 0.5
    assert choices["Tent"].best == pytest.approx(0.6)
    assert choices["Ours"].entry.settings == {"queue": 20}
    assert choices["LAME"].entry.settings == drawn["LAME #2"].settings
    result = tuned_plan(PLAN, list(choices.values()))
    assert result.name == "p-tuned"
    assert [entry.name for entry in result.entries] == ["Frozen", "Tent", "Ours", "LAME"]
    assert (result.watched, result.trials) == (PLAN.watched, PLAN.trials)
    with pytest.raises(ConfigError, match="no record of Tent with its defaults"):
        best_settings(PLAN, [record for record in records if record.entry != "Tent #0"])


def test_a_method_that_does_nothing_is_named() -> None:
    drawn = [entry for entry in search_plan(PLAN, 1).entries if not entry.name.startswith("LAME")]
    shares = {"Frozen #0": 0.0, "Tent #0": 0.0004, "Ours #0": 0.02}
    records = [make_record(entry, 0.5) for entry in drawn]
    changed = [
        replace(record, rows=({**record.whole_stream, "changed_share": shares[record.entry]},)) for record in records
    ]
    plan = replace(PLAN, entries=PLAN.entries[:3])
    choices = best_settings(plan, changed)
    assert [(one.changed, one.is_no_op) for one in choices] == [(0.0, False), (0.0004, True), (0.02, False)]
    assert not any(one.is_no_op for one in best_settings(plan, records)), "rows of older versions do not say"


def test_a_plan_can_be_restricted_to_scenarios() -> None:
    assert restrict_to_scenarios(PLAN, []) is PLAN
    narrow = restrict_to_scenarios(PLAN, ["motor"])
    assert (narrow.name, narrow.scenarios) == ("p-motor", ("motor",))
    with pytest.raises(ConfigError, match="no scenario mill; it has gearbox, motor"):
        restrict_to_scenarios(PLAN, ["mill"])


@pytest.mark.parametrize(
    "wrong",
    [{}, {"low": 1.0, "high": 1.0}, {"low": 0.0, "high": 1.0, "log": True}, {"low": 0, "high": 1, "choices": [1]}],
)
def test_senseless_ranges_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected either low < high"):
        bind(SearchRange, wrong, "range")
