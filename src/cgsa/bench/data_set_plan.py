"""A plan on the data set of a machine: the scenario of the data set takes the place of those that the plan names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cgsa.bench.plan import Plan
from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import MACHINE_FILE
from cgsa.data.dataset_selection import SelectedRecording
from cgsa.data.scenario import Scenario, Stage
from cgsa.errors import ConfigError, DataError
from cgsa.files import replacing


def plan_on_data_set(plan: Plan, machine: Path, folder: Path) -> Plan:
    """Return a plan with the scenario of a data set, which is written to ``folder/scenarios``.

    Settings that the plan has for the name of the data set remain. A plan that names scenario files is returned as it
    is: they may be about this data set.
    """
    if any(Path(scenario).suffix == ".toml" for scenario in plan.scenarios):
        return plan
    scenario, specimen = streamed_scenario(DataSet.load(machine))
    name = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in scenario.name)
    path = folder / "scenarios" / f"{name}.toml"
    with replacing(path, ConfigError) as fresh:
        fresh.write_text(f"# Of the data set {machine}.\n{scenario.to_toml()}", encoding="utf-8")
    return replace(
        plan,
        scenarios=(str(path),),
        settings={known: changes for known, changes in plan.settings.items() if known == name},
        faults=tuple(fault for fault in plan.faults if fault in scenario.faults),
        watched=specimen,
    )


def streamed_scenario(data_set: DataSet) -> tuple[Scenario, int]:
    """Return the scenario that trains on some recordings and streams others, and the specimen of the stream.

    The recordings for tests are streamed: all healthy ones, then all with the fault. If there are none, they are those
    of the last operating condition, or of the last specimen if there is but one condition.
    """
    if all(one.trained for one in data_set.selected):
        data_set = data_set.for_testing(_left_out(data_set))
    trained = data_set.scenario()
    tests = [one for one in data_set.selected if not one.trained]
    by_specimen = {one: _complete_runs(tests, trained.classes, one) for one in sorted({one.specimen for one in tests})}
    specimen = max(by_specimen, key=lambda one: len(by_specimen[one]))
    points = by_specimen[specimen]
    if not points:
        raise DataError(
            f"{data_set.folder}: no specimen has test recordings of every class ({', '.join(trained.classes)}) at one "
            f'operating condition; mark them with split = "test" in {MACHINE_FILE}'
        )
    onset = [(share, runs) for share in (1.0, 0.0) for runs in points.values()]
    stages = [
        Stage(f"C{number}", runs[0], also=tuple(runs[1:]), whole=True, fault_from=share)
        for number, (share, runs) in enumerate(onset, start=1)
    ]
    left_out = ", ".join(points)
    return replace(trained, title=f"{data_set.about.name}: watched at {left_out}", online=tuple(stages)), specimen


def _left_out(data_set: DataSet) -> list[SelectedRecording]:
    """Return what to stream where no recording is for tests."""
    known = data_set.scenario()
    points = list(dict.fromkeys(cut.name for cut in known.offline))
    if len(points) > 1:
        complete = _complete_runs(data_set.selected, known.classes)
        last = next((point for point in reversed(points) if point in complete), points[-1])
        return [one for one in data_set.selected if one.point == last]
    specimens = data_set.specimens()
    if len(specimens) > 1:
        return [one for one in data_set.selected if one.specimen == specimens[-1]]
    raise DataError(
        f"{data_set.folder}: recordings of one operating condition and one specimen; a plan streams others than those "
        f'of the training: mark some with split = "test" in {MACHINE_FILE}, or record more'
    )


def _complete_runs(
    recordings: Iterable[SelectedRecording], classes: Sequence[str], specimen: int | None = None
) -> Mapping[str, list[str]]:
    """Return, by operating condition, the runs of one specimen, or of any, that every class has."""
    having: dict[tuple[str, str, int], set[str]] = {}
    for one in recordings:
        if specimen in {None, one.specimen}:
            having.setdefault((one.point, one.run, one.specimen), set()).add(one.entry.label)
    found: dict[str, list[str]] = {}
    for (point, run, _), labels in having.items():
        if labels >= set(classes):
            found.setdefault(point, []).append(run)
    return found
