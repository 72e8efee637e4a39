"""What is rotated: a set of steady-state recordings, or a rig whose runs hold several levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from cgsa.bench.rotation.points import OperatingPoint, common_levels, point_name, training_selection
from cgsa.data.dataset import DataSet
from cgsa.data.dataset_file import MACHINE_FILE, is_data_set
from cgsa.data.dataset_selection import scenario_conditions
from cgsa.data.levels import unit_of
from cgsa.data.scenario import Condition, Scenario, SegmentSelection, Stage, builtin_scenarios
from cgsa.data.steady_state import META_FILE, SteadyStateFile, SteadyStateLibrary
from cgsa.errors import CgsaError, ConfigError, DataError

TRAINING_PART, WATCHED_PART = (0.0, 0.6), (0.6, 1.0)
"""Parts of a recording at a trained condition: for training, and for the stream."""
HEALTHY_WORDS = ("healthy", "normal")
"""One of them is part of the name of the healthy class."""
SIMULATED_SPECIMENS = 3
"""Specimens of each simulated rig."""


@dataclass(frozen=True)
class RotationSet:
    """A set of recordings with its operating points."""

    scenario: Scenario
    """Classes, channels and conditions; folds have their own segments and stages."""
    folder: Path
    points: tuple[OperatingPoint, ...]
    shortest: int
    """Samples of the shortest segment or stage that a fold may cut."""
    simulated: bool = False
    """Whether a rig simulates the recordings into the folder."""

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.scenario.name

    @property
    def specimens(self) -> tuple[int, ...]:
        """All specimens that were recorded in every class at some point."""
        return tuple(sorted({specimen for point in self.points for specimen in point.specimens}))

    def point_name(self, point: OperatingPoint) -> str:
        """Return a name of a point, such as ``speed 1200 rpm, shaft load 11 lb``."""
        return point_name(common_levels([point], self.scenario.conditions), self.scenario.conditions)


def steady_state_set(folder: Path) -> RotationSet:
    """Return the set in a folder; if a built-in scenario has its name, with the classes and channels of that one."""
    known = Scenario.load(folder.name) if folder.name in builtin_scenarios() else None
    library = SteadyStateLibrary(folder, assumed_rate=known.sample_rate if known else None)
    healthy, faults = (known.healthy, known.faults) if known else _classes(library)
    files = [file for file in library.files if file.state in (healthy, *faults)]
    conditions = _conditions(files, known.conditions if known else ())
    points = _points(files, conditions, states=1 + len(faults))
    used = [file for file in files if any(file.run in point.runs for point in points)]
    if not used:
        raise DataError(f"{folder}: no operating condition has recordings of every class; expected at least one")
    lengths = [library.get(file.state, file.run, severity="H", specimen=file.specimen).samples for file in used]
    offline, online = _whole_set(points, conditions)
    scenario = Scenario(
        name=folder.name,
        title=f"{folder.name}: one operating condition after the other is left out",
        healthy=healthy,
        faults=faults,
        channels=known.channels if known else library.channels,
        sample_rate=library.sample_rate,
        conditions=conditions,
        offline=offline,
        online=online,
        specimens="run" if all(file.unit is None for file in files) else "unit",
    )
    return RotationSet(scenario, folder, points, _shortest_part(min(lengths)))


def data_set_rotation(folder: Path) -> RotationSet:
    """Return the set of a machine's data set, whose conditions must be constant in every recording."""
    data_set = DataSet.load(folder)
    about = data_set.about
    measured = [one.entry for one in data_set.selected if one.entry.ranges]
    if measured:
        raise DataError(
            f"{folder}: {measured[0].file} has measured conditions; a rotation leaves out constant ones, and "
            f"`cgsa evaluate --leave-out` any"
        )
    files = [
        SteadyStateFile(folder / one.entry.file, one.entry.label, one.run, one.entry.levels, one.specimen)
        for one in data_set.selected
    ]
    conditions = scenario_conditions(about, about.recordings)
    if not about.conditions:
        raise DataError(f"{folder}: states no operating condition; a rotation leaves one out after the other")
    points = _points(files, conditions, states=len(about.classes))
    used = [one for one in data_set.selected if any(one.run in point.runs for point in points)]
    if not used:
        raise DataError(f"{folder}: no operating condition has recordings of every class; expected at least one")
    offline, online = _whole_set(points, conditions)
    scenario = replace(data_set.scenario(), conditions=conditions, offline=offline, online=online)
    shortest = min(data_set.read(one.entry).samples for one in used)
    return RotationSet(scenario, folder, points, _shortest_part(shortest))


def rig_set(name: str, folder: Path, *, simulated: bool) -> RotationSet:
    """Return the set of a rig, with the levels that its scenario names; its recordings are in ``folder``."""
    scenario = Scenario.load(name)
    scenario.require_rig()
    held: dict[tuple[float, ...], list[str]] = {}
    seconds: float | None = None
    for cut in (*scenario.offline, *scenario.online):
        levels = tuple(level for _, level in cut.levels(scenario.conditions))
        if len(levels) == len(scenario.conditions):
            held.setdefault(levels, []).extend(cut.runs)
            seconds = cut.seconds if seconds is None else seconds
    specimens = tuple(range(1, SIMULATED_SPECIMENS + 1))
    points = tuple(
        OperatingPoint(levels, tuple(dict.fromkeys(runs)), specimens, seconds) for levels, runs in sorted(held.items())
    )
    conditions = tuple(
        _covering(condition, [point.levels[place] for point in points])
        for place, condition in enumerate(scenario.conditions)
    )
    offline, online = _whole_set(points, conditions)
    rotated = replace(scenario, conditions=conditions, offline=offline, online=online)
    # A level lasts for at least a second, or it is not found.
    shortest = _shortest_part(round((seconds or 1.0) * scenario.sample_rate))
    return RotationSet(rotated, folder, points, shortest, simulated)


