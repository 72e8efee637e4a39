from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from cgsa.bench.details import AFTER, BEFORE, INTERVALS, Batches, Details, Intervals, Transition
from cgsa.bench.figures import GRAIN, MOST_LINES, Drawing, all_drawings, course, strokes
from cgsa.bench.records import WHOLE_STREAM, Record
from cgsa.bench.tables import Table

FAULTS = ("gear_wear", "teeth_break", "teeth_crack")
STAGES = ("C1", "C2", "C3")


def make_record(
    entry: str = "CGSA",
    fault: str = "gear_wear",
    trial: int = 0,
    *,
    scenario: str = "gearbox",
    method: str = "cgsa",
    settings: Mapping[str, object] | None = None,
    batch_size: int = 100,
    guided: bool = True,
) -> Record:
    """Return a record of a stream of 1800 windows, three stages of 600, with numbers that depend on its name."""
    rng = np.random.default_rng(list(f"{entry} {fault} {trial} {batch_size}".encode()))
    sizes = [min(batch_size, 1800 - begin) for begin in range(0, 1800, batch_size)]
    batches = Batches(
        stage=tuple(begin // 600 for begin in range(0, 1800, batch_size)),
        windows=tuple(sizes),
        right=tuple(int(rng.integers(0, size + 1)) for size in sizes),
        confidence=(0.9,) * len(sizes),
        accepted=(1,) * len(sizes),
    )
    accuracy = rng.random(3).tolist()
    common: dict[str, object] = {
        "plan": "made up",
        "scenario": scenario,
        "fault": fault,
        "entry": entry,
        "objective": "cal",
        "method": method,
        "settings": json.dumps(settings or {}),
        "batch_size": batch_size,
        "trial": trial,
    }
    rows = [
        {**common, "stage": name, "accuracy": value, "ece": 0.1} for name, value in zip(STAGES, accuracy, strict=True)
    ]
    whole = {"stage": WHOLE_STREAM, "accuracy": sum(accuracy) / 3, "ece": 0.05, "seconds": 100 / batch_size}
    details = Details(batches, (0, 600, 1200), 900)
    if guided:
        details = replace(details, intervals=make_intervals(rng), transitions=make_transitions(rng))
    return Record((*rows, {**common, **whole}), details)


def make_intervals(rng: np.random.Generator) -> Intervals:
    windows = rng.integers(1, 100, len(INTERVALS))
    windows[2] = 0
    return Intervals(tuple(windows.tolist()), tuple((windows // 2).tolist()))


def make_transitions(rng: np.random.Generator) -> tuple[Transition, ...]:
    """Return one transition early in the stream, where the queue still fills, and one with all its windows."""
    found = []
    for name, begin in (("onset", -30), ("C2 to C3", -BEFORE)):
        count = AFTER - begin
        deviation = tuple(None if place < 20 and begin == -30 else float(rng.random()) for place in range(count))
        yes = rng.integers(0, 2, (2, count)).tolist()
        found.append(Transition(name, begin, tuple(yes[0]), deviation, tuple(yes[1])))
    return tuple(found)


RECORDS = [
    make_record(entry, fault, trial, method=method, guided=method == "cgsa")
    for trial, fault, (entry, method) in product(
        range(2), FAULTS, {"SupCon": "source", "CGSA": "cgsa", "CoTTA": "cotta"}.items()
    )
]


@pytest.fixture(scope="module")
def drawings() -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in all_drawings(RECORDS)}


def texts(drawing: Drawing) -> list[str]:
    return [text.get_text() for axis in drawing.figure.axes for text in axis.texts]


def columns(table: Table, *names: str) -> list[tuple[str, ...]]:
    places = [table.header.index(name) for name in names]
    return [tuple(row[place] for place in places) for row in table.rows]


def test_one_drawing_of_each_kind_that_the_records_allow(drawings: dict[str, Drawing]) -> None:
    assert list(drawings) == ["totals-gearbox", "curves-gearbox", "intervals-gearbox", "transitions-gearbox"]
    for name, drawing in drawings.items():
        assert drawing.table.name == name
        assert all(len(row) == len(drawing.table.header) for row in drawing.table.rows)


def test_totals_are_means_over_faults_then_trials(drawings: dict[str, Drawing]) -> None:
    by_trial = [
        sum(float(str(r.whole["accuracy"])) for r in RECORDS if (r.entry, r.trial) == ("CGSA", trial)) / 3
        for trial in range(2)
    ]
    mean, deviation = sum(by_trial) / 2, abs(by_trial[0] - by_trial[1]) / 2
    found = drawings["totals-gearbox"].table.rows
    assert [row[0] for row in found] == ["SupCon", "CGSA", "CoTTA"]
    assert found[1] == ("CGSA", f"{mean:.4f}", f"{deviation:.4f}", "2", "0.918", "0.037")


def test_the_papers_total_stands_beside_all_its_faults_only() -> None:
    totals = all_drawings([record for record in RECORDS if record.fault != "teeth_crack"])[0]
    assert {row[4:] for row in totals.table.rows} == {("", "")}


def test_curves_are_what_a_loop_over_the_batches_finds(drawings: dict[str, Drawing]) -> None:
    mine = [r.details.batches for r in RECORDS if (r.entry, r.fault) == ("CoTTA", "teeth_break")]
    expected = []
    for batch in range(18):
        cumulative = sum(sum(b.right[: batch + 1]) / sum(b.windows[: batch + 1]) for b in mine) / len(mine)
        realtime = sum(b.right[batch] / b.windows[batch] for b in mine) / len(mine)
        expected.append((str(100 * (batch + 1)), f"{cumulative:.4f}", f"{realtime:.4f}"))
    drawing = drawings["curves-gearbox"]
    found = [row[2:] for row in drawing.table.rows if row[:2] == ("teeth_break", "CoTTA")]
    assert found == expected
    upper = drawing.figure.axes[1]
    (line,) = [line for line in upper.get_lines() if line.get_label() == "CoTTA"]
    drawn = [f"{float(value):.4f}" for value in np.asarray(line.get_ydata())]
    assert drawn == [row[1] for row in expected]
    assert upper.get_title() == "teeth break"


def test_stages_and_onset_do_not_hang_on_the_batches() -> None:
    for size in (50, 250, 1800):
        where = course([make_record(batch_size=size)])
        assert where.begins == {"C1": 0, "C2": 600, "C3": 1200}
        assert (where.end, where.onset) == (1800, 900)


def test_intervals_are_pooled_and_empty_ones_told(drawings: dict[str, Drawing]) -> None:
    told = [r.details.intervals for r in RECORDS if r.details.intervals is not None]
    windows, right = sum(each.windows[5] for each in told), sum(each.right[5] for each in told)
    total = sum(sum(each.windows) for each in told)
    drawing = drawings["intervals-gearbox"]
    assert drawing.table.rows[5] == (
        "0.04 to 0.05",
        str(windows),
        f"{windows / total:.4f}",
        f"{right / windows:.4f}",
    )
    assert drawing.table.rows[2] == ("0.01 to 0.02", "0", "0.0000", "")
    assert drawing.table.rows[-1][0] == "0.3 or more"
    assert texts(drawing).count("no windows") == 1


def test_intervals_of_the_first_guided_method_where_none_is_named_as_the_papers() -> None:
    records = [make_record("frozen", method="source", guided=False), make_record("A"), make_record("B")]
    (drawing,) = [drawing for drawing in all_drawings(records) if drawing.name == "intervals-gearbox"]
    assert "of A within" in drawing.caption


@pytest.mark.parametrize(("tau", "shown"), [(0.02, True), (0.5, False)])
def test_the_threshold_is_marked_where_the_intervals_have_a_scale(tau: float, *, shown: bool) -> None:
    (drawing,) = [each for each in all_drawings([make_record(settings={"tau": tau})]) if "intervals" in each.name]
    assert (f" threshold {tau:g}" in texts(drawing)) == shown


def slow_point(name: str, begin: int, told: Callable[[Transition], Sequence[float | None]]) -> tuple[float, float]:
    trials = []
    for trial in range(2):
        values = []
        for record in RECORDS:
            for change in record.details.transitions:
                if record.trial == trial and change.name == name:
                    for place, value in enumerate(told(change)):
                        if begin <= change.begin + place < begin + GRAIN and value is not None:
                            values.append(value)
        if values:
            trials.append(sum(values) / len(values))
    mean = sum(trials) / len(trials)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in trials) / len(trials))


@pytest.mark.parametrize(("name", "begin"), [("onset", -16), ("onset", 0), ("C2 to C3", -8), ("C2 to C3", 376)])
def test_transitions_are_what_a_loop_over_the_windows_finds(
    drawings: dict[str, Drawing], name: str, begin: int
) -> None:
    (row,) = [row for row in drawings["transitions-gearbox"].table.rows if row[:2] == (name, str(begin))]
    spreads = [
        slow_point(name, begin, lambda change: change.accepted),
        slow_point(name, begin, lambda change: change.right),
        slow_point(name, begin, lambda change: change.deviation),
    ]
    assert row[2:] == (str(begin + GRAIN - 1), *(f"{value:.4f}" for spread in spreads for value in spread))


def test_a_transition_with_an_unfilled_queue_has_no_deviation_yet(drawings: dict[str, Drawing]) -> None:
    rows = columns(drawings["transitions-gearbox"].table, "change", "from window", "accepted", "deviation")
    early = next(row for row in rows if row[0] == "onset")
    assert early[1] == "-32"
    assert early[2]
    assert not early[3]


def grid_of(values: Mapping[str, Sequence[object]], method: str = "cgsa") -> list[Record]:
    return [
        make_record(
            f"{method} {combination}",
            fault,
            trial,
            method=method,
            settings=dict(zip(values, combination, strict=True)),
            guided=False,
        )
        for combination in product(*values.values())
        for fault in FAULTS[:2]
        for trial in range(2)
    ]


def grids(records: Sequence[Record]) -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in all_drawings(records) if drawing.name.startswith("grid")}


