from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from cgsa.errors import ConfigError
from cgsa.live.alarms import AlarmConfig, AlarmManager
from cgsa.live.plant import ExplainConfig, MachineConfig, Plant
from cgsa.live.store import Snippet
from cgsa.service.config import ServiceConfig
from cgsa.service.dashboard.plant_view import PlantView
from tests.machines import RATE, bundle

KINEMATICS = '[kinematics]\nshafts = [{ name = "rotor" }]\n'
SPEED = 1200.0


def test_the_last_alarm_is_explained_with_what_is_known_of_the_machine(tmp_path: Path) -> None:
    bundle().save(tmp_path / "model")
    (tmp_path / "press.toml").write_text(KINEMATICS)
    known = ExplainConfig(str(tmp_path / "press.toml"), speed=SPEED)
    time = np.arange(round(5 * RATE)) / RATE
    samples = np.random.default_rng(0).standard_normal((2, len(time)))
    samples[1] += 3 * sum(np.sin(2 * np.pi * order * SPEED / 60 * time) for order in range(1, 6))
    with Plant(tmp_path / "plant", threads=1) as plant:
        plant.add(MachineConfig("one", tmp_path / "model", profile="paper", explain=known))
        view = PlantView(plant)
        assert asyncio.run(view.explanation("one")) is None  # no alarm yet
        (raised,) = AlarmManager(AlarmConfig(on_delay=0), "one").observe(0.0, 1.0, "crack")
        plant.store.add(0, 0, raised)
        plant.store.add(1, 0, Snippet("one", 10.0, 1, RATE, ("a", "b"), samples.astype(np.float32)))
        plant.store.flush()
        found = asyncio.run(PlantView(plant).explanation("one"))
    assert found is not None
    assert (found.case, found.time) == (1, 10.0)
    assert found.families[0][0] == "harmonics of shaft rotor"
    assert "unbalance" in found.sentences[0]


def test_paths_are_relative_to_the_file_of_the_service(tmp_path: Path) -> None:
    file = tmp_path / "plant.toml"
    file.write_text(
        '[[machines]]\nname = "press"\nbundle = "model"\n'
        '[machines.explain]\nkinematics = "press.toml"\nhealthy = ["healthy.parquet"]\nspeed = 1480\n'
    )
    [machine] = ServiceConfig.load(file).machines
    assert machine.explain == ExplainConfig(str(tmp_path / "press.toml"), (str(tmp_path / "healthy.parquet"),), 1480.0)
    file.write_text('[[machines]]\nname = "press"\nbundle = "model"\n[machines.explain]\nkinematics = "gearbox"\n')
    assert ServiceConfig.load(file).machines[0].explain.kinematics == "gearbox"


def test_a_speed_is_positive() -> None:
    with pytest.raises(ConfigError, match="expected a positive number of rpm"):
        ExplainConfig(speed=0.0)
