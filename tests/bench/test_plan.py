from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Entry, Meeting, Plan, Training, builtin_plans
from cgsa.errors import ConfigError, UnknownNameError
from cgsa.offline import OBJECTIVES
from cgsa.online import METHODS

PLAN = Plan(
    "p",
    ("gearbox",),
    (Entry("A", "plain", "source"), Entry("B", "cal", "source"), Entry("C", "cal", "cgsa")),
    trials=2,
)


@pytest.mark.parametrize("name", list(builtin_plans()))
def test_builtin_plans_name_things_that_exist(name: str) -> None:
    plan = Plan.load(name)
    assert plan.trials == 10
    assert plan.seed == 10
    for entry in plan.entries:
        assert entry.objective in OBJECTIVES
        METHODS[entry.method].Config(**entry.settings)


def test_every_method_meets_every_fault_in_every_trial() -> None:
    meetings = PLAN.meetings()
    assert len(meetings) == 3 * 3 * 2
    assert len({meeting.key for meeting in meetings}) == len(meetings)
    assert PLAN.trainings() == [
        Training("gearbox", "plain", 0),
        Training("gearbox", "cal", 0),
        Training("gearbox", "plain", 1),
        Training("gearbox", "cal", 1),
    ]


def test_seeds_depend_on_the_job_alone() -> None:
    smaller = replace(PLAN, entries=PLAN.entries[2:], trials=1)
    job = Meeting("gearbox", "gear_wear", PLAN.entries[2], 0)
    assert PLAN.job_seed(job) == smaller.job_seed(job)
    jobs: list[Meeting | Training] = [*PLAN.meetings(), *PLAN.trainings()]
    seeds = [PLAN.job_seed(each) for each in jobs]
    assert len(set(seeds)) == len(seeds)
    assert replace(PLAN, seed=11).job_seed(job) != PLAN.job_seed(job)


def test_mistakes_in_a_plan_are_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown plan 'cor'; known: core"):
        Plan.load("cor")
    with pytest.raises(ConfigError, match="two of them have the same name"):
        replace(PLAN, entries=(*PLAN.entries, Entry("A", "cal", "source")))
    with pytest.raises(ConfigError, match="at least one scenario"):
        replace(PLAN, trials=0)
    path = tmp_path / "bad.toml"
    path.write_text('name = "x"\nscenarios = ["gearbox"]\n[[entries]]\nname = "A"\nmethod = "source"\n')
    with pytest.raises(ConfigError, match=r"entries\[0\]\.objective: missing"):
        Plan.load(path)