def test_a_grid_holds_means_over_faults_and_trials() -> None:
    records = grid_of({"tau": [0.1, 0.02], "queue": [50, 10, 200]})
    (name, drawing), *others = grids(records).items()
    assert (name, others) == ("grid-gearbox-tau-queue", [])
    assert drawing.table.header == ("tau, queue", "10", "50", "200")
    mine = [
        float(str(r.whole["accuracy"]))
        for r in records
        if json.loads(str(r.whole["settings"])) == {"tau": 0.02, "queue": 50}
    ]
    assert len(mine) == 4
    assert drawing.table.rows[0][0] == "0.02"
    assert drawing.table.rows[0][2] == f"{sum(mine) / 4:.4f}"
    assert f"{sum(mine) / 4:.3f}" in texts(drawing)


def test_a_cell_that_is_not_done_stays_empty() -> None:
    records = grid_of({"tau": [0.1, 0.02], "queue": [50, 10]})[4:]
    (drawing,) = grids(records).values()
    assert drawing.table.rows[1][2] == ""
    assert len(texts(drawing)) == 3


@pytest.mark.parametrize(
    "values",
    [
        {"tau": [0.1, 0.2]},
        {"tau": [0.1, 0.2], "queue": [1, 2], "lr": [1e-3, 1e-4]},
        {"by_residual": [True, False], "by_confidence": [True, False]},
    ],
)
def test_other_than_two_numbers_make_no_grid(values: dict[str, Sequence[object]]) -> None:
    assert not grids(grid_of(values))


