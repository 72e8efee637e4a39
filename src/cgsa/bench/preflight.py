"""Check before a long run that the recordings contain everything a plan needs."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.bench.workspace import PlanWorkspace
from cgsa.data.library import open_library
from cgsa.data.scenario import Library, Scenario, SegmentSelection, Stage
from cgsa.errors import CgsaError, ConfigError, DataError
from cgsa.workflow import ENSEMBLE


def missing_recordings(workspace: PlanWorkspace) -> list[str]:
    """Return all problems with the recordings of a workspace, one message each; empty if there are none.

    Every segment and stage is read once, so a run that has the right name but is too short, or never reaches a level,
    is reported too.
    """
    problems: list[str] = []
    for name in workspace.plan.scenarios:
        scenario = Scenario.load(name)
        # An ensemble chooses windows that fit its recordings.
        profiles = {entry.profile for entry in workspace.plan.entries if entry.objective != ENSEMBLE}
        length = max((workspace.plan.profile_of(name, one).window.length for one in profiles), default=0)
        try:
            library = open_library(workspace.recordings_of(scenario), scenario)
        except CgsaError as error:
            problems.append(str(error))
            continue
        for state, cut in _required_segments(workspace, name):
            for run in cut.runs:
                problems += _problems(scenario, library, state, cut, run, watched=workspace.plan.watched, length=length)
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


def _required_segments(workspace: PlanWorkspace, name: str) -> Iterator[tuple[str, SegmentSelection]]:
    """Yield every segment that training needs and every stage that streams need, with its states."""
    scenario = Scenario.load(name)
    for state in scenario.classes:
        yield from ((state, cut) for cut in scenario.offline if not cut.states or state in cut.states)
    for stage in scenario.online:
        healthy = [scenario.healthy] if stage.fault_from > 0 else []
        faulty = workspace.plan.faults_of(name) if stage.fault_from < 1 else []
        for state in (*healthy, *faulty):
            yield state, stage


def _problems(
    scenario: Scenario, library: Library, state: str, cut: SegmentSelection, run: str, *, watched: int, length: int
) -> Iterator[str]:
    """Yield what is wrong with one run, for each specimen that training or the stream needs."""
    try:
        training = () if isinstance(cut, Stage) else scenario.training_specimens(library, state, cut, run=run)
    except CgsaError as error:
        yield str(error)
        return
    for specimen in training or [watched]:
        try:
            piece = scenario.cut(library, state, cut, run=run, specimen=specimen)
        except CgsaError as error:
            yield str(error)
        else:
            if piece.samples < length:
                yield f"{piece.source}: {cut.name} has {piece.samples} samples; a window takes {length}"
