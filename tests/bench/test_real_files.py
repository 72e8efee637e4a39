"""What a person with the MCC5-THU files may stumble over either runs, or is refused with the file and the cure."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from cgsa.bench.plan import Plan
from cgsa.bench.preflight import check_recordings
from cgsa.bench.workspace import PlanWorkspace
from cgsa.cli import app
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows
from cgsa.errors import ConfigError
from cgsa.nn.bundle import ModelBundle
from tests.data.mcc5.examples import DoubleArray
from tests.data.mcc5.made_folders import FAULT, Machine, MadeRun, write_columns, write_folder, write_plan

HEALTH = MadeRun("gearbox", "health", "1000rpm_10Nm")
HIGH = replace(HEALTH, run="1000rpm_20Nm")
WEAR = replace(HEALTH, state="gear_wear")
MOTOR = MadeRun("motor", "health", "20Nm_2000rpm")
UNBALANCE = replace(MOTOR, state="voltage_unbalance")


@dataclass(frozen=True)
class Trap:
    """A folder that is not what the scenario expects."""

    name: str
    lay: Callable[[Path], object]
    """Changes a complete folder."""
    notes: tuple[str, ...] = ()
    """Patterns of what is said of a folder that runs."""
    problems: tuple[str, ...] = ()
    """Patterns of all problems of a folder that is refused: the file, what is wrong, the cure."""
    machine: Machine = "gearbox"


def nan_cell(columns: list[DoubleArray]) -> None:
    columns[4][7] = float("nan")


def stopped_key_phase(columns: list[DoubleArray]) -> None:
    columns[0][columns[0].size // 2 :] = 0


def cut_off(path: Path) -> None:
    text = path.read_text()
    path.unlink()
    path.write_text(text[: len(text) // 2].rstrip("\n"))


def edited(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text()
    path.unlink()
    path.write_text(change(text))


def renamed(folder: Path, old: str, new: str) -> None:
    for path in sorted(folder.glob("*.csv")):
        if old in path.name:
            path.rename(path.with_name(path.name.replace(old, new)))


def all_off(folder: Path) -> None:
    for run in (HEALTH, WEAR):
        replace(run, idle=0.6, levels=(9.4, 5)).write(folder)


def into(folder: Path, subfolder: str) -> None:
    (folder / subfolder).mkdir()
    for path in sorted(folder.glob("*.csv")):
        path.rename(folder / subfolder / path.name)


def with_motor_of_the_same_names(folder: Path) -> None:
    into(folder, "the gearbox")
    for state, to in (("health", "health"), ("health", "gear_wear_H")):
        for run in ("1000rpm_10Nm", "1000rpm_20Nm"):
            replace(MOTOR, state=state).write(folder / "a motor", f"{to}_torque_circulation_{run}.csv")


def without_three(folder: Path) -> None:
    renamed(folder, "gear_wear_H", "gear_pitting_H")
    (folder / HEALTH.name).unlink()


def only_an_archive(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "gearbox.zip").write_bytes(b"PK")


def with_time_at(path: Path, rate: float) -> None:
    columns = MOTOR.columns()
    write_columns(path, [np.arange(columns[0].size) / rate, *columns], [""])


def second_specimen(folder: Path) -> None:
    into(folder, "specimen_1")
    HEALTH.write(folder / "specimen_2")


TRAPS = (
    Trap("nothing wrong", lambda folder: None),
    Trap("nothing wrong with a motor", lambda folder: None, machine="motor"),
    Trap(
        "idle torque",
        replace(HEALTH, idle=0.6).write,
        (r"health_torque_\S+_10Nm.csv: T1: the rise over 1 to 9\.5 Nm is accepted as 0 to 10 Nm; measured torque",),
    ),
    Trap(
        "low plateau",
        replace(HEALTH, levels=(9.4, 5)).write,
        (
            r"10Nm.csv: T1: the rise over 0\.5 to 9 Nm is accepted",
            r"10Nm.csv: T2: torque 9\.39 Nm is accepted as 10 Nm",
        ),
    ),
    Trap(
        "both in every file",
        all_off,
        (
            r"^T1: the rise over 1 to 9 Nm is .* \(2 recordings, such as \S+health",
            r"T2: torque 9\.39 Nm is accepted as 10 Nm \(2 recordings",
        ),
    ),
    Trap(
        "plateau of the stream",
        replace(HIGH, levels=(19.1, 15)).write,
        (r"C1: torque 19\.\d+ Nm is accepted as 20",),
    ),
    Trap(
        "too much idle torque",
        replace(HEALTH, idle=2.0).write,
        problems=(r"health\S+: no rise over 0 to 10 Nm for T1.*; replace the file, or change",),
    ),
    Trap(
        "no plateau",
        replace(HEALTH, levels=(8, 5)).write,
        problems=(
            r"health\S+: no rise over 0 to 10 Nm for T1.*; replace",
            r"health\S+: no interval at 10 Nm for T2.*; replace",
        ),
    ),
    Trap(
        "no lower level",
        replace(WEAR, levels=(10, 8)).write,
        problems=(r"gear_wear_H\S+: no interval at 5 Nm for C3.*; replace",),
    ),
    Trap(
        "a shorter level",
        replace(HIGH, held=1.1).write,
        (r"health\S+20Nm.csv: C1: 1\.\d+ s instead of 1\.2 s; the run has no more", r"C2: 1\.\d+ s instead of 1\.2 s"),
    ),
    Trap(
        "a run of seconds",
        replace(HIGH, held=0.5).write,
        problems=(r"no interval at 20 Nm for C1.*; replace", r"no interval at 15 Nm for C2.*; replace"),
    ),
    Trap("both machines in one folder", lambda folder: write_folder(folder, "motor")),
    Trap("both machines with the same names", with_motor_of_the_same_names),
    Trap(
        "the same name, and no header",
        lambda folder: replace(HEALTH, layout="plain").write(folder / "more"),
        problems=(r"health\S+10Nm.csv and \S+more/health\S+10Nm.csv are both .*; put the files of each machine into",),
    ),
    Trap(
        "a motor instead of a gearbox",
        lambda folder: replace(MOTOR, layout="header").write(folder, HEALTH.name),
        problems=(r"health\S+: no channel gearbox_vib.*; put the files of each machine into a folder of its own",),
    ),
    Trap(
        "another severity",
        lambda folder: renamed(folder, "gear_wear_H", "gear_wear_M"),
        (r"severity M is used instead of H.*such as \S+gear_wear_M",),
    ),
    Trap(
        "missing files",
        without_three,
        problems=(
            r"no torque_circulation_1000rpm_10Nm of health, .*; add the file",
            r"no \S+10Nm of gear_wear, .*; add",
            r"no \S+20Nm of gear_wear, .*; add",
        ),
    ),
    Trap(
        "a name that is none",
        lambda folder: renamed(folder, "gear_wear_H_torque_circulation", "gear wear H"),
        problems=(r"no \S+10Nm of gear_wear.*; add", r"no \S+20Nm of gear_wear.*; add"),
    ),
    Trap(
        "a truncated file",
        lambda folder: cut_off(folder / HEALTH.name),
        problems=(r"health\S+: the file is truncated in row .*; download it again",),
    ),
    Trap(
        "an empty file",
        lambda folder: edited(folder / HEALTH.name, lambda _: ""),
        problems=(r"health\S+ is empty .*; copy or download it again",),
    ),
    Trap(
        "a page instead of a file",
        lambda folder: edited(folder / HEALTH.name, lambda _: "<html>\n<p>Log in</p>\n"),
        problems=(r"health\S+: .*columns separated by commas: download it again",),
    ),
    Trap(
        "a cell without a number",
        replace(HEALTH, edit=nan_cell).write,
        problems=(r"health\S+: column .* has 1 NaN .* row 8 \(line 9\); repair them or remove the file",),
    ),
    Trap(
        "a renamed column",
        lambda folder: edited(folder / HEALTH.name, lambda text: text.replace("torque", "torque_nm", 1)),
        problems=(r"health\S+: no column 'torque' \(is it 'torque_nm'.*; correct the header",),
    ),
    Trap(
        "saved with semicolons",
        lambda folder: edited(folder / HEALTH.name, lambda text: text.replace(",", ";")),
        problems=(r"health\S+: .*columns separated by commas: download it again",),
    ),
    Trap(
        "line ends of Windows and a byte order mark",
        lambda folder: edited(folder / HEALTH.name, lambda text: "\ufeff" + text.replace("\n", "\r\n")),
    ),
    Trap(
        "a comma at the end of every line",
        lambda folder: edited(folder / HEALTH.name, lambda text: text.replace("\n", ",\n")),
        (r"health\S+: column 'column 9' is not used",),
    ),
    Trap(
        "a gearbox file without its header",
        replace(HEALTH, layout="plain").write,
        problems=(r"health\S+: 8 columns without a header .* add the header",),
    ),
    Trap(
        "a torque that is stuck",
        replace(HEALTH, levels=(0, 0)).write,
        problems=(r"health\S+: no rise over 0 to 10 Nm.*; replace", r"health\S+: no interval at 10 Nm.*; replace"),
    ),
    Trap("an archive", only_an_archive, problems=(r"data: no run found.*; unpack \S+gearbox.zip first",)),
    Trap(
        "a clock of another rate",
        lambda folder: with_time_at(folder / MOTOR.name, 25_600),
        problems=(r"health\S+: time column steps at 25600 Hz; .* download it again",),
        machine="motor",
    ),
    Trap(
        "capitals in the header",
        lambda folder: edited(folder / HEALTH.name, lambda text: text.replace("speed,torque", "Speed, Torque", 1)),
    ),
    Trap(
        "leftovers of an archive",
        lambda folder: [
            shutil.copy(folder / HEALTH.name, (folder / name)) for name in (f"._{HEALTH.name}", "readme.txt")
        ],
        (r"skipped 2 files that are not runs, such as \._health",),
    ),
    Trap("capitals in the suffix", lambda folder: renamed(folder, ".csv", ".CSV")),
    Trap(
        "the same run twice",
        lambda folder: HEALTH.write(folder / "again"),
        (r"health\S+ is another recording of again/health\S+; left out",),
    ),
    Trap(
        "a second specimen with one run",
        second_specimen,
        problems=(
            r"no \S+_20Nm of health, specimen 2;.*; add the file",
            r"10Nm of gear_wear, specimen 2;.*; add",
            r"20Nm of gear_wear, specimen 2;.*; add",
        ),
    ),
    Trap(
        "torque in Nm",
        replace(HEALTH, in_nm=True).write,
        (r"health\S+: torque column reads 10 in a run of 10 Nm; assumed to be Nm",),
    ),
    Trap(
        "a key phase that stops",
        replace(HEALTH, edit=stopped_key_phase).write,
        (r"health\S+: key phase stops at 2\.\d s",),
    ),
    Trap("time stamps", lambda folder: renamed(folder, "rpm.csv", "rpm_230412101530d.csv"), machine="motor"),
    Trap("a motor file with a header", replace(MOTOR, layout="header").write, machine="motor"),
    Trap(
        "the early release",
        replace(UNBALANCE, layout="early").write,
        problems=(r"voltage_unb\S+: no trace of 'torque' .*; replace it with .* later release",),
        machine="motor",
    ),
    Trap(
        "neither header nor time",
        replace(MOTOR, layout="plain").write,
        problems=(r"health\S+: 8 columns without a header .* add the header",),
        machine="motor",
    ),
    Trap(
        "the other severity of a motor",
        lambda folder: renamed(folder, "unbalance_L", "unbalance_H"),
        (r"severity H is used instead of L",),
        machine="motor",
    ),
)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Complete folders of both machines."""
    folder = tmp_path_factory.mktemp("complete")
    for machine in FAULT:
        write_folder(folder / machine, machine)
    return folder