def find_sets(data: Path | None, simulated: Path, names: Sequence[str]) -> tuple[list[RotationSet], list[str]]:
    """Return the sets to rotate, and a note on every subfolder of ``data`` that is none.

    If ``data`` is the data set of a machine, it is the only one. Without ``names``, these are all sets in ``data`` and
    all rigs. A rig is simulated into a subfolder of
    ``simulated``, unless ``data`` has recordings of it.
    """
    rigs = [name for name in builtin_scenarios() if Scenario.load(name).machine is not None]
    if data is not None and is_data_set(data):
        return [data_set_rotation(data)], []
    folders = {} if data is None else _set_folders(data)
    unknown = [name for name in names if name not in folders and name not in rigs]
    if unknown:
        raise ConfigError(f"no set {unknown[0]!r}; known: {', '.join((*folders, *rigs)) or 'none'}")
    sets, notes = [], []
    for name in names or (*folders, *rigs):
        try:
            if name in folders:
                known = data_set_rotation if is_data_set(folders[name]) else steady_state_set
                sets.append(known(folders[name]))
            else:
                recorded = None if data is None or not (data / name).is_dir() else data / name
                sets.append(rig_set(name, recorded or simulated / name, simulated=recorded is None))
        except CgsaError as error:
            if names:
                raise
            notes.append(f"{name} is left out: {error}")
    return sets, notes


def _set_folders(data: Path) -> dict[str, Path]:
    """Return the folders of sets of steady-state recordings and of data sets, by name."""
    found = [path.parent for name in (META_FILE, MACHINE_FILE) for path in data.glob(f"*/{name}")]
    return {folder.name: folder for folder in sorted(found)}


def _classes(library: SteadyStateLibrary) -> tuple[str, tuple[str, ...]]:
    states = sorted({file.state for file in library.files})
    healthy = [state for state in states if any(word in state for word in HEALTHY_WORDS)]
    if len(healthy) != 1:
        raise DataError(
            f"{library.folder}: classes {', '.join(states)}; expected one name with {' or '.join(HEALTHY_WORDS)}"
        )
    return healthy[0], tuple(state for state in states if state != healthy[0])


def _conditions(files: Sequence[SteadyStateFile], known: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the quantities that vary over a set, or all of them if none does."""
    given = {condition.name: condition for condition in known}
    found = []
    for name in dict.fromkeys(name for file in files for name in file.conditions):
        without = [file.path for file in files if name not in file.conditions]
        if without:
            raise DataError(f"{without[0]}: has no {name}, others have; expected the same quantities in all entries")
        levels = sorted({file.conditions[name] for file in files})
        gap = min((b - a for a, b in pairwise(levels)), default=1.0)
        condition = given.get(name) or Condition(name, unit_of(name), 0.0, 1.0, tolerance=gap / 4)
        found.append((len(levels) > 1, _covering(condition, levels)))
    return tuple(condition for varies, condition in found if varies) or tuple(condition for _, condition in found)


def _covering(condition: Condition, levels: Sequence[float]) -> Condition:
    """Return a condition whose range is that of its levels."""
    low, high = min(levels), max(levels)
    return replace(condition, minimum=low, maximum=high if high > low else low + 1.0)


def _points(
    files: Sequence[SteadyStateFile], conditions: Sequence[Condition], states: int
) -> tuple[OperatingPoint, ...]:
    """Return the points at which every class was recorded, with the runs that every class has."""
    recorded: dict[tuple[float, ...], dict[tuple[str, int], set[str]]] = {}
    for file in files:
        levels = tuple(file.conditions[condition.name] for condition in conditions)
        recorded.setdefault(levels, {}).setdefault((file.run, file.specimen), set()).add(file.state)
    points = []
    for levels, found in sorted(recorded.items()):
        complete = [run for run, having in found.items() if len(having) == states]
        runs = tuple(sorted({run for run, _ in complete}))
        specimens = tuple(
            number
            for number in sorted({number for _, number in complete})
            if {(run, number) for run in runs} <= {*complete}
        )
        if specimens:
            points.append(OperatingPoint(levels, runs, specimens))
    return tuple(points)


def _whole_set(
    points: Sequence[OperatingPoint], conditions: Sequence[Condition]
) -> tuple[tuple[SegmentSelection, ...], tuple[Stage, ...]]:
    """Return the segments and stages of a scenario that only describes a set: all points, all of each recording."""
    segments = training_selection(points, conditions, (0.0, 1.0))
    first = segments[0]
    return segments, (Stage("C1", first.run, also=first.also, level=first.level, seconds=first.seconds),)


def _shortest_part(samples: int) -> int:
    return int(min(end - begin for begin, end in (TRAINING_PART, WATCHED_PART)) * samples)
