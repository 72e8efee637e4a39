from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Plan, PlanEntry, StreamRun, TrainingJob, builtin_plans, part_filter, training_jobs
from cgsa.errors import ConfigError, UnknownNameError
from cgsa.offline import OBJECTIVES
from cgsa.online import METHODS
from cgsa.profile import Profile
from cgsa.workflow import ENSEMBLE

PLAN = Plan(
    "p",
    ("gearbox",),
    (PlanEntry("A", "plain", "source"), PlanEntry("B", "cal", "source"), PlanEntry("C", "cal", "cgsa")),
    trials=2,
)


@pytest.mark.parametrize("name", list(builtin_plans()))
def test_builtin_plans_name_things_that_exist(name: str) -> None:
    plan = Plan.load(name)
    assert plan.seed == 10
    for entry in plan.entries:
        assert entry.objective in OBJECTIVES or entry.objective == ENSEMBLE
        METHODS[entry.method].Config(**entry.settings)


def test_every_method_runs_on_every_fault_in_every_trial() -> None:
    runs = PLAN.stream_runs()
    assert len(runs) == 3 * 3 * 2
    assert len({run.key for run in runs}) == len(runs)
    assert training_jobs(runs) == [
        TrainingJob("gearbox", "plain", 0),
        TrainingJob("gearbox", "cal", 0),
        TrainingJob("gearbox", "plain", 1),
        TrainingJob("gearbox", "cal", 1),
    ]


def test_seeds_depend_only_on_the_job() -> None:
    smaller = replace(PLAN, entries=PLAN.entries[2:], trials=1)
    job = StreamRun("gearbox", "gear_wear", PLAN.entries[2], 0)
    assert PLAN.job_seed(job) == smaller.job_seed(job)
    jobs: list[StreamRun | TrainingJob] = [*PLAN.stream_runs(), *training_jobs(PLAN.stream_runs())]
    seeds = [PLAN.job_seed(each) for each in jobs]
    assert len(set(seeds)) == len(seeds)
    assert replace(PLAN, seed=11).job_seed(job) != PLAN.job_seed(job)


def test_mistakes_in_a_plan_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown plan 'cor'; did you mean 'core'\\? known: batch-size, core"):
        Plan.load("cor")
    with pytest.raises(ConfigError, match="two of them have the same name"):
        replace(PLAN, entries=(*PLAN.entries, PlanEntry("A", "cal", "source")))
    with pytest.raises(ConfigError, match="at least one scenario"):
        replace(PLAN, trials=0)
    for name in ("models", "rotate", "../elsewhere", "..", ""):
        with pytest.raises(ConfigError, match="must be its own"):
            replace(PLAN, name=name)
    path = tmp_path / "bad.toml"
    path.write_text('name = "x"\nscenarios = ["gearbox"]\n[[entries]]\nname = "A"\nmethod = "source"\n')
    with pytest.raises(ConfigError, match=r"entries\[0\]\.objective: missing"):
        Plan.load(path)


