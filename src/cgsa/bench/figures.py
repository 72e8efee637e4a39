"""The paper's figures out of records, each with the numbers that it draws.

They use matplotlib's objects directly: nothing is kept open, and a figure goes
with its drawing.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cgsa.bench.details import AFTER, BEFORE, INTERVALS, Transition
from cgsa.bench.records import Record
from cgsa.bench.summary import trial_totals
from cgsa.bench.tables import Table, paper_values
from cgsa.errors import ConfigError
from cgsa.files import replacing
from cgsa.metrics.accuracy import DoubleArray, IntArray
from cgsa.online.cgsa import CgsaConfig
from cgsa.report.figures import to_svg

OURS = "CGSA"
"""The entry that stands out, and whose choices of windows are drawn."""
STRONG, FROZEN, QUIET, FAINT = "#d1495b", "#000000", "#777777", "#e3e3e3"
CYCLE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
"""Colours that the colour-blind tell apart (Okabe and Ito), without black and red."""
DASHES = ((), (5.0, 2.0), (1.0, 1.5), (6.0, 1.5, 1.0, 1.5))
MOST_LINES = 24
"""Beyond this many entries, lines in one panel cannot be told apart."""
LONGEST_NAME = 40
SHORT = 10
"""The points of a line with no more of them are drawn, too."""
GRAIN = 8
"""Windows a point around a transition: fine beside the queue, and no point holds windows of both sides."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure, what it shows, and its numbers as a table."""

    name: str
    """Name of its files."""
    title: str
    caption: str
    figure: Figure
    table: Table

    def __post_init__(self) -> None:
        # Settled once: a layout that is sought anew each time moves by a hair.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")

    def svg(self) -> str:
        """Return the figure as an SVG element; always the same bytes."""
        with _look(self.name):
            return to_svg(self.figure)

    def png(self) -> bytes:
        """Return the figure as a picture; always the same bytes."""
        buffer = io.BytesIO()
        with _look():
            self.figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
        return buffer.getvalue()

    def write(self, folder: Path) -> None:
        """Write the figure as SVG and PNG, and its numbers in every form of a table."""
        for ending, content in (("svg", self.svg().encode()), ("png", self.png())):
            with replacing(folder / f"{self.name}.{ending}", ConfigError) as fresh:
                fresh.write_bytes(content)
        self.table.write(folder)


@dataclass(frozen=True)
class Stroke:
    """How the line of an entry looks."""

    colour: str
    dash: tuple[float, ...]
    """Lengths of dashes and gaps; empty is a solid line."""
    width: float


@dataclass(frozen=True, eq=False)
class Curve:
    """Accuracy of an entry along a stream, one point a batch, mean over the trials."""

    seen: tuple[int, ...]
    """Windows seen by the end of each batch."""
    cumulative: DoubleArray
    """Share of right windows up to then."""
    realtime: DoubleArray
    """Share of right windows in the batch."""


@dataclass(frozen=True)
class Course:
    """What happens along a stream, in windows from its beginning."""

    begins: Mapping[str, int]
    """First window of each stage."""
    end: int
    onset: int | None
    """First faulty window; none where the stream stays healthy."""


def all_drawings(records: Sequence[Record]) -> list[Drawing]:
    """Return every figure that records allow, scenario by scenario."""
    drawings: list[Drawing] = []
    with _look():
        for scenario in dict.fromkeys(record.scenario for record in records):
            mine = [record for record in records if record.scenario == scenario]
            for draw in (_totals, _curves, _intervals, _transitions, _grids, _batch_sizes):
                drawings += draw(mine, scenario)
    return drawings


def strokes(records: Sequence[Record]) -> dict[str, Stroke]:
    """Return a look for every entry: ours and the frozen ones strong, a cycle of colours and dashes for the others."""
    methods = {record.entry: record.whole["method"] for record in records}
    frozen = [entry for entry, method in methods.items() if method == "source"]
    others = [entry for entry in methods if entry not in {OURS, *frozen}]
    looks = {entry: Stroke(FROZEN, DASHES[place % len(DASHES)], 1.6) for place, entry in enumerate(frozen)}
    for place, entry in enumerate(others):
        turn, colour = divmod(place, len(CYCLE))
        looks[entry] = Stroke(CYCLE[colour], DASHES[turn % len(DASHES)], 1.1)
    return {entry: looks.get(entry, Stroke(STRONG, (), 2.4)) for entry in methods}