def workspace_of(complete: Path, folder: Path, machine: Machine) -> PlanWorkspace:
    shutil.copytree(complete / machine, folder / "data", copy_function=os.link)
    return PlanWorkspace(Plan.load(write_plan(folder, machine)), folder / "runs", folder / "data")


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_a_trap_runs_or_is_refused(trap: Trap, complete: Path, tmp_path: Path) -> None:
    workspace = workspace_of(complete, tmp_path, trap.machine)
    trap.lay(tmp_path / "data")
    result = check_recordings(workspace)
    assert len(result.problems) == len(set(result.problems))
    for pattern in trap.problems:
        assert any(re.search(pattern, problem) for problem in result.problems), (pattern, result.problems)
    assert len(result.problems) == len(set(trap.problems)), result.problems
    for pattern in trap.notes:
        assert any(re.search(pattern, note) for note in result.notes), (pattern, result.notes)
    assert len(result.notes) == len(trap.notes) or trap.problems, result.notes
    assert all(str(tmp_path / "data") in text for text in (*result.problems, *result.notes))
    if trap.problems:
        return
    assert all(result.found)
    scenario = Scenario.load(workspace.plan.scenarios[0])
    library = open_library(tmp_path / "data", scenario)
    for segments in (scenario.training_segments(library), scenario.stream_segments(library, FAULT[trap.machine])):
        windows = Windows(
            segments, workspace.plan.profile_of(scenario.name).window, conditions=scenario.condition_names
        )
        assert {segment.recording.label for segment in segments} == set(scenario.classes)
        assert windows.gather(torch.tensor([0, len(windows) - 1])).isfinite().all()


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_check_lists_all_files_notes_and_problems(complete: Path, tmp_path: Path) -> None:
    workspace = workspace_of(complete, tmp_path, "gearbox")
    command = ("bench", str(tmp_path / "plan.toml"), str(workspace.folder), "--data", str(workspace.data), "--check")
    shown = call(*command)
    assert shown.exit_code == 0
    for name in ("health", "gear_wear_H"):
        found = tmp_path / "data" / f"{name}_torque_circulation_1000rpm_10Nm.csv"
        assert re.search(rf"^{found.name} +gearbox: T1 T2( C3)?  {found}$", shown.stdout, flags=re.MULTILINE)
    assert "data: complete for plan small" in shown.stdout
    replace(HEALTH, idle=0.6).write(tmp_path / "data")
    renamed(tmp_path / "data", "gear_wear_H_torque_circulation_1000rpm_20Nm", "lost")
    values = json.loads((listed := call(*command, "--json")).stdout)
    assert listed.exit_code == 1
    assert not values["complete"]
    assert [note.partition("csv: ")[2][:11] for note in values["notes"] if "csv: " in note] == ["T1: the ris"]
    [problem] = values["problems"]
    assert "no torque_circulation_1000rpm_20Nm of gear_wear" in problem
    assert [bool(file["found"]) for file in values["files"]] == [True, True, True, False]
    assert [file["uses"] for file in values["files"]][-1] == ["T3", "C2"]


