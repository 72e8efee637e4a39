"""Average accuracy by two settings of a method."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.selection import faults_of, settings_of
from cgsa.bench.figures.style import readable_list, readable_name, shorten_name
from cgsa.bench.records import RunRecord, grouped, number


def draw_grids(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw one map per family of entries that differ only in two numeric settings."""
    names: Counter[str] = Counter()
    for mine in grouped(records, _family).values():
        differing = [
            name for name in settings_of(mine[0]) if len({json.dumps(settings_of(record)[name]) for record in mine}) > 1
        ]
        if len(differing) == 2 and all(_is_number(settings_of(record)[name]) for record in mine for name in differing):
            name = f"grid-{scenario}-{differing[0]}-{differing[1]}"
            names[name] += 1
            yield _grid(mine, scenario, name if names[name] == 1 else f"{name}-{names[name]}", *differing)


def _family(record: RunRecord) -> tuple[object, ...]:
    row = record.whole_stream
    return row["method"], row["objective"], row["batch_size"], *sorted(settings_of(record))


def _grid(records: Sequence[RunRecord], scenario: str, name: str, down: str, across: str) -> Drawing:
    cells: dict[tuple[float, float], list[float]] = {}
    for record in records:
        own = settings_of(record)
        cells.setdefault((number(own, down), number(own, across)), []).append(number(record.whole_stream, "accuracy"))
    rows, columns = (sorted({cell[side] for cell in cells}) for side in (0, 1))
    means = np.array([[np.mean(cells.get((row, column), [np.nan])) for column in columns] for row in rows])

    figure = Figure(figsize=(2.4 + 0.75 * len(columns), 1.6 + 0.5 * len(rows)), layout="constrained")
    axis = figure.subplots()
    colours = axis.pcolormesh(np.ma.masked_invalid(means), cmap="viridis", edgecolors="white", linewidth=1)
    middle = (np.nanmin(means) + np.nanmax(means)) / 2
    for (y, x), value in np.ndenumerate(means):
        if not np.isnan(value):
            colour = "white" if value <= middle else "black"
            axis.text(x + 0.5, y + 0.5, f"{value:.4f}", ha="center", va="center", color=colour)
    axis.set_xticks(np.arange(len(columns)) + 0.5, [f"{value:g}" for value in columns])
    axis.set_yticks(np.arange(len(rows)) + 0.5, [f"{value:g}" for value in rows])
    axis.set_xlabel(shorten_name(across))
    axis.set_ylabel(shorten_name(down))
    figure.colorbar(colours, ax=axis, label="average accuracy")
    method = str(records[0].whole_stream["method"])
    return Drawing(
        name,
        f"{method}: {down} and {across} on the {readable_name(scenario)}",
        f"Average accuracy by two settings of {method}: mean over {readable_list(faults_of(records))} and the trials.",
        figure,
        (f"{down}, {across}", *(f"{value:g}" for value in columns)),
        tuple(
            (f"{row:g}", *("" if np.isnan(value) else f"{value:.4f}" for value in line))
            for row, line in zip(rows, means, strict=True)
        ),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