def mean_curve(records: Sequence[Record]) -> Curve:
    """Return the mean over the trials of one entry on one stream."""
    windows = np.array(records[0].details.batches.windows)
    right = np.array([record.details.batches.right for record in records])
    seen = windows.cumsum()
    return Curve(
        tuple(seen.tolist()),
        np.asarray((right.cumsum(axis=1) / seen).mean(axis=0)),
        np.asarray((right / windows).mean(axis=0)),
    )


def course(records: Sequence[Record]) -> Course:
    """Return the course of one stream."""
    details = records[0].details
    begins = dict(zip(records[0].stages, details.begins, strict=True))
    return Course(begins, sum(details.batches.windows), details.onset)


def paper_total(records: Sequence[Record], entry: str) -> tuple[float, float | None] | None:
    """Return the paper's total average of an entry; none where it has none, or has it over more faults than ours."""
    scenario = records[0].scenario
    theirs = {fault for place, fault, *_ in paper_values() if place == scenario} - {"all"}
    return paper_values().get((scenario, "all", "all", "accuracy", entry)) if theirs <= set(_faults(records)) else None


def _look(salt: str = "") -> AbstractContextManager[None]:
    """Return the settings under which figures are made, and must be drawn too: the number of ticks hangs on them."""
    return rc_context(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            # Names come from plans: a dollar sign in one begins no formula.
            "text.parse_math": False,
            # The names inside an SVG; random without.
            "svg.hashsalt": salt,
        }
    )


def _totals(records: Sequence[Record], scenario: str) -> Iterator[Drawing]:
    totals = trial_totals([row for record in records for row in record.rows], scenario)
    looks = strokes(records)
    figure = Figure(figsize=(7, 1.4 + 0.36 * len(totals)), layout="constrained")
    axis = figure.subplots()
    body = []
    for place, (entry, trials) in enumerate(totals.items()):
        values = np.array(list(trials.values()))
        mean, deviation = float(values.mean()), float(values.std())
        colour = looks[entry].colour
        axis.axhline(place + 0.5, color=FAINT, linewidth=0.5)
        axis.scatter(values, np.full(len(values), place - 0.12), s=9, color=colour, alpha=0.35, linewidths=0)
        _cross(axis, place - 0.12, (mean, deviation), colour, colour)
        published = paper_total(records, entry)
        if published is not None:
            _cross(axis, place + 0.2, published, QUIET, "white")
        body.append((entry, f"{mean:.4f}", f"{deviation:.4f}", str(len(values)), *_texts(published)))
    axis.plot([], [], "o", color=QUIET, label="ours: mean and deviation, a dot a trial")
    if any(row[-2] for row in body):
        axis.plot([], [], "o", color="white", markeredgecolor=QUIET, label="the paper's")
    axis.set_yticks(range(len(totals)), [_cut(entry) for entry in totals])
    axis.set_ylim(len(totals) - 0.4, -0.6)
    axis.set_xlabel("total average accuracy")
    axis.grid(axis="x", color=FAINT)
    axis.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    yield Drawing(
        f"totals-{scenario}",
        f"Total average on the {_words(scenario)}",
        "Accuracy, averaged over stages and faults. Filled: ours, with a small dot a trial and the deviation over the "
        "trials. Hollow: the paper's mean and deviation, where it has the method.",
        figure,
        Table(
            f"totals-{scenario}",
            ("method", "total average", "deviation", "trials", "paper", "paper deviation"),
            tuple(body),
        ),
    )


def _cross(axis: Axes, place: float, spread: tuple[float, float | None], colour: str, filling: str) -> None:
    mean, deviation = spread
    axis.errorbar(mean, place, xerr=deviation, fmt="o", ms=5, color=colour, mfc=filling, capsize=2, lw=1)


