from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.scenario import Scenario
from cgsa.offline.run import Progress
from cgsa.profile import Profile
from cgsa.rigs.simulation import SimulationJob
from cgsa.service import demo
from cgsa.service.demo import DEMO_MACHINES, PROFILE, SCENARIO, SIMULATING, TRAINING, WRITING, crossfade, prepare_demo


@given(lengths=st.lists(st.integers(20, 60), min_size=1, max_size=4), overlap=st.integers(2, 10), loops=st.booleans())
def test_recordings_crossfade_also_when_looping(lengths: list[int], overlap: int, *, loops: bool) -> None:
    parts = [np.full((2, length), float(level), np.float32) for level, length in enumerate(lengths)]
    joined = crossfade(parts, overlap, loops=loops)
    seams = len(lengths) if loops else len(lengths) - 1
    assert joined.shape == (2, sum(lengths) - overlap * seams)
    whole = np.concatenate([joined, joined[:, :1]], axis=1) if loops else joined
    # No step is a whole level: nothing clicks, not even where it begins again.
    steps = np.abs(np.diff(whole[0])).max(initial=0.0)
    assert steps <= np.pi / 2 * max(1, len(lengths) - 1) / (overlap - 1) + 1e-6
    for level, length in enumerate(lengths):
        assert np.count_nonzero(joined[0] == level) >= length - 2 * overlap


def test_demo_machines_match_the_scenario() -> None:
    plan = Scenario.load(SCENARIO)
    for machine in DEMO_MACHINES:
        assert plan.require_fault(machine.fault) == machine.fault
        assert max(*machine.first, *machine.then) < len(plan.online)
    # The first stage is healthy to its end.
    assert plan.online[0].fault_from == 1.0


def test_the_preparation_reports_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything slow replaced; what is there already is not made again."""
    reports: list[tuple[str, int, int]] = []

    def simulate(jobs: Sequence[SimulationJob], workers: int, done: Callable[[Path], None]) -> None:
        for job in jobs:
            done(job.path)

    class Trained:
        def save(self, folder: Path) -> None:
            folder.mkdir()

    def train(*_: object, report: Callable[[Progress], None]) -> list[Trained]:
        report(Progress(Profile.load(PROFILE).default_objective, 1, 20, 5, 10, None))
        report(Progress("without level 1 of 5", 0, 20, 5, 10, None))
        return [Trained()]

    monkeypatch.setattr(demo, "run_simulations", simulate)
    monkeypatch.setattr(demo, "train", train)
    monkeypatch.setattr(demo, "training_windows", lambda *_: None)
    monkeypatch.setattr(demo, "FolderLibrary", lambda _: None)
    monkeypatch.setattr(demo, "_recording", lambda *_, **__: None)
    monkeypatch.setattr(demo, "write_parquet", lambda *_: None)
    prepare_demo(tmp_path, lambda *report: reports.append(report), workers=1)
    simulated = [report[1:] for report in reports if report[0] == SIMULATING]
    assert simulated == [(done, len(simulated) - 1) for done in range(len(simulated))]
    assert [report for report in reports if "rain" in report[0]] == [
        (TRAINING, 0, 0),
        (TRAINING, 15, 200),
        (f"{TRAINING}: without level 1 of 5", 5, 200),
    ]
    assert reports[-1] == (WRITING, len(DEMO_MACHINES), len(DEMO_MACHINES))
    reports.clear()
    prepare_demo(tmp_path, lambda *report: reports.append(report), workers=1)
    assert TRAINING not in {name for name, _, _ in reports}
