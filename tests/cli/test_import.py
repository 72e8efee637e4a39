from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cgsa.cli import app, import_questions
from cgsa.data.dataset import DataSet
from cgsa.errors import ConfigError, DataError
from tests.bench.rotation.made_sets import write_set
from tests.cli.running import run_cgsa
from tests.data.made_machine import RATE, made_signal, write_csv_files


def test_a_folder_of_files_becomes_a_data_set(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", runs=2)
    text = run_cgsa("import", folder, tmp_path / "machine", "--names", "{class}_{speed}rpm_{run}")
    assert "12, 48 s in all" in text
    assert "speed 600 rpm" in text
    assert f"next: cgsa train {tmp_path / 'machine'} MODEL" in text
    assert len(DataSet.load(tmp_path / "machine").about.recordings) == 12


def test_results_for_programs(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", speeds=[600])
    values = json.loads(run_cgsa("import", folder, tmp_path / "machine", "--names", "{class}_{speed}rpm_*", "--json"))
    assert values["classes"] == ["healthy", "worn"]
    assert values["points"] == [{"condition": "speed 600 rpm", "recordings": {"healthy": 1, "worn": 1}}]
    assert "decimal comma (all files)" in values["odd"]


def test_a_folder_that_says_what_it_is_needs_no_option(tmp_path: Path) -> None:
    run_cgsa("import", write_set(tmp_path / "pump"), tmp_path / "machine")
    about = DataSet.load(tmp_path / "machine").about
    assert (about.name, about.classes) == ("pump", ("healthy", "cracked", "worn"))


def test_a_recording_in_two_classes_stops_the_import(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", speeds=[600])
    (folder / "worn_600rpm_1.csv").write_text((folder / "healthy_600rpm_1.csv").read_text())
    words = ["import", folder, tmp_path / "machine", "--yes", "--names", "{class}_{speed}rpm_*"]
    with pytest.raises(DataError, match="--despite-problems imports them anyway"):
        run_cgsa(*words)
    assert not (tmp_path / "machine").exists()
    run_cgsa(*words, "--despite-problems")


def test_channels_and_rates_are_changed_if_asked(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", speeds=[600])
    options = ["--channels", "acc_y=y,acc_x=x", "--units", "y=m/s^2,x=g", "--resample", 128]
    run_cgsa("import", folder, tmp_path / "machine", "--names", "{class}_{speed}rpm_*", *options)
    about = DataSet.load(tmp_path / "machine").about
    assert about.sample_rate == 128
    assert [(one.name, one.unit) for one in about.channels] == [("y", "m/s^2"), ("x", "g")]


def test_a_person_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_questions, "can_ask", lambda: True)
    folder = write_csv_files(tmp_path / "data", states=["worn", "cracked"], runs=2, clock=False)
    words = ["import", str(folder), str(tmp_path / "machine"), "--despite-problems"]
    # The suggested pattern, an unknown class, a known one, and a refusal at the end.
    result = CliRunner().invoke(app, words, input="\n256\nfine\nworn\nn\n")
    assert result.exit_code == 1
    assert "no class 'fine'" in result.stderr
    assert not (tmp_path / "machine").exists()
    result = CliRunner().invoke(app, words, input="{class}_{speed}rpm_*\n256\nworn\ny\n", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert DataSet.load(tmp_path / "machine").about.classes == ("worn", "cracked")


def test_nobody_is_asked_without_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pass --names with a pattern, --classes or --table"):
        run_cgsa("import", write_csv_files(tmp_path / "data"), tmp_path / "machine")


def test_a_table_with_a_column_of_classes(tmp_path: Path) -> None:
    lines = ["vib,rpm,state"]
    for state, speed in (("healthy", 600), ("healthy", 900), ("worn", 600), ("worn", 900)):
        lines += [f"{value:.6f},{speed},{state}" for value in made_signal(state, speed)[0]]
    (tmp_path / "labelled.csv").write_text("\n".join(lines) + "\n")
    words = ["--class-column", "state", "--condition-column", "rpm=speed", "--rate", RATE]
    text = run_cgsa("import", tmp_path / "labelled.csv", tmp_path / "machine", *words)
    assert "speed 600 rpm" in text
    data_set = DataSet.load(tmp_path / "machine")
    assert (data_set.about.name, data_set.about.classes) == ("labelled", ("healthy", "worn"))
    found = {(one.label, one.conditions["speed"][0]): one for one in data_set.recordings()}
    np.testing.assert_allclose(found["worn", 900].signal[0], made_signal("worn", 900)[0], atol=1e-6)
    entry = data_set.about.recordings[2]
    assert (entry.file, entry.origin) == (
        "recordings/labelled_worn.parquet",
        f"{tmp_path / 'labelled.csv'}, rows 2049 to 3072",
    )
    with pytest.raises(ConfigError, match="--unit-column and --run-column need --class-column"):
        run_cgsa("import", tmp_path / "labelled.csv", tmp_path / "other", "--unit-column", "rpm")
