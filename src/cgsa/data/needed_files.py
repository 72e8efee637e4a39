"""Which files a scenario needs, by the names that the data sets give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cgsa.data.mcc5.files import HEALTHY, file_name
from cgsa.data.run import Run, Severity
from cgsa.data.scenario import Scenario, SegmentSelection
from cgsa.errors import ConfigError

WITHOUT_SEVERITY = frozenset({HEALTHY, "miss_teeth", "bend", "broken_bar", "dynamic_eccentricity"})
"""States of the MCC5-THU data sets whose files name no severity."""


@dataclass(frozen=True)
class NeededFile:
    """One run of one state, which a scenario cuts segments and stages from."""

    scenario: str
    name: str
    """As the data set has it, without a time stamp or the name of a unit."""
    state: str
    run: str
    uses: tuple[str, ...]
    """Names of the segments and stages, such as ``T1``."""


def needed_files(scenario: Scenario, faults: Sequence[str] | None = None) -> list[NeededFile]:
    """Return the files that training and the streams of some faults need, by default of all; each once."""
    uses: dict[tuple[str, str], list[str]] = {}
    for state, cut in needed_segments(scenario, faults):
        for run in cut.runs:
            uses.setdefault((state, run), []).append(cut.name)
    return [
        NeededFile(scenario.name, _name(scenario, state, run), state, run, tuple(names))
        for (state, run), names in uses.items()
    ]


def needed_segments(scenario: Scenario, faults: Sequence[str] | None = None) -> Iterator[tuple[str, SegmentSelection]]:
    """Yield every state with each segment that training cuts from it, and with each stage that streams do."""
    for state in scenario.classes:
        for cut in scenario.offline:
            if not cut.states or state in cut.states:
                yield state, cut
        streamed = state == scenario.healthy or faults is None or state in faults
        for stage in scenario.online:
            if streamed and (stage.fault_from > 0 if state == scenario.healthy else stage.fault_from < 1):
                yield state, stage


def _name(scenario: Scenario, state: str, run: str) -> str:
    try:
        programme = Run.parse(run)
    except ConfigError:
        return f"{state}__{run}.npz"  # a set of steady-state recordings
    severity: Severity | None = None if state in WITHOUT_SEVERITY else scenario.severity_of(state)
    return f"{file_name(scenario.machine or '', state, severity, programme)}.csv"