def _curves(records: Sequence[Record], scenario: str) -> Iterator[Drawing]:
    faults, looks = _faults(records), strokes(records)
    if len(looks) > MOST_LINES:
        return
    names = {entry: _cut(entry) for entry in looks}
    legend = 0.9 + 0.08 * max(len(name) for name in names.values())
    figure = Figure(figsize=(3.3 * len(faults) + legend, 6), layout="constrained")
    axes = figure.subplots(2, len(faults), sharex="col", sharey="row", squeeze=False)
    body = []
    for fault, (upper, lower) in zip(faults, axes.T, strict=True):
        stream = [record for record in records if record.fault == fault]
        for entry, mine in _by_entry(stream).items():
            curve, look = mean_curve(mine), looks[entry]
            for axis, values in ((upper, curve.cumulative), (lower, curve.realtime)):
                line = axis.plot(curve.seen, values, color=look.colour, linewidth=look.width, label=entry)[0]
                line.set_linestyle((0.0, look.dash or None))
                line.set_marker("o" if len(curve.seen) <= SHORT else "")
                line.set_markersize(3)
            body += [
                (fault, entry, str(seen), f"{cumulative:.4f}", f"{realtime:.4f}")
                for seen, cumulative, realtime in zip(curve.seen, curve.cumulative, curve.realtime, strict=True)
            ]
        where = course(stream)
        _mark_course(upper, where)
        _mark_course(lower, where)
        for name, begin in where.begins.items():
            upper.text(begin, 1.01, f" {name}", transform=upper.get_xaxis_transform(), color=QUIET)
        upper.set_title(_cut(_words(fault)), pad=18)
        lower.set_xlabel("windows seen")
    axes[0, 0].set_ylabel("cumulative accuracy")
    axes[1, 0].set_ylabel("real-time accuracy")
    lines = {line.get_label(): line for axis in axes[0] for line in axis.get_lines() if line.get_label() in looks}
    figure.legend([lines[entry] for entry in names], list(names.values()), loc="outside right upper", frameon=False)
    yield Drawing(
        f"curves-{scenario}",
        f"Accuracy along the stream of the {_words(scenario)}",
        "Above: share of right windows so far. Below: share of right windows in each batch. A point a batch, mean over "
        "the trials. Grey lines part the stages; a dashed line is the onset of the fault.",
        figure,
        Table(f"curves-{scenario}", ("fault", "method", "windows seen", "cumulative", "real-time"), tuple(body)),
    )


def _mark_course(axis: Axes, where: Course) -> None:
    for begin in list(where.begins.values())[1:]:
        axis.axvline(begin, color="#bbbbbb", linewidth=1, zorder=0)
    if where.onset is not None:
        axis.axvline(where.onset, color=QUIET, linewidth=1, linestyle="--", zorder=0)
    axis.set_xlim(0, where.end)
    axis.grid(axis="y", color=FAINT)
    axis.set_axisbelow(True)


def _guided(records: Sequence[Record]) -> list[Record]:
    """Return the records of the one entry whose choices are drawn; none where no method told any."""
    found = [record for record in records if record.details.intervals is not None]
    ours = [record for record in found if record.entry == OURS and record.whole["method"] == "cgsa"]
    return ours or [record for record in found if record.entry == found[0].entry]