def test_a_grid_expands_into_all_combinations(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(
        'name = "x"\nscenarios = ["gearbox"]\n[[entries]]\nname = "CGSA"\nobjective = "cal"\nmethod = "cgsa"\n'
        "settings = { lr = 1e-4 }\ngrid = { tau = [0.1, 0.2], queue = [10, 50], batch_size = [64] }\n"
    )
    entries = Plan.load(path).entries
    assert [entry.name for entry in entries] == [
        f"CGSA tau={tau} queue={queue} batch_size=64" for tau in (0.1, 0.2) for queue in (10, 50)
    ]
    assert entries[1].settings == {"lr": 1e-4, "tau": 0.1, "queue": 50}
    assert {entry.batch_size for entry in entries} == {64}


def test_a_written_plan_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    plan = replace(
        PLAN,
        faults=("gear_wear",),
        settings={"gearbox": {"window": {"length": 128}}},
        entries=(PlanEntry("A, 'b' \"c\"", "cal", "cgsa", {"tau": 1e-5, "by_residual": False}, 32), *PLAN.entries[1:]),
    )
    path.write_text(plan.to_toml())
    assert Plan.load(path) == plan


def test_settings_may_differ_by_scenario() -> None:
    plan = replace(PLAN, settings={"gearbox": {"window": {"length": 128}}})
    assert plan.profile_of("gearbox").window.length == 128
    assert plan.profile_of("motor").window.length == 1024
    with pytest.raises(ConfigError, match="settings of moter: no such scenario"):
        replace(PLAN, settings={"moter": {}})


def test_faults_may_be_selected() -> None:
    plan = replace(PLAN, scenarios=("gearbox", "motor"), faults=("gear_wear", "bearing_ball"))
    assert {(job.scenario, job.fault) for job in plan.stream_runs()} == {
        ("gearbox", "gear_wear"),
        ("motor", "bearing_ball"),
    }


def test_a_part_of_a_plan_can_be_selected() -> None:
    plan = replace(PLAN, scenarios=("gearbox", "motor"))
    assert part_filter(plan, []) is None
    is_included = part_filter(plan, ["gearbox/cal", "motor"])
    assert is_included is not None
    kept = {(job.scenario, job.entry.objective) for job in plan.stream_runs() if is_included(job)}
    assert kept == {("gearbox", "cal"), ("motor", "plain"), ("motor", "cal")}
    with pytest.raises(ConfigError, match="no part 'gearbox/dann'; it has gearbox/cal, gearbox/plain"):
        part_filter(plan, ["gearbox/dann"])


def test_plans_may_inherit_in_several_steps(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text('like = "core"\nname = "first"\ntrials = 2\n')
    second.write_text(f'like = "{first}"\nname = "second"\n')
    plan = Plan.load(second)
    assert (plan.name, plan.trials, plan.entries) == ("second", 2, Plan.load("core").entries)


def test_circular_inheritance_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(f'like = "{second}"\n')
    second.write_text(f'like = "{first}"\n')
    with pytest.raises(ConfigError, match="cannot be like each other"):
        Plan.load(first)


def test_a_plan_may_have_its_own_profiles() -> None:
    plan = Plan(
        "p",
        ("gearbox", "motor"),
        (PlanEntry("A", "cal", "source"), PlanEntry("B", "cal", "source", profile="bands")),
        profile="quick",
        profiles={"bands": {"network": {"frontend": "bands"}, "window": {"step": 8}}},
        settings={"gearbox": {"window": {"step": 4}}},
    )
    assert [training.key for training in training_jobs(plan.stream_runs()[:2])] == [
        "gearbox-cal-0",
        "gearbox-cal-bands-0",
    ]
    assert plan.profile_of("motor", "bands") == Profile.load(
        "quick", {"network": {"frontend": "bands"}, "window": {"step": 8}}
    )
    # Settings of an entry take precedence over those of a scenario.
    assert plan.profile_of("gearbox", "bands").window.step == 8
    assert plan.profile_of("gearbox").window.step == 4
    assert plan.profile_of("gearbox").network.frontend == "raw"


def test_an_entry_may_have_its_own_profile() -> None:
    other = PlanEntry("D", "cal", "source", profile="quick")
    plan = replace(PLAN, entries=(*PLAN.entries, other), settings={"gearbox": {"window": {"length": 128}}})
    jobs = [job for job in plan.stream_runs() if job.entry.name in {"B", "D"} and job.trial == 0]
    assert len({job.training for job in jobs}) == 2
    assert TrainingJob("gearbox", "cal", 0, "quick").key == "gearbox-cal-quick-0"
    assert plan.profile_of("gearbox", "quick").train.epochs == 10
    assert plan.profile_of("gearbox", "quick").window.length == 128
    assert plan.profile_of("gearbox").train.epochs == 200


@pytest.mark.parametrize(("name", "base"), [("fair", "paper"), ("fair-core", "core")])
def test_a_fair_comparison_has_the_same_views_for_every_objective_and_rows_without(name: str, base: str) -> None:
    fair, inherited = Plan.load(name), Plan.load(base)
    assert fair.entries[: len(inherited.entries)] == inherited.entries
    for scenario in fair.scenarios:
        for entry in fair.entries:
            views = fair.profile_of(scenario, entry.profile).train.views
            assert views == ("none" if entry.name.endswith(", no views") else "every")
    assert {entry.objective for entry in fair.entries[len(inherited.entries) :]} == {
        entry.objective for entry in inherited.entries
    }


def test_the_studies_have_ten_trials() -> None:
    assert {Plan.load(name).trials for name in ("tau-epsilon", "tau-queue", "batch-size")} == {10}


def test_specimens_may_begin_anywhere() -> None:
    plan = replace(Plan.load("core"), first_specimen=41, specimens=2, watched=43)
    assert (plan.trained_specimens, plan.simulated_specimens) == (range(41, 43), range(41, 44))
    with pytest.raises(ConfigError, match="expected 1 <= first_specimen <= watched"):
        replace(plan, watched=1)