def test_check_without_a_folder_lists_what_is_needed(tmp_path: Path) -> None:
    shown = call("bench", "core", str(tmp_path), "--check")
    assert shown.exit_code == 0
    assert "bearing_ball_H_torque_circulation_40Nm_2000rpm.csv" in shown.stdout
    assert "with --data FOLDER, it needs these files" in shown.stdout
    values = json.loads(call("bench", "core", str(tmp_path), "--check", "--json").stdout)
    assert (values["data"], len(values["files"])) == (None, 16)
    assert "complete" not in values


def test_a_run_starts_with_what_is_accepted(complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = workspace_of(complete, tmp_path, "gearbox")
    replace(HEALTH, idle=0.6).write(tmp_path / "data")

    def start(*_: object) -> None:
        raise ConfigError("the run has started")

    monkeypatch.setattr("cgsa.cli.plans.run_with_progress_bar", start)
    ran = call("bench", str(tmp_path / "plan.toml"), str(workspace.folder), "--data", str(workspace.data))
    assert str(ran.exception) == "the run has started"
    assert re.search(r"note: .*T1: the rise over", ran.stderr)


@pytest.mark.parametrize("machine", FAULT)
def test_a_folder_of_both_machines_trains_and_says_what_it_accepts(
    machine: Machine, complete: Path, tmp_path: Path
) -> None:
    write_plan(tmp_path, machine)
    for one in FAULT:
        shutil.copytree(complete / one, tmp_path / "data" / one, copy_function=os.link)
    renamed(tmp_path / "data" / machine, "gear_wear_H", "gear_wear_L")
    renamed(tmp_path / "data" / machine, "unbalance_L", "unbalance_H")
    trained = call(
        *("train", str(tmp_path / f"{machine}.toml"), str(tmp_path / "model"), "--data", str(tmp_path / "data")),
        *("--profile", "quick", "--objective", "plain", "--device", "cpu"),
        *("--set", "train.epochs=1", "--set", "train.step=2048"),
        *("--set", "network.hidden=[16, 8]", "--set", "network.tap=8"),
    )
    assert trained.exit_code == 0, trained.output
    assert re.search(r"severity \w is used instead of \w", trained.stderr)
    assert ModelBundle.load(tmp_path / "model").manifest.scenario == machine
