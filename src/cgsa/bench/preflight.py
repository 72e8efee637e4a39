"""Check before a long run that the recordings contain everything a plan needs."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.bench.workspace import PlanWorkspace
from cgsa.data.library import open_library
from cgsa.data.scenario import Library, Scenario, SegmentSelection
from cgsa.errors import CgsaError, ConfigError, DataError


def missing_recordings(workspace: PlanWorkspace) -> list[str]:
    """Return all problems with the recordings of a workspace, one message each; empty if there are none.

    Every segment and stage is read once, so a run that has the right name but is too short, or never reaches a level,
    is reported too.
    """
    problems: list[str] = []
    for name in workspace.plan.scenarios:
        scenario = Scenario.load(name)
        profiles = {entry.profile for entry in workspace.plan.entries}
        length = max(workspace.plan.profile_of(name, profile).window.length for profile in profiles)
        try:
            library = open_library(workspace.recordings_of(scenario), scenario)
        except CgsaError as error:
            problems.append(str(error))
            continue
        for state, cut, specimen in _required_segments(workspace, name, library):
            for run in cut.runs:
                try:
                    piece = scenario.cut(library, state, cut, run=run, specimen=specimen)
                except CgsaError as error:
                    problems.append(str(error))
                else:
                    if piece.samples < length:
                        problems.append(
                            f"{piece.source}: {cut.name} has {piece.samples} samples; a window takes {length}"
                        )
    return list(dict.fromkeys(problems))


def require_recordings(workspace: PlanWorkspace, *, explicit: bool) -> None:
    """Raise an error that lists all problems with the recordings.

    Simulated rigs have none; ``explicit`` says that the user requested the check, which is then a mistake.
    """
    if workspace.data is None:
        if explicit:
            raise ConfigError("nothing to check: without --data the rigs are simulated")
        return
    problems = missing_recordings(workspace)
    if problems:
        raise DataError("\n".join(problems))


def _required_segments(
    workspace: PlanWorkspace, name: str, library: Library
) -> Iterator[tuple[str, SegmentSelection, int]]:
    """Yield every state and segment that training and streams need, with the specimen."""
    scenario = Scenario.load(name)
    for specimen in library.specimens():
        for state in scenario.classes:
            for cut in scenario.offline:
                yield state, cut, specimen
    for stage in scenario.online:
        healthy = [scenario.healthy] if stage.fault_from > 0 else []
        faulty = workspace.plan.faults_of(name) if stage.fault_from < 1 else []
        for state in (*healthy, *faulty):
            yield state, stage, workspace.plan.watched