def test_grids_of_two_methods_have_two_names() -> None:
    values: dict[str, Sequence[object]] = {"lr": [1e-3, 1e-4], "steps": [1, 2], "fixed": ["x"]}
    found = grids(grid_of(values, "tent_full") + grid_of(values, "cotta"))
    assert list(found) == ["grid-gearbox-lr-steps", "grid-gearbox-lr-steps-2"]
    assert [drawing.title.partition(":")[0] for drawing in found.values()] == ["tent_full", "cotta"]


def test_batch_sizes_have_accuracy_and_time() -> None:
    records = [
        make_record(f"CGSA batch_size={size}", fault, trial, batch_size=size)
        for size in (200, 50)
        for fault in FAULTS[:2]
        for trial in range(2)
    ]
    drawing = all_drawings(records)[-1]
    assert drawing.name == "batch-size-gearbox"
    by_trial = [
        sum(float(str(r.whole["accuracy"])) for r in records if (r.trial, r.whole["batch_size"]) == (trial, 50)) / 2
        for trial in range(2)
    ]
    mean, deviation = sum(by_trial) / 2, abs(by_trial[0] - by_trial[1]) / 2
    assert drawing.table.rows[0] == ("cgsa from cal", "50", f"{mean:.4f}", f"{deviation:.4f}", "2.00")
    assert drawing.table.rows[1][1] == "200"


