from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.bench.rotation.sets import find_sets, rig_set, steady_state_set
from cgsa.data.importing.steady import plan_steady_state
from cgsa.data.importing.write import write_data_set
from cgsa.errors import ConfigError, DataError
from tests.bench.rotation.made_sets import RATE, SECONDS, change_files, write_set


def test_the_points_of_a_set_are_the_combinations_of_its_levels(tmp_path: Path) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump", loads=(0, 11)))
    assert rotated.scenario.classes == ("healthy", "cracked", "worn")
    assert rotated.scenario.channels == ("x", "y")
    assert [rotated.point_name(point) for point in rotated.points[:2]] == [
        "speed 600 rpm, load 0 lb",
        "speed 600 rpm, load 11 lb",
    ]
    assert len(rotated.points) == 6
    assert rotated.shortest == int(0.4 * SECONDS * RATE)
    speed, load = rotated.scenario.conditions
    assert (speed.minimum, speed.maximum, speed.tolerance) == (600, 1200, 75)
    assert (load.minimum, load.maximum) == (0, 11)


def test_a_quantity_that_never_changes_is_no_condition(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "pump", speeds=(600,), loads=(0, 5, 11))
    assert steady_state_set(folder).scenario.condition_names == ("load_lb",)


def test_units_and_runs_are_specimens(tmp_path: Path) -> None:
    units = steady_state_set(write_set(tmp_path / "units", units=2))
    assert (units.specimens, units.scenario.specimens) == ((1, 2), "unit")
    runs = steady_state_set(write_set(tmp_path / "runs", runs=3))
    assert (runs.specimens, runs.scenario.specimens) == ((1, 2, 3), "run")


def test_a_point_needs_every_class(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "pump", runs=2)
    change_files(folder, lambda files: [file for file in files if not file["file"].startswith("worn_2__600rpm")])
    points = steady_state_set(folder).points
    assert [point.specimens for point in points] == [(1,), (1, 2), (1, 2)]
    change_files(folder, lambda files: [file for file in files if not file["file"].startswith("worn_1__600rpm")])
    assert len(steady_state_set(folder).points) == 2


def test_runs_at_the_same_levels_belong_to_one_point(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "pump", loads=(0, 11))
    change_files(
        folder, lambda files: [{**file, "condition": {"speed_rpm": file["condition"]["speed_rpm"]}} for file in files]
    )
    assert steady_state_set(folder).points[0].runs == ("600rpm_0lb", "600rpm_11lb")


def test_the_data_set_of_a_machine_gives_the_same_set(tmp_path: Path) -> None:
    steady = steady_state_set(write_set(tmp_path / "pump", loads=(0, 11), units=2))
    write_data_set(plan_steady_state(tmp_path / "pump"), tmp_path / "machine")
    [found], notes = find_sets(tmp_path / "machine", tmp_path, [])
    assert notes == []
    assert (found.name, found.specimens, found.scenario.specimens) == ("pump", steady.specimens, "unit")
    assert found.scenario.conditions == steady.scenario.conditions
    assert found.scenario.classes == steady.scenario.classes
    assert [(one.levels, one.specimens) for one in found.points] == [
        (one.levels, one.specimens) for one in steady.points
    ]
    assert found.shortest == steady.shortest
    [(name, _)] = [(one.name, one) for one in find_sets(tmp_path, tmp_path, ["machine"])[0]]
    assert name == "pump"


def test_a_built_in_scenario_of_that_name_gives_the_classes(tmp_path: Path) -> None:
    folder = write_set(
        tmp_path / "spectraquest_gearbox", states=("healthy", "broken_tooth", "another"), speeds=(600, 900)
    )
    change_files(folder, lambda files: files, channels=["a1", "a2"])
    rotated = steady_state_set(folder)
    assert rotated.scenario.classes == ("healthy", "broken_tooth")
    assert rotated.scenario.channels == ("a1", "a2", "a3", "a4")


def test_sets_that_cannot_be_rotated_say_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="classes worn; expected one name with healthy or normal"):
        steady_state_set(write_set(tmp_path / "a", states=("worn",)))
    folder = write_set(tmp_path / "b")
    change_files(folder, lambda files: [{**files[0], "condition": {"load": 1}}, *files[1:]])
    with pytest.raises(DataError, match="others have; expected the same quantities in all entries"):
        steady_state_set(folder)
    folder = write_set(tmp_path / "c")
    change_files(folder, lambda files: [file for file in files if ("600" in file["file"]) == (file["class"] == "worn")])
    with pytest.raises(DataError, match="no operating condition has recordings of every class"):
        steady_state_set(folder)


def test_a_rig_has_the_levels_of_its_scenario() -> None:
    rotated = rig_set("gearbox", Path("rig"), simulated=True)
    assert [point.levels for point in rotated.points] == [(5,), (10,), (15,), (20,)]
    assert rotated.points[0].runs == ("torque_circulation_1000rpm_10Nm",)
    assert rotated.points[0].seconds == 10
    assert (rotated.scenario.conditions[0].minimum, rotated.scenario.conditions[0].maximum) == (5, 20)
    assert rotated.shortest == 51200


def test_all_sets_in_a_folder_and_the_rigs_are_found(tmp_path: Path) -> None:
    write_set(tmp_path / "data" / "pump")
    (tmp_path / "data" / "other").mkdir()
    (tmp_path / "data" / "other" / "meta.json").write_text("{}")
    (tmp_path / "data" / "motor").mkdir()
    sets, notes = find_sets(tmp_path / "data", tmp_path / "rigs", [])
    assert [(one.name, one.simulated) for one in sets] == [("pump", False), ("gearbox", True), ("motor", False)]
    assert sets[1].folder == tmp_path / "rigs" / "gearbox"
    assert notes == [
        f"other is left out: {tmp_path}/data/other/meta.json: states no sample rate (fs); pass assumed_rate"
    ]
    with pytest.raises(DataError, match="states no sample rate"):
        find_sets(tmp_path / "data", tmp_path, ["other"])
    with pytest.raises(ConfigError, match="no set 'fan'; known: other, pump, gearbox, motor"):
        find_sets(tmp_path / "data", tmp_path, ["fan"])
    assert [one.name for one in find_sets(None, tmp_path, ["motor"])[0]] == ["motor"]
