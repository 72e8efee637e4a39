from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.dataset_file import (
    MACHINE_FILE,
    ChannelEntry,
    ConditionEntry,
    MachineFile,
    RecordingEntry,
    is_data_set,
)
from cgsa.errors import DataError

TEXT = """
name = "pump"
sample_rate = 1000
classes = ["healthy", "worn"]
[[channel]]
name = "x"
unit = "g"
[[condition]]
name = "speed"
unit = "rpm"
[[recording]]
file = "a.parquet"
class = "healthy"
conditions = { speed = 600 }
[[recording]]
file = "b.parquet"
class = "worn"
conditions = { speed = [580, 620.5] }
"""
words = st.text(min_size=1, max_size=12)
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


def read(folder: Path, text: str) -> MachineFile:
    (folder / MACHINE_FILE).write_text(text, encoding="utf-8")
    return MachineFile.read(folder / MACHINE_FILE)


def test_a_condition_is_a_number_or_the_range_of_a_trace(tmp_path: Path) -> None:
    first, second = read(tmp_path, TEXT).recordings
    assert (first.levels, first.ranges) == ({"speed": 600.0}, {})
    assert (second.levels, second.ranges) == ({}, {"speed": (580.0, 620.5)})


@given(texts=st.tuples(words, words, words), file=names, speed=st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, texts: tuple[str, str, str], file: str, speed: float
) -> None:
    label, unit, name = texts
    entry = RecordingEntry(f"{file}.parquet", label, {name: speed}, unit, None, "somewhere", "test")
    about = MachineFile(name, 1000.0, (label,), (ChannelEntry(name, unit),), (entry,), (ConditionEntry(name, unit),))
    assert read(tmp_path_factory.mktemp("set"), about.to_toml()) == about


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('class = "worn"', 'class = "warn"', "line 15, recording 2: b.parquet has class 'warn'"),
        ('"b.parquet"', '"a.parquet"', "line 15, recording 2: a.parquet is also recording 1"),
        ('"b.parquet"', '"../b.parquet"', "recording[1]: file '../b.parquet'; expected a path below"),
        ("{ speed = 600 }", "{}", "line 11, recording 1: a.parquet has no condition speed"),
        ("{ speed = 600 }", "{ speed = 600, load = 1 }", "line 11, recording 1: a.parquet has a condition 'load'"),
        ("{ speed = 600 }", "{ speed = [3, 1] }", "condition speed is [3, 1]; expected a number"),
        ("{ speed = 600 }", '{ speed = "fast" }', "condition speed is 'fast'"),
        ("sample_rate = 1000", "sample_rate = 0", "sample_rate 0; expected a positive number"),
        ('["healthy", "worn"]', '["worn", "worn"]', "classes worn, worn; expected at least one, and different names"),
        ('class = "worn"', 'class = "worn"\nunit = "K1"', "line 11, recording 1: has no unit, others have one"),
        ('class = "worn"', 'class = "worn"\nsplit = "later"', "recording[1].split: expected one of 'train', 'test'"),
        ('name = "pump"', 'name = "pump"\nversion = 9', "version 9; this release reads version 1"),
        ('name = "x"', 'nome = "x"', "channel[0].nome: no such setting; did you mean 'name'?"),
    ],
)
def test_an_error_names_the_entry(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in TEXT
    with pytest.raises(DataError) as error:
        read(tmp_path, TEXT.replace(old, new))
    assert problem in str(error.value)
    assert str(tmp_path / MACHINE_FILE) in str(error.value)


def test_a_folder_is_a_data_set_by_its_file(tmp_path: Path) -> None:
    assert not is_data_set(tmp_path)
    read(tmp_path, TEXT)
    assert is_data_set(tmp_path)