def test_every_drawing_is_written_whole_and_always_the_same(drawings: dict[str, Drawing], tmp_path: Path) -> None:
    for drawing in drawings.values():
        drawing.write(tmp_path / "once")
        drawing.write(tmp_path / "again")
    for drawing in all_drawings(RECORDS):
        drawing.write(tmp_path / "anew")
    names = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert names == sorted(f"{name}.{ending}" for name in drawings for ending in ("svg", "png", "csv", "md", "tex"))
    for name in names:
        content = (tmp_path / "once" / name).read_bytes()
        assert content == (tmp_path / "again" / name).read_bytes()
        assert content == (tmp_path / "anew" / name).read_bytes()
    svg = (tmp_path / "once" / "curves-gearbox.svg").read_text()
    assert svg.startswith("<svg")
    assert "dc:date" not in svg


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    before = dict(mpl.rcParams)
    all_drawings(RECORDS[:3])[0].png()
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("guided", [False, True])
def test_one_record_is_enough(*, guided: bool) -> None:
    names = [drawing.name for drawing in all_drawings([make_record(guided=guided)])]
    assert names[:2] == ["totals-gearbox", "curves-gearbox"]
    assert len(names) == (4 if guided else 2)


def test_no_records_no_drawings() -> None:
    assert all_drawings([]) == []


def test_scenarios_come_one_after_the_other() -> None:
    records = [make_record(scenario=name, guided=False) for name in ("motor", "gearbox")]
    names = [drawing.name for drawing in all_drawings(records)]
    assert names == ["totals-motor", "curves-motor", "totals-gearbox", "curves-gearbox"]


def test_names_are_no_formulas() -> None:
    for drawing in all_drawings([make_record("$\\broken$ <&>", "a_$fault$", scenario="$s$")]):
        assert drawing.svg()


def test_entries_can_be_told_apart() -> None:
    records = [make_record(f"m{number}", method="m") for number in range(MOST_LINES - 6)]
    records += [make_record(f"s{number}", method="source") for number in range(4)]
    looks = strokes([*records, make_record()])
    assert len({(look.colour, look.dash) for look in looks.values()}) == len(looks)
    assert looks["CGSA"].width == max(look.width for look in looks.values())


def test_too_many_lines_are_not_drawn() -> None:
    records = [make_record(f"m{number}", guided=False) for number in range(MOST_LINES + 1)]
    assert [drawing.name for drawing in all_drawings(records)] == ["totals-gearbox"]
