from __future__ import annotations

import json
from dataclasses import replace

import pytest
from benchmarks import false_alarms, healthy_only_day

from cgsa.bench.plan import training_jobs
from cgsa.bench.readings.choose import STATED_EPOCHS, fits_counts
from cgsa.bench.readings.grid import (
    METHODS_OF_A_READING,
    OTHER_PUBLISHED,
    Reading,
    ReadingGrid,
    last_published_specimen,
)
from cgsa.config import as_table, bind
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.offline import OBJECTIVES

GRID = ReadingGrid.load()
PLAN = GRID.plan()


def by_name(name: str) -> Reading:
    return next(one for one in GRID.readings if one.name == name)


def test_there_are_at_least_forty_readings_with_three_seeds() -> None:
    assert len(GRID.readings) >= 40
    assert GRID.trials >= 3
    assert len({one.name for one in GRID.readings}) == len(GRID.readings)
    bound = [
        (as_table(replace(GRID.profile_of(one.settings), objective={})), bound_objectives(one)) for one in GRID.readings
    ]
    assert len({json.dumps(one, sort_keys=True) for one in bound}) == len(bound)


def bound_objectives(reading: Reading) -> dict[str, object]:
    profile = GRID.profile_of(reading.settings)
    return {
        name: as_table(bind(OBJECTIVES[name].Config, profile.objective_settings(name), name))
        for name in ("plain", "dann", "cal")
    }


def test_no_published_result_uses_an_assembly_of_the_grid() -> None:
    assert max(false_alarms.ASSEMBLIES, healthy_only_day.ASSEMBLIES) <= OTHER_PUBLISHED <= last_published_specimen()
    assert min(PLAN.simulated_specimens) > last_published_specimen()
    assert PLAN.watched in PLAN.simulated_specimens
    with pytest.raises(ConfigError, match="published results use assemblies up to 12"):
        replace(GRID, first_specimen=12)


def test_every_reading_has_all_rows_of_the_ablation_under_its_own_settings() -> None:
    entries = {entry.name: entry for entry in PLAN.entries}
    for reading in GRID.readings:
        for method, (objective, online, settings) in METHODS_OF_A_READING.items():
            entry = entries[GRID.entry_of(reading, method)]
            assert (entry.objective, entry.method, entry.settings) == (objective, online, settings)
            theirs, ours = PLAN.profile_of("gearbox", entry.profile), GRID.profile_of(reading.settings)
            assert theirs.network == ours.network
            assert theirs.train == replace(
                ours.train,
                discriminator=theirs.train.discriminator if objective == "plain" else ours.train.discriminator,
            )
            config = OBJECTIVES[objective].Config
            assert bind(config, theirs.objective_settings(objective), "") == bind(
                config, ours.objective_settings(objective), ""
            )


def test_readings_that_differ_in_cal_alone_share_the_other_trainings() -> None:
    for method in ("Baseline", "DANN"):
        assert GRID.entry_of(by_name("today, weight 0.1"), method) == GRID.entry_of(by_name("today"), method)
    assert GRID.entry_of(by_name("today, weight 0.1"), "CAL") != GRID.entry_of(by_name("today, weight 0.01"), "CAL")
    assert GRID.entry_of(by_name("today, norm none"), "Baseline") == GRID.entry_of(by_name("today"), "Baseline")
    assert GRID.entry_of(by_name("today, norm none"), "DANN") != GRID.entry_of(by_name("today"), "DANN")
    keys = [job.key for job in training_jobs(PLAN.stream_runs())]
    assert len(set(keys)) == len(keys)


def test_the_longest_trainings_begin_first() -> None:
    epochs = [PLAN.profile_of("gearbox", job.profile).train.epochs for job in training_jobs(PLAN.stream_runs())]
    assert epochs[: len(epochs) // PLAN.trials] == sorted(epochs[: len(epochs) // PLAN.trials], reverse=True)


def test_the_parameter_counts_of_readings_are_compared_with_the_papers() -> None:
    scenario = Scenario.load("gearbox")
    counted = {one.name: fits_counts(GRID.profile_of(one.settings), scenario) for one in GRID.readings}
    assert [name for name, fits in counted.items() if not fits] == ["today, norm affine"]
    assert counted["candidate, norm affine"]


def test_the_candidate_of_the_grid_is_the_declared_one() -> None:
    profile = GRID.profile_of(by_name("candidate").settings)
    assert (profile.network.tap, profile.train.views, profile.train.epochs, profile.train.step) == (
        256,
        "every",
        12,
        64,
    )
    assert profile.objective_settings("cal") == {"adversary_weight": 0.03}
    assert profile.train.discriminator.widths(profile.network.tap) == (128, 64)
    assert any(GRID.profile_of(one.settings).train.epochs == STATED_EPOCHS for one in GRID.readings)


def test_a_crossing_names_what_there_is() -> None:
    with pytest.raises(ConfigError, match="crossings of nothing: no such base or change; known: today, "):
        bind(
            ReadingGrid,
            {**as_table(GRID), "crossings": [{"base": "today", "changes": ["nothing"]}]},
            "grid",
        )
    with pytest.raises(ConfigError, match="bases: expected at least one"):
        bind(ReadingGrid, {**as_table(GRID), "bases": {}, "crossings": []}, "grid")
