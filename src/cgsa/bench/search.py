"""Scenarios for a search on real recordings, of which there is but one specimen.

A search must not see the streams that a comparison scores. So it streams what the comparison trains on: its models are
trained on the first part of the offline segments, and the streams consist of the last part and, if there are at least
three segments, of the last segment, which is left out of these trainings. The online stages are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from cgsa.data.scenario import Scenario, SegmentSelection, Stage
from cgsa.errors import ConfigError
from cgsa.files import replacing

TRAINED_PART = 0.6
"""Share of every offline segment that the models of a search are trained on, from its begin."""
MARGIN = 0.05
"""Share of a segment at its ends that no stream has: neighbouring segments of one run may share samples there."""
LEAST_TO_LEAVE_OUT = 3
"""With fewer segments, all of them are trained on: a condition needs two to vary."""


def search_scenario(scenario: Scenario) -> Scenario:
    """Return a scenario that trains on a part of the offline segments and streams the rest of them."""
    whole = [cut for cut in scenario.offline if not cut.states]
    if not whole:
        raise ConfigError(
            f"scenario {scenario.name}: every offline segment is of some classes only; a search needs one of all"
        )
    left_out = scenario.offline[-1] if len(whole) >= LEAST_TO_LEAVE_OUT and whole[-1] is scenario.offline[-1] else None
    trained = [cut for cut in scenario.offline if cut is not left_out]
    known = [cut for cut in whole if cut is not left_out]
    end = 1 - MARGIN
    middle = (TRAINED_PART + end) / 2
    first = _part(known[0], TRAINED_PART, middle) if left_out is None else _part(left_out, MARGIN, end)
    # The first of the known segments may give all stages, so that their parts must differ.
    stages = (
        _stage("C1", first, fault_from=1.0),
        _stage("C2", _part(known[-1], middle if known[-1] is known[0] else TRAINED_PART, end), fault_from=0.5),
        *([_stage("C3", _part(known[0], middle, end), fault_from=0.0)] if known[-1] is not known[0] else []),
    )
    return replace(scenario, offline=tuple(_part(cut, 0.0, TRAINED_PART) for cut in trained), online=stages)


def write_search_scenarios(scenarios: Sequence[str], folder: Path) -> dict[str, str]:
    """Write the scenario of a search for each scenario of a plan; return the paths by the names of the latter."""
    found = {}
    for name in scenarios:
        path = folder / f"{Path(name).stem}-search.toml"
        with replacing(path, ConfigError) as fresh:
            fresh.write_text(search_scenario(Scenario.load(name)).to_toml(), encoding="utf-8")
        found[name] = str(path)
    return found


def _part(cut: SegmentSelection, begin: float, end: float) -> SegmentSelection:
    """Return a part of what a segment selects."""
    low, high = cut.part
    return replace(cut, part=(low + begin * (high - low), low + end * (high - low)))


def _stage(name: str, cut: SegmentSelection, *, fault_from: float) -> Stage:
    values = {one.name: getattr(cut, one.name) for one in fields(SegmentSelection)}
    return Stage(**{**values, "name": name}, fault_from=fault_from)
