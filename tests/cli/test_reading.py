"""``cgsa stream`` on files of other programs: what they do not state comes from options."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.data.read_options import ReadOptions
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import Recording
from tests.data.readers.writers import write_german_csv, write_npy, write_wav
from tests.machines import ToyLibrary, bundle


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    bundle().save(path / "model")
    write_parquet(recording(), path / "a.parquet")
    return path


def recording() -> Recording:
    return replace(ToyLibrary().get("wear", "low", severity="H", specimen=1), conditions={})


def events(folder: Path, *arguments: str) -> list[dict[str, object]]:
    """Return the events without what depends on the file name and the clock."""
    result = CliRunner().invoke(app, ["stream", str(folder / "model"), *arguments, "--method", "source", "--json"])
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return [{key: event[key] for key in ("begin", "end", "verdict", "probabilities")} for event in found]


def test_a_file_of_another_program_gives_the_verdicts_of_the_native_one(folder: Path) -> None:
    write_german_csv(recording(), folder / "a.csv")

    assert events(folder, str(folder / "a.csv")) == events(folder, str(folder / "a.parquet"))


def test_options_add_what_a_file_does_not_state(folder: Path) -> None:
    one = recording()
    write_npy(one, folder / "a.npy")
    write_wav(one, folder / "a.wav")
    names, units = ",".join(one.channels), ",".join(one.units)

    expected = events(folder, str(folder / "a.parquet"))
    assert events(folder, str(folder / "a.wav"), "--channels", names, "--units", units) == expected
    rate = f"{one.sample_rate:g}"
    assert events(folder, str(folder / "a.npy"), "--channels", names, "--units", units, "--rate", rate) == expected


def test_the_model_states_what_neither_file_nor_options_do(folder: Path) -> None:
    write_npy(recording(), folder / "b.npy")
    assert events(folder, str(folder / "b.npy")) == events(folder, str(folder / "a.parquet"))
    words = ["watch", str(folder / "model"), str(folder / "b.npy"), "--method", "source"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "sample rate 1000 Hz as given; the file states none" in " ".join(result.stderr.split())


def test_names_units_and_conditions_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ax,ay,n\n" + "".join(f"{place},{place + 1},{place + 2}\n" for place in range(30)))

    found = ReadOptions.parse(rate=10, channels="ax = x, ay=y", units="g, V", conditions=["n=speed"]).read(path)

    assert (found.channels, found.units, tuple(found.conditions)) == (("x", "y"), ("g", "V"), ("speed",))
    np.testing.assert_array_equal(found.conditions["speed"], np.arange(2, 32))
