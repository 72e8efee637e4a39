from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cgsa.data.importing.choose import ImportChoices, choose_plan
from cgsa.data.importing.files import FoundFiles
from cgsa.data.importing.key_columns import KeyColumns
from cgsa.data.importing.suggest import Suggestion
from cgsa.data.read_options import ReadOptions
from cgsa.errors import ConfigError, DataError
from tests.data.made_machine import RATE, write_csv_files
from tests.data.mcc5.made_folders import MadeRun
from tests.data.test_steady_state import write_set
from tests.toy_files import write_toy


class Answers:
    """A person who answers the same each time."""

    def ask_pattern(self, found: FoundFiles, suggested: Suggestion | None) -> str:
        assert suggested is not None
        return suggested.pattern

    def ask_healthy(self, classes: list[str]) -> str:
        return classes[-1]

    def ask_rate(self, path: Path) -> float:
        return 100.0

    def ask_unit(self, path: Path, channels: list[str]) -> str | None:
        return "mm/s"


def test_the_names_of_files_say_what_they_are(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", runs=2)
    (folder / "notes.txt").write_text("hello")
    plan = choose_plan(folder, ReadOptions(), ImportChoices("{class}_{speed}rpm_{run}"))
    assert plan.classes == ("healthy", "worn")
    assert plan.condition_units == {"speed": "rpm"}
    first = plan.recordings[0]
    assert (first.label, first.conditions, first.run) == ("healthy", {"speed": 600}, "1")
    recording = plan.read(first)
    assert (recording.sample_rate, recording.channels, recording.units) == (RATE, ("acc_x", "acc_y"), ("g", "g"))


def test_a_pattern_is_suggested_and_used_only_if_asked_to(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", runs=2)
    with pytest.raises(ConfigError, match=r"the names suggest --names '\{class\}_\{speed\}rpm_\{run\}'; --yes uses it"):
        choose_plan(folder, ReadOptions(), ImportChoices())
    plan = choose_plan(folder, ReadOptions(), ImportChoices(use_suggestion=True))
    assert len(plan.recordings) == 12
    assert plan.notes == ("names are read by --names '{class}_{speed}rpm_{run}'",)


def test_a_person_is_asked_for_what_is_missing(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", clock=False)
    for path in folder.glob("*.csv"):
        path.write_text(path.read_text().replace("g;g\n", "", 1))
        path.rename(path.with_name(path.name.replace("healthy", "state_b").replace("worn", "state_a")))
    plan = choose_plan(folder, ReadOptions(), ImportChoices(questions=Answers()))
    recording = plan.read(plan.recordings[0])
    assert plan.classes == ("b", "a")
    assert (recording.sample_rate, recording.units) == (100.0, ("mm/s", "mm/s"))


def test_without_a_person_the_option_is_named(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", clock=False)
    with pytest.raises(DataError, match="states no sample rate; pass --rate HZ"):
        choose_plan(folder, ReadOptions(), ImportChoices(use_suggestion=True))
    choices = ImportChoices("{class}_*", healthy="good")
    with pytest.raises(DataError, match="no class 'good'; pass --healthy"):
        choose_plan(folder, ReadOptions(sample_rate=RATE), choices)


def test_a_table_lists_files(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data")
    table = tmp_path / "files.csv"
    table.write_text(
        "file;class;speed (rpm);unit;split\nhealthy_600rpm_1.csv;fine;600,5;A;train\nworn_600rpm_1.csv;bad;600;B;test\n"
    )
    plan = choose_plan(folder, ReadOptions(), ImportChoices(table=table, healthy="fine"))
    assert plan.classes == ("fine", "bad")
    assert plan.condition_units == {"speed": "rpm"}
    assert [(one.label, one.conditions["speed"], one.unit, one.split) for one in plan.recordings] == [
        ("fine", 600.5, "A", "train"),
        ("bad", 600.0, "B", "test"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("file,class\n", "no row; expected one per file"),
        ("file,state\na.csv,x\n", "expected file, class and others"),
        ("file,class\nnowhere.csv,x\n", r"line 2: no file 'nowhere\.csv'"),
        ("file,class\n,x\n", "line 2: 2 cells; expected 2, with file and class filled"),
        ("file,class,speed\nhealthy_600rpm_1.csv,x,fast\n", "line 2: speed is 'fast'; expected a number"),
        ("file,class,split\nhealthy_600rpm_1.csv,x,later\n", "line 2: split 'later'; expected train, test"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    folder = write_csv_files(tmp_path / "data", speeds=[600])
    table = tmp_path / "files.csv"
    table.write_text(text)
    with pytest.raises(DataError, match=problem):
        choose_plan(folder, ReadOptions(), ImportChoices(table=table))


def test_a_set_of_steady_state_recordings_needs_no_pattern(tmp_path: Path) -> None:
    plan = choose_plan(write_set(tmp_path), ReadOptions(), ImportChoices())
    assert plan.classes == ("healthy", "worn")
    assert plan.recordings[0].conditions == {"speed_rpm": 600, "load_lb": 0.5}
    assert plan.read(plan.recordings[0]).conditions == {}


def test_a_steady_state_set_may_lack_its_rate(tmp_path: Path) -> None:
    folder = write_set(tmp_path, fs=None)
    with pytest.raises(DataError, match=r"its meta\.json states no sample rate; pass --rate HZ"):
        choose_plan(folder, ReadOptions(), ImportChoices())
    plan = choose_plan(folder, ReadOptions(sample_rate=5.0), ImportChoices())
    assert plan.read(plan.recordings[0]).sample_rate == 5
    with pytest.raises(ConfigError, match="only --rate may be added"):
        choose_plan(folder, ReadOptions(units="g"), ImportChoices())


def test_runs_of_mcc5_have_measured_conditions(tmp_path: Path) -> None:
    folder = write_toy(tmp_path) / "data" / "toy"
    plan = choose_plan(folder, ReadOptions(), ImportChoices())
    assert plan.classes == ("health", "crack", "wear")
    first = plan.recordings[0]
    assert (first.conditions, first.unit) == ({}, "specimen 1")
    assert list(plan.read(first).conditions) == ["torque"]


def test_two_machines_with_one_name_are_refused(tmp_path: Path) -> None:
    gearbox, motor = MadeRun("gearbox", "health", "1000rpm_10Nm"), MadeRun("motor", "health", "20Nm_2000rpm")
    gearbox.write(tmp_path / "a")
    motor.write(tmp_path / "b", gearbox.name)
    with pytest.raises(DataError, match=rf"a/{gearbox.name} and \S+b/{gearbox.name} have .*; put the files"):
        choose_plan(tmp_path, ReadOptions(), ImportChoices())


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder; expected recordings"):
        choose_plan(tmp_path / "nowhere", ReadOptions(), ImportChoices())
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(DataError, match="no file that can be read; known are"):
        choose_plan(folder, ReadOptions(), ImportChoices())
    shutil.rmtree(folder)


def test_names_and_a_table_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of them"):
        choose_plan(tmp_path, ReadOptions(), ImportChoices("{class}", tmp_path / "files.csv"))


@pytest.mark.parametrize(
    ("pattern", "problem"), [("{speed}", "no {class}"), ("{class}@{speed}", "none of 6 names fits")]
)
def test_a_pattern_that_says_nothing_is_refused(tmp_path: Path, pattern: str, problem: str) -> None:
    with pytest.raises(DataError) as error:
        choose_plan(write_csv_files(tmp_path / "data"), ReadOptions(), ImportChoices(pattern))
    assert problem in str(error.value)


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", clock=False)
    with pytest.raises(ConfigError) as error:
        choose_plan(folder, ReadOptions(), ImportChoices())
    text = str(error.value)
    assert "pass --names with a pattern" in text
    assert "states no sample rate; pass --rate HZ" in text


def test_patterns_of_paths_tell_the_class_and_names_the_rest(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", states=["healthy", "worn", "cracked"], runs=2)
    choices = ImportChoices("*_{speed}rpm_{run}", classes="fine=healthy*,bad=worn*,odd=*_600rpm_1", healthy="fine")
    plan = choose_plan(folder, ReadOptions(), choices)
    assert plan.classes == ("fine", "bad", "odd")
    assert [(one.label, one.conditions["speed"], one.run) for one in plan.recordings[-2:]] == [
        ("bad", 1200, "1"),
        ("bad", 1200, "2"),
    ]
    skipped, several = plan.notes
    assert skipped.startswith(
        "5 names do not fit '*_{speed}rpm_{run}' and --classes and were skipped, such as cracked_6"
    )
    assert several == (
        "2 files fit several classes, of which the first counts, such as healthy_600rpm_1.csv (fine before odd)"
    )


def test_files_may_be_given_instead_of_a_folder(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data")
    files = [folder / "healthy_600rpm_1.csv", folder / "worn_900rpm_1.csv"]
    plan = choose_plan(files, ReadOptions(), ImportChoices("{class}_{speed}rpm_*"))
    assert [one.path for one in plan.recordings] == files
    with pytest.raises(DataError, match="a file is given twice"):
        choose_plan([*files, files[0]], ReadOptions(), ImportChoices("{class}_*"))
    with pytest.raises(DataError, match="data: a folder; expected files"):
        choose_plan([*files, folder], ReadOptions(), ImportChoices("{class}_*"))
    with pytest.raises(DataError, match=r"none\.csv: no such file; expected files"):
        choose_plan([*files, tmp_path / "none.csv"], ReadOptions(), ImportChoices("{class}_*"))
    with pytest.raises(ConfigError, match="its class is not stated; pass --class-column if a column holds it"):
        choose_plan([folder / "healthy_600rpm_1.csv"], ReadOptions(), ImportChoices())


def test_names_may_end_with_a_number(tmp_path: Path) -> None:
    for day in ("12", "19"):
        (tmp_path / f"2004.02.{day}.10.32.39").write_text("0.1\t0.2\n" * 40)
    (tmp_path / "notes.doc").write_text("x")
    choices = ImportChoices(classes="healthy=*.12.*.*.*,worn=2004.02.19*")
    plan = choose_plan(tmp_path, ReadOptions(sample_rate=20_000.0), choices)
    assert [(one.name, one.label) for one in plan.recordings] == [
        ("2004.02.12.10.32.39", "healthy"),
        ("2004.02.19.10.32.39", "worn"),
    ]


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        (ImportChoices("{class}_*", classes="a=*"), "{class} in --names and --classes both state the class"),
        (ImportChoices(classes="a=*", columns=KeyColumns("x")), "--classes and --class-column both state the class"),
        (ImportChoices(classes="a=*", table=Path("t.csv")), "--classes and --table both say what the files are"),
    ],
)
def test_two_statements_of_the_class_are_one_too_many(tmp_path: Path, choices: ImportChoices, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        choose_plan(write_csv_files(tmp_path / "data"), ReadOptions(), choices)
    assert problem in str(error.value)


def test_a_suggestion_with_classes_is_used_as_a_whole(tmp_path: Path) -> None:
    folder = write_csv_files(tmp_path / "data", speeds=[600])
    text = (folder / "healthy_600rpm_1.csv").read_text()
    for unit in ("K001", "K002", "KA04", "KA15"):
        (tmp_path / "units").mkdir(exist_ok=True)
        (tmp_path / "units" / f"{unit}_1.csv").write_text(text)
    choices = ImportChoices(use_suggestion=True, healthy="K")
    plan = choose_plan(tmp_path / "units", ReadOptions(), choices)
    assert [(one.label, one.unit) for one in plan.recordings] == [
        ("K", "K001"),
        ("K", "K002"),
        ("KA", "KA04"),
        ("KA", "KA15"),
    ]
