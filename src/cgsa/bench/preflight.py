"""Check before a long run that the recordings contain everything a plan needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cgsa.bench.plan import Plan
from cgsa.bench.workspace import PlanWorkspace
from cgsa.data.library import open_library
from cgsa.data.needed_files import NeededFile, needed_files, needed_segments
from cgsa.data.recording import Interval, Recording, grouped_notes
from cgsa.data.scenario import Library, Scenario, SegmentSelection, Stage, check_no_leak
from cgsa.errors import CgsaError
from cgsa.workflow import ENSEMBLE


@dataclass(frozen=True)
class Preflight:
    """What a plan needs of the recordings, and what is there."""

    files: tuple[NeededFile, ...]
    found: tuple[tuple[str, ...], ...] = ()
    """Paths of each of the files, one per specimen; empty if it is missing or invalid."""
    problems: tuple[str, ...] = ()
    """What stops the plan; each message names the file and the cure."""
    notes: tuple[str, ...] = ()
    """In what the recordings differ from the plan, which runs all the same."""


def plan_files(plan: Plan) -> list[NeededFile]:
    """Return the files that all scenarios of a plan need."""
    return [file for name in plan.scenarios for file in needed_files(Scenario.load(name), plan.faults_of(name))]


def check_recordings(workspace: PlanWorkspace) -> Preflight:
    """Find all problems with the recordings of a workspace at once.

    Every segment and stage is read once, so a run that has the right name but is too short, or never reaches a level,
    is reported too.
    """
    survey = _PlanSurvey(workspace)
    for name in workspace.plan.scenarios:
        survey.check(name)
    files = plan_files(workspace.plan)
    return Preflight(
        tuple(files),
        tuple(tuple(survey.found[file.scenario, file.state, file.run]) for file in files),
        tuple(dict.fromkeys(survey.problems)),
        (*dict.fromkeys(survey.notes), *grouped_notes(survey.noted)),
    )


class _PlanSurvey:
    """What was found so far."""

    def __init__(self, workspace: PlanWorkspace) -> None:
        self._workspace, self._plan = workspace, workspace.plan
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.noted: list[tuple[str, Sequence[str]]] = []
        """Sources with the notes of their recordings."""
        self.found: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
        """Sources by scenario, state and run."""
        self._of_folders: set[str] = set()

    def check(self, name: str) -> None:
        """Read everything that a scenario needs."""
        scenario, plan = Scenario.load(name), self._plan
        folder = self._workspace.recordings_of(scenario)
        # An ensemble chooses windows that fit its recordings.
        profiles = {entry.profile for entry in plan.entries if entry.objective != ENSEMBLE}
        length = max((plan.profile_of(name, one).window.length for one in profiles), default=0)
        try:
            library = open_library(folder, scenario)
        except CgsaError as error:
            self.problems.append(str(error))
            return
        self._of_folders.update(library.notes)
        specimens = _specimen_notes(plan, library, simulated=scenario.machine is not None)
        self.notes += [f"{folder}: {note}" for note in (*library.notes, *specimens)]
        trained: list[Interval] = []
        streamed: list[Interval] = []
        for state, cut in needed_segments(scenario, plan.faults_of(name)):
            for run in cut.runs:
                for piece in self._pieces(scenario, library, state, cut, run):
                    source, begin, end = piece.interval
                    if piece.samples < length:
                        self.problems.append(
                            f"{source}: {cut.name} has {piece.samples} samples; a window takes {length}; replace the "
                            f"file with a longer recording, or set a shorter window.length"
                        )
                    if isinstance(cut, Stage):
                        onset = begin + round(cut.fault_from * piece.samples)
                        streamed.append((source, begin, onset) if state == scenario.healthy else (source, onset, end))
                    else:
                        trained.append((source, begin, end))
        try:
            check_no_leak(trained, streamed)
        except CgsaError as error:
            self.problems.append(str(error))

    def _pieces(
        self, scenario: Scenario, library: Library, state: str, cut: SegmentSelection, run: str
    ) -> Iterator[Recording]:
        """Yield a segment or stage of every specimen that it is cut from."""
        try:
            trained = () if isinstance(cut, Stage) else scenario.training_specimens(library, state, cut, run=run)
        except CgsaError as error:
            self.problems.append(str(error))
            return
        if trained and len(trained) < len(library.specimens()):
            known, every = _listed(trained), _listed(library.specimens())
            self.notes.append(
                f"{scenario.name}: {run} of {state} exists for specimens {known} only; training uses {every}"
            )
        for specimen in trained or [self._plan.watched]:
            try:
                piece = scenario.cut(library, state, cut, run=run, specimen=specimen)
            except CgsaError as error:
                self.problems.append(str(error))
                continue
            self.found[scenario.name, state, run][piece.source] = None
            # What is true of the whole folder has been noted once.
            self.noted.append((piece.source, [note for note in piece.notes if note not in self._of_folders]))
            yield piece


def _specimen_notes(plan: Plan, library: Library, *, simulated: bool) -> Iterator[str]:
    trained = [*library.specimens()]
    if simulated and len(trained) != plan.specimens:
        yield f"specimens in training: {len(trained)}; plan {plan.name} simulates {plan.specimens}"
    if plan.watched > plan.specimens and plan.watched in trained:
        yield f"plan {plan.name} keeps specimen {plan.watched} out of training, but here it is in it"


def _listed(specimens: Sequence[int]) -> str:
    return ", ".join(map(str, specimens))
