"""``cgsa demo`` on the toy machine: its recordings take the place of simulated ones, and training takes seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cgsa.cli.demo_progress import StepTimes, step_progress, time_text
from cgsa.config import parse_assignments
from cgsa.data.readers.parquet import write_parquet
from cgsa.profile import Profile
from tests.cli.running import run_cgsa
from tests.machines import ToyLibrary
from tests.test_workflow import TOY_PROFILE
from tests.toy_files import RUNS, write_toy

STATES = ("health", "wear", "crack")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenario and, as if they had been simulated, two assemblies of the toy machine."""
    folder = write_toy(tmp_path_factory.mktemp("demo"))
    for specimen in (1, 2):
        for state in STATES:
            for key, run in RUNS.items():
                recording = ToyLibrary().get(state, key, severity="H", specimen=specimen)
                name = f"{state}_{run}" if state == "health" else f"{state}_H_{run}"
                write_parquet(recording, folder / "toy-2-specimens" / f"specimen_{specimen}" / f"{name}.parquet")
    return folder


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Profiles that suit the toy machine, and no simulator."""
    profiles = {
        "quick": Profile.load("paper", parse_assignments(TOY_PROFILE)),
        "recommended": Profile.load("recommended", {"ensemble": {"seconds": 0.25}}),
    }
    monkeypatch.setattr(Profile, "load", profiles.__getitem__)
    monkeypatch.setattr("cgsa.rigs.simulation.scenario_jobs", lambda *_: [])


@pytest.mark.usefixtures("small")
def test_the_demo_trains_runs_all_approaches_and_writes_a_page(toy: Path) -> None:
    words = ("demo", toy / "toy.toml", "--folder", toy, "--fault", "crack", "--device", "cpu")
    found = json.loads(run_cgsa(*words, "--json"))
    assert found["fault"] == "crack"
    assert list(found["approaches"]) == ["alone", "paper", "recommended"]
    assert all(0 <= one["verdicts_right"] <= 1 for one in found["approaches"].values())
    page = Path(found["report"]).read_text()
    assert page.count('<section class="card') == 4
    models = {path: path.stat().st_mtime_ns for path in toy.glob("toy-*/manifest.json")}
    assert len(models) == 2

    shown = run_cgsa(*words)
    assert {path: path.stat().st_mtime_ns for path in toy.glob("toy-*/manifest.json")} == models
    assert max(len(line) for line in shown.splitlines() if str(toy) not in line) <= 80
    joined = " ".join(shown.split())
    assert found["outcome"] in joined
    assert found["headline"] in joined
    for command in ("cgsa serve --demo", "cgsa import data/ machine/", "cgsa watch model/ new.csv"):
        assert command in shown
    for one in found["approaches"].values():
        assert f"{one['verdicts_right']:.1%}" in shown


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_the_pace() -> None:
    clock = Clock()
    times = StepTimes({"simulate": 30.0, "train": 60.0}, clock)
    assert times.left == pytest.approx(90)
    times.begin("simulate")
    clock.now = 60.0
    times.begin("train")
    # Twice as slow so far; the usual durations still count a little.
    assert times.left == pytest.approx(60 * 70 / 40)
    times.update(0.5)
    clock.now = 120.0
    assert times.left == pytest.approx(30 * 130 / 70)
    times.finish()
    assert times.left == 0


@given(st.lists(st.floats(0, 1), max_size=20))
def test_what_is_done_never_decreases(shares: list[float]) -> None:
    times = StepTimes({"one": 10.0, "two": 5.0}, Clock())
    times.begin("one")
    before = 0.0
    for share in shares:
        times.update(share)
        assert before <= times.done <= 10
        before = times.done
    times.begin("two")
    assert times.done == 10


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "a few seconds"), (14, "10 s"), (58, "1 min 00 s"), (131, "2 min 10 s")]
)
def test_times_are_round(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_without_a_terminal_every_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with step_progress({"Simulate": 30.0, "Train": 60.0}, Console(force_terminal=False)) as progress:
        progress.begin("Simulate")
        progress.update(1, 2)
        progress.begin("Train")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Simulate ... about 1 min 30 s left"
    assert lines[1].startswith("Train ... about ")


def test_on_a_terminal_the_bar_has_the_time_left() -> None:
    console = Console(force_terminal=True, width=80, record=True)
    with step_progress({"Simulate": 30.0}, console) as progress:
        progress.begin("Simulate")
        progress.update(0, 0)
        assert console.is_terminal
