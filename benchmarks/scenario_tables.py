"""Tables I and II of the paper as the scenario files state them, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from cgsa.bench.tables import Table
from cgsa.data.run import Run
from cgsa.data.scenario import Scenario, SegmentSelection, Stage

MACHINES = ("gearbox", "motor")
PAPER_OFFLINE = {
    "gearbox": ("1000 rpm", "0 to 10 Nm", "10 Nm", "10 to 15 Nm"),
    "motor": ("2000 rpm", "0 to 20 Nm", "20 Nm", "20 to 30 Nm"),
}
"""Table I of the paper: speed, T1, T2 and T3."""
PAPER_ONLINE = {"gearbox": ("20 Nm", "15 Nm", "5 Nm"), "motor": ("30 Nm", "40 Nm", "15 Nm")}
"""Table II of the paper: C1, C2 and C3."""


def offline_table() -> Table:
    """Return table I: the speed and the segments that train a model."""
    header = ("set", "from", "speed", "T1", "T2", "T3", "differs in")
    rows: list[tuple[str, ...]] = []
    for name in MACHINES:
        scenario = Scenario.load(name)
        speeds = sorted({Run.parse(run).speed for run in scenario.runs})
        mine = (", ".join(f"{speed} rpm" for speed in speeds), *_levels(scenario, scenario.offline))
        rows += _compared(name, header[2:-1], mine, PAPER_OFFLINE[name])
    return Table("offline", header, tuple(rows))


def online_table() -> Table:
    """Return table II: the conditions of the stream."""
    header = ("set", "from", "C1", "C2", "C3", "differs in")
    rows: list[tuple[str, ...]] = []
    for name in MACHINES:
        scenario = Scenario.load(name)
        rows += _compared(name, header[2:-1], _levels(scenario, scenario.online), PAPER_ONLINE[name])
    return Table("online", header, tuple(rows))


def choices_table() -> Table:
    """Return what every segment and stage is cut from, how long it is, and when it is faulty."""
    rows = []
    for name in MACHINES:
        scenario = Scenario.load(name)
        for cut in (*scenario.offline, *scenario.online):
            time = "all of it" if cut.seconds is None else f"{cut.seconds:g} s"
            rows.append((name, cut.name, cut.describe(scenario.conditions), f"`{cut.run}`", time, _state(cut)))
    return Table("choices", ("set", "segment", "condition", "run", "time", "state"), tuple(rows))


def _levels(scenario: Scenario, cuts: Sequence[SegmentSelection]) -> tuple[str, ...]:
    return tuple(cut.describe(scenario.conditions) for cut in cuts)


def _state(cut: SegmentSelection) -> str:
    """Return the states that are cut: all classes in training, the healthy one and a fault in a stage."""
    if not isinstance(cut, Stage):
        return "every class"
    if 0 < cut.fault_from < 1:
        return f"healthy, faulty from {cut.fault_from:.0%}"
    return "healthy" if cut.fault_from else "faulty"


def _compared(
    name: str, columns: Sequence[str], mine: tuple[str, ...], paper: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """Return the row of a scenario file and that of the paper, and in which columns they differ."""
    different = [column for column, one, other in zip(columns, mine, paper, strict=True) if one != other]
    return [
        (name, f"`{name}.toml`", *mine, ", ".join(different) or "nothing"),
        ("", "paper", *paper, ""),
    ]


SCENARIO_TABLES = {"offline": offline_table, "online": online_table, "choices": choices_table}
