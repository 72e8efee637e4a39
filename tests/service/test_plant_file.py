from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.errors import ConfigError
from cgsa.service.config import ServiceConfig
from cgsa.service.plant_file import prepare_plant_file


def test_a_machine_is_written_added_and_found(tmp_path: Path) -> None:
    path, model = tmp_path / "plant.toml", tmp_path / "models" / "press"
    assert prepare_plant_file(path, model, "press-1", port=9000) == "written"
    assert prepare_plant_file(path, model, "press-2") == "added"
    before = path.read_text()
    assert prepare_plant_file(path, model, "press-1") == "unchanged"
    assert path.read_text() == before
    assert 'bundle = "models/press"' in before
    config = ServiceConfig.load(path)
    assert [(one.name, one.bundle) for one in config.machines] == [("press-1", model), ("press-2", model)]
    assert (config.port, config.folder) == (9000, str(tmp_path / "plant"))


def test_what_a_person_wrote_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "plant.toml"
    path.write_text("# ours\nport = 7000\n[[sinks]]\nkind = 'webhook'\nurl = 'https://desk.plant'")
    assert prepare_plant_file(path, tmp_path / "model", "press-1") == "added"
    assert path.read_text().startswith("# ours\nport = 7000\n[[sinks]]")
    assert len(ServiceConfig.load(path).sinks) == 1


def test_a_model_is_not_exchanged_silently(tmp_path: Path) -> None:
    path = tmp_path / "plant.toml"
    prepare_plant_file(path, tmp_path / "model", "press-1")
    before = path.read_text()
    with pytest.raises(ConfigError, match="set its bundle to 'model-2'"):
        prepare_plant_file(path, tmp_path / "model-2", "press-1")
    assert path.read_text() == before


def test_a_file_that_cannot_be_added_to_stays(tmp_path: Path) -> None:
    path = tmp_path / "plant.toml"
    path.write_text("machines = []\n")
    with pytest.raises(ConfigError, match="add it by hand"):
        prepare_plant_file(path, tmp_path / "model", "press-1")
    assert path.read_text() == "machines = []\n"
