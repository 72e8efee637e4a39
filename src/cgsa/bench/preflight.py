"""Before a long run: see whether the recordings hold everything that a plan will ask for."""

from __future__ import annotations

from collections.abc import Iterator

from cgsa.bench.site import Site
from cgsa.data.library import open_library
from cgsa.data.scenario import Library, Scenario, SegmentSelection
from cgsa.errors import CgsaError, ConfigError, DataError


def preflight(site: Site) -> list[str]:
    """Return everything that the recordings of a site lack, not only the first thing; empty where nothing does.

    Every segment and stage is cut once, so a run that has the right name but is
    too short, or never reaches a level, is found too.
    """
    problems: list[str] = []
    for name in site.plan.scenarios:
        scenario = Scenario.load(name)
        profiles = {entry.profile for entry in site.plan.entries}
        length = max(site.plan.profile_of(name, profile).window.length for profile in profiles)
        try:
            library = open_library(site.data_of(scenario), scenario)
        except CgsaError as error:
            problems.append(str(error))
            continue
        for state, cut, specimen in _needed(site, name, library):
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


def require_data(site: Site, *, asked: bool) -> None:
    """Fail with all that is missing; where the rigs are simulated nothing can be, and ``asked`` says it was asked."""
    if site.data is None:
        if asked:
            raise ConfigError("nothing to check: without --data the rigs are simulated")
        return
    problems = preflight(site)
    if problems:
        raise DataError("\n".join(problems))


def _needed(site: Site, name: str, library: Library) -> Iterator[tuple[str, SegmentSelection, int]]:
    """Yield every state and cut that training and streams ask for, with the specimen."""
    scenario = Scenario.load(name)
    for specimen in library.specimens():
        for state in scenario.classes:
            for cut in scenario.offline:
                yield state, cut, specimen
    for stage in scenario.online:
        healthy = [scenario.healthy] if stage.fault_from > 0 else []
        faulty = site.plan.faults_of(name) if stage.fault_from < 1 else []
        for state in (*healthy, *faulty):
            yield state, stage, site.plan.watched
