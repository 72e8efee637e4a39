"""The page about levels says what the code does."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from cgsa.config import bind
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from cgsa.events import Diagnosis, LevelReport
from cgsa.live.intake.block import Block
from cgsa.live.levels.config import LevelConfig
from cgsa.live.levels.iso20816 import ISO_LIMITS
from cgsa.live.levels.limits import LimitRule
from cgsa.live.levels.overall import VELOCITY_UNITS
from cgsa.live.plant import MachineConfig, Plant
from tests.cli.running import run_cgsa
from tests.live.stream import signal
from tests.machines import RATE, bundle

PAGE = (Path(__file__).parent.parent / "docs" / "levels.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[0]


def table(heading: str) -> list[list[str]]:
    """Return the cells of the last table before the next heading."""
    section = re.split(r"\n##+ ", PAGE.split(f"# {heading}\n", 1)[1])[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in row] for row in rows]


def test_the_settings_are_those_of_the_code() -> None:
    rows = table("Settings")
    assert [row[0] for row in rows] == [one.name for one in fields(LevelConfig)]
    for name, default, _ in rows[1:]:
        shown = tomllib.loads(f"value = {default}")["value"]
        assert bind(LevelConfig, {name: shown}, "page") == LevelConfig(), name


def test_the_zones_are_those_of_the_code() -> None:
    assert {name: (float(warning), float(alarm)) for name, _, warning, alarm in table("ISO 20816-3")} == dict(
        ISO_LIMITS
    )


def test_every_line_of_limits_is_accepted() -> None:
    lines = [row[0] for row in table("Limits")]
    assert len(lines) == 5
    for line in lines:
        LimitRule.parse(line)


def test_the_units_of_the_page_have_a_velocity() -> None:
    sentence = PAGE.split("Channels in ")[1].split(" have a velocity")[0]
    named = set(re.findall(r"`([^`]+)`", sentence))
    assert named <= set(VELOCITY_UNITS)
    assert {"g", "m/s2", "m/s^2"} <= named


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and a recording of a machine with the channels of the page; the gearbox shakes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    model = bundle()
    object.__setattr__(model.manifest, "channels", ("gearbox_z", "motor_x"))
    model.save(tmp_path / "models" / "press")
    model.save(tmp_path / "runs" / "model")
    recording = Recording(np.tile(signal(4.0), 4), RATE, ("gearbox_z", "motor_x"), ("g", "g"), source="x")
    write_parquet(recording, tmp_path / "press.parquet")
    return tmp_path


def test_the_commands_print_what_the_page_says(folder: Path) -> None:
    (block,) = re.findall(r"```bash\n(.*?)```", PAGE, flags=re.DOTALL)
    first, second = (
        run_cgsa(*shlex.split(line)[1:], "--method", "source", "--profile", "paper") for line in block.splitlines()
    )
    assert "gearbox_z" in first
    assert re.search(r"level alarm, .* s: up to gearbox_z velocity [\d.]+ mm/s, alarm limit 7.1 mm/s", first)
    assert "Levels with limits" in second
    assert "level alarm" not in second  # sixteen seconds are shorter than the duration


def test_the_machine_of_the_example_raises_an_alarm(folder: Path) -> None:
    tables = tomllib.loads(EXAMPLE)["machines"][0]
    tables["levels"]["duration"] = 1.0
    machine = bind(MachineConfig, {**tables, "profile": "paper", "method": "source"}, "page")
    reports: list[LevelReport | None] = []
    samples = signal(6.0)
    with Plant(folder / "plant") as plant:
        plant.subscribe(lambda _, __, new: reports.extend(one.levels for one in new if isinstance(one, Diagnosis)))
        plant.add(machine)
        for number in range(60):
            part = np.ascontiguousarray(samples[:, 100 * number : 100 * (number + 1)])
            plant.submit(Block("press-1", number, number / 10, RATE, ("gearbox_z", "motor_x"), part))
        plant.wait_until_idle()
        case = plant.worker("press-1").watch.alarms.case
    assert case is not None
    assert "level alarm: gearbox_z velocity" in case.faults
    assert reports[-1] is not None
    limits = {(one.channel, one.quantity): (one.warning, one.alarm) for one in reports[-1].limits}
    assert limits == {
        ("gearbox_z", "velocity"): (4.5, 7.1),
        ("motor_x", "velocity"): (2.8, 4.5),
        ("motor_x", "peak"): (None, 20.0),
    }