def _intervals(records: Sequence[Record], scenario: str) -> Iterator[Drawing]:
    mine = _guided(records)
    told = [record.details.intervals for record in mine if record.details.intervals is not None]
    if not told:
        return
    windows = np.sum([each.windows for each in told], axis=0)
    right = np.sum([each.right for each in told], axis=0)
    places = np.arange(len(INTERVALS))
    names = [f"{low:g} to {high:g}" for low, high in pairwise(INTERVALS)]
    names.append(f"{INTERVALS[-1]:g} or more")
    there = windows > 0
    share = windows / max(1, windows.sum())
    accuracy = right[there] / windows[there]

    figure = Figure(figsize=(7.5, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    upper.bar(places[there], accuracy, color=CYCLE[0])
    for place, value in zip(places[there], accuracy, strict=True):
        upper.text(place, value + 0.015, f"{value:.3f}", ha="center", fontsize=8)
    for place in places[~there]:
        upper.text(place, 0.03, "no windows", ha="center", va="bottom", rotation=90, color=QUIET)
    lower.bar(places[there], share[there], color=QUIET)
    for place in places[there]:
        lower.text(place, share[place], f"{windows[place]:,}", ha="center", va="bottom", fontsize=8)
    tau = float(str(_settings(mine[0]).get("tau", CgsaConfig.tau)))
    if tau <= INTERVALS[-1]:  # beyond, the last bar has no inner scale
        threshold = float(np.interp(tau, INTERVALS, places)) - 0.5
        upper.text(threshold, 1.12, f" threshold {tau:g}", color=STRONG, va="top")
        for axis in (upper, lower):
            axis.axvline(threshold, color=STRONG, linestyle="--", linewidth=1)
    upper.set_ylim(0, 1.12)
    upper.set_ylabel("pseudo-label accuracy")
    lower.set_ylim(0, 1.2 * float(share.max()) or 1)
    lower.set_ylabel("share of windows")
    lower.set_xticks(places, names, rotation=40, ha="right", rotation_mode="anchor")
    lower.set_xlabel("residual deviation")
    yield Drawing(
        f"intervals-{scenario}",
        f"Pseudo-labels by residual deviation on the {_words(scenario)}",
        f"Above: accuracy of the pseudo-labels of {mine[0].entry} within each interval, pooled over faults and trials. "
        "Below: how many windows it holds; an interval with few says little. Windows met while the queue still filled "
        "have no deviation and are left out.",
        figure,
        Table(
            f"intervals-{scenario}",
            ("residual deviation", "windows", "share", "pseudo-label accuracy"),
            tuple(
                (name, str(count), f"{part:.4f}", f"{good / count:.4f}" if count else "")
                for name, count, part, good in zip(names, windows, share, right, strict=True)
            ),
        ),
    )


@dataclass(frozen=True, eq=False)
class _Spread:
    """Mean and deviation over the trials, a point every :data:`GRAIN` windows around a change; NaN where unknown."""

    mean: DoubleArray
    deviation: DoubleArray


def _transitions(records: Sequence[Record], scenario: str) -> Iterator[Drawing]:
    mine = _guided(records)
    names = list(dict.fromkeys(change.name for record in mine for change in record.details.transitions))
    if not names:
        return
    figure = Figure(figsize=(1.5 + 3.2 * len(names), 5.4), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    queue = float(str(_settings(mine[0]).get("queue", CgsaConfig.queue)))
    begins = np.arange(-BEFORE, AFTER, GRAIN, dtype=np.int64)
    body = []
    for name, (upper, lower) in zip(names, axes.T, strict=True):
        accepted = _around(mine, name, lambda change: change.accepted)
        right = _around(mine, name, lambda change: change.right)
        deviation = _around(mine, name, lambda change: change.deviation)
        _band(upper, begins, right, CYCLE[0], "pseudo-labels right")
        _band(upper, begins, accepted, STRONG, "windows accepted")
        _band(lower, begins, deviation, "#333333", "residual deviation")
        for axis in (upper, lower):
            axis.axvline(0, color=QUIET, linewidth=1, linestyle="--")
            axis.axvline(queue, color=QUIET, linewidth=0.7, linestyle=":")
            axis.grid(axis="y", color=FAINT)
            axis.set_axisbelow(True)
        upper.set_title(_cut(name))
        lower.set_xlabel("windows from the change")
        columns = [column for each in (accepted, right, deviation) for column in (each.mean, each.deviation)]
        body += [
            (name, str(begin), str(begin + GRAIN - 1), *("" if np.isnan(value) else f"{value:.4f}" for value in values))
            for begin, *values in zip(begins, *columns, strict=True)
            if not np.isnan(values[0])
        ]
    axes[0, 0].set_ylabel("share of windows")
    axes[0, 0].set_ylim(-0.03, 1.03)
    axes[1, 0].set_ylabel("mean residual deviation")
    axes[1, 0].set_ylim(bottom=0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    header = (
        "change",
        "from window",
        "to window",
        *(f"{name}{sign}" for name in ("accepted", "labels right", "deviation") for sign in ("", " ±")),
    )
    yield Drawing(
        f"transitions-{scenario}",
        f"Around the changes on the {_words(scenario)}",
        f"What {mine[0].entry} accepts around each change (dashed), {GRAIN} windows a point: mean over faults and "
        f"trials, with the deviation over trials as a band. At the dotted line the queue of {queue:g} responses holds "
        "nothing from before the change any more.",
        figure,
        Table(f"transitions-{scenario}", header, tuple(body)),
    )


def _around(records: Sequence[Record], name: str, told: Callable[[Transition], Sequence[float | None]]) -> _Spread:
    trials = []
    count = (BEFORE + AFTER) // GRAIN
    for trial in dict.fromkeys(record.trial for record in records):
        found = [
            change
            for record in records
            if record.trial == trial
            for change in record.details.transitions
            if change.name == name
        ]
        offsets = np.array([change.begin + place for change in found for place in range(len(told(change)))], dtype=int)
        values = np.array([value for change in found for value in told(change)], dtype=np.float64)
        known = ~np.isnan(values)
        point = (offsets[known] + BEFORE) // GRAIN
        number = np.bincount(point, minlength=count)
        total = np.bincount(point, weights=values[known], minlength=count)
        trials.append(np.divide(total, number, out=np.full(count, np.nan), where=number > 0))
    over_trials = np.ma.masked_invalid(np.array(trials))
    return _Spread(over_trials.mean(axis=0).filled(np.nan), over_trials.std(axis=0).filled(np.nan))


def _band(axis: Axes, begins: IntArray, spread: _Spread, colour: str, label: str) -> None:
    middle = begins + (GRAIN - 1) / 2
    axis.plot(middle, spread.mean, color=colour, linewidth=1.4, label=label)
    low, high = spread.mean - spread.deviation, spread.mean + spread.deviation
    axis.fill_between(middle, low, high, color=colour, alpha=0.18, linewidth=0)


def _grids(records: Sequence[Record], scenario: str) -> Iterator[Drawing]:
    """Draw a map for every family of entries that differ in two numbers of their settings and nothing else."""
    families: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        row = record.whole
        family = (row["method"], row["objective"], row["batch_size"], tuple(sorted(_settings(record))))
        families.setdefault(family, []).append(record)
    names: Counter[str] = Counter()
    for mine in families.values():
        differing = [
            name for name in _settings(mine[0]) if len({json.dumps(_settings(record)[name]) for record in mine}) > 1
        ]
        if len(differing) == 2 and all(_is_number(_settings(record)[name]) for record in mine for name in differing):
            name = f"grid-{scenario}-{differing[0]}-{differing[1]}"
            names[name] += 1
            yield _grid(mine, scenario, name if names[name] == 1 else f"{name}-{names[name]}", *differing)


def _grid(records: Sequence[Record], scenario: str, name: str, down: str, across: str) -> Drawing:
    cells: dict[tuple[float, float], list[float]] = {}
    for record in records:
        settings = cast(dict[str, float], _settings(record))
        cells.setdefault((settings[down], settings[across]), []).append(cast(float, record.whole["accuracy"]))
    rows, columns = (sorted({cell[side] for cell in cells}) for side in (0, 1))
    means = np.array([[np.mean(cells.get((row, column), [np.nan])) for column in columns] for row in rows])

    figure = Figure(figsize=(2.4 + 0.75 * len(columns), 1.6 + 0.5 * len(rows)), layout="constrained")
    axis = figure.subplots()
    colours = axis.pcolormesh(np.ma.masked_invalid(means), cmap="viridis", edgecolors="white", linewidth=1)
    middle = (np.nanmin(means) + np.nanmax(means)) / 2
    for (y, x), value in np.ndenumerate(means):
        if not np.isnan(value):
            colour = "white" if value <= middle else "black"
            axis.text(x + 0.5, y + 0.5, f"{value:.3f}", ha="center", va="center", color=colour)
    axis.set_xticks(np.arange(len(columns)) + 0.5, [f"{value:g}" for value in columns])
    axis.set_yticks(np.arange(len(rows)) + 0.5, [f"{value:g}" for value in rows])
    axis.set_xlabel(_cut(across))
    axis.set_ylabel(_cut(down))
    figure.colorbar(colours, ax=axis, label="average accuracy")
    method = str(records[0].whole["method"])
    return Drawing(
        name,
        f"{method}: {down} and {across} on the {_words(scenario)}",
        f"Average accuracy by two settings of {method}: mean over {_listed(records)} and the trials.",
        figure,
        Table(
            name,
            (f"{down}, {across}", *(f"{value:g}" for value in columns)),
            tuple(
                (f"{row:g}", *("" if np.isnan(value) else f"{value:.4f}" for value in line))
                for row, line in zip(rows, means, strict=True)
            ),
        ),
    )


def _batch_sizes(records: Sequence[Record], scenario: str) -> Iterator[Drawing]:
    families: dict[tuple[str, str, str], dict[int, list[Record]]] = {}
    for record in records:
        family = (str(record.whole["method"]), str(record.whole["objective"]), str(record.whole["settings"]))
        families.setdefault(family, {}).setdefault(cast(int, record.whole["batch_size"]), []).append(record)
    families = {family: by_size for family, by_size in families.items() if len(by_size) > 1}
    if not families:
        return
    sizes = sorted({size for by_size in families.values() for size in by_size})
    figure = Figure(figsize=(6, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.4, 1))
    body = []
    for place, ((method, objective, settings), by_size) in enumerate(families.items()):
        label = f"{method} from {objective}" + ("" if settings == "{}" else f" {settings}")
        colour = (STRONG, *CYCLE)[place % (1 + len(CYCLE))]
        lines = []
        for size in sorted(by_size):
            mine = by_size[size]
            totals = [list(trials.values()) for trials in trial_totals([r.whole for r in mine], scenario).values()]
            values = np.concatenate(totals)
            seconds = np.mean([cast(float, record.whole["seconds"]) for record in mine])
            lines.append((size, float(values.mean()), float(values.std()), float(seconds)))
        x = [sizes.index(line[0]) for line in lines]
        upper.errorbar(
            x, [line[1] for line in lines], [line[2] for line in lines], fmt="o-", capsize=3, color=colour, label=label
        )
        lower.plot(x, [line[3] for line in lines], "o-", color=colour)
        body += [(label, str(size), f"{mean:.4f}", f"{dev:.4f}", f"{sec:.2f}") for size, mean, dev, sec in lines]
    upper.set_ylabel("average accuracy")
    lower.set_ylabel("running time of a stream in s")
    lower.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    lower.set_xlabel("windows a batch")
    lower.set_ylim(bottom=0)
    for axis in (upper, lower):
        axis.grid(axis="y", color=FAINT)
        axis.set_axisbelow(True)
    upper.legend(frameon=False)
    yield Drawing(
        f"batch-size-{scenario}",
        f"Batch size on the {_words(scenario)}",
        f"Above: average accuracy over {_listed(records)}, with the deviation over the trials. Below: running time.",
        figure,
        Table(f"batch-size-{scenario}", ("method", "batch size", "accuracy", "deviation", "seconds"), tuple(body)),
    )


def _by_entry(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.entry, []).append(record)
    return found


def _settings(record: Record) -> dict[str, object]:
    return cast(dict[str, object], json.loads(str(record.whole["settings"])))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _texts(published: tuple[float, float | None] | None) -> tuple[str, str]:
    mean, deviation = published or (None, None)
    return ("" if mean is None else f"{mean:.3f}"), ("" if deviation is None else f"{deviation:.3f}")


def _faults(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record.fault for record in records))


def _listed(records: Sequence[Record]) -> str:
    return _words(", ".join(_faults(records)))


def _cut(name: str) -> str:
    """Return a name that leaves room for the figure."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _words(name: str) -> str:
    return name.replace("_", " ")
