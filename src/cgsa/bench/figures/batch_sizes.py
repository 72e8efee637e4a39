"""Accuracy and running time by batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.figure import Figure

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.selection import faults_of
from cgsa.bench.figures.style import COLOUR_CYCLE, HIGHLIGHT_COLOUR, draw_gridlines, readable_list, readable_name
from cgsa.bench.records import RunRecord, number
from cgsa.bench.totals import trial_totals


def draw_batch_sizes(records: Sequence[RunRecord], scenario: str) -> Iterator[Drawing]:
    """Draw one line per family of entries that differ only in the batch size; nothing if there is no such family."""
    families: dict[tuple[str, str, str], dict[int, list[RunRecord]]] = {}
    for record in records:
        row = record.whole_stream
        family = (str(row["method"]), str(row["objective"]), str(row["settings"]))
        families.setdefault(family, {}).setdefault(int(number(row, "batch_size")), []).append(record)
    families = {family: by_size for family, by_size in families.items() if len(by_size) > 1}
    if not families:
        return
    sizes = sorted({size for by_size in families.values() for size in by_size})
    figure = Figure(figsize=(6, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.4, 1))
    body = []
    for place, ((method, objective, settings), by_size) in enumerate(families.items()):
        label = f"{method} from {objective}" + ("" if settings == "{}" else f" {settings}")
        colour = (HIGHLIGHT_COLOUR, *COLOUR_CYCLE)[place % (1 + len(COLOUR_CYCLE))]
        lines = []
        for size in sorted(by_size):
            rows = [record.whole_stream for record in by_size[size]]
            values = np.concatenate([list(trials.values()) for trials in trial_totals(rows, scenario).values()])
            seconds = np.mean([number(row, "seconds") for row in rows])
            lines.append((size, float(values.mean()), float(values.std()), float(seconds)))
        x = [sizes.index(line[0]) for line in lines]
        _, means, deviations, times = zip(*lines, strict=True)
        upper.errorbar(x, means, deviations, fmt="o-", capsize=3, color=colour, label=label)
        lower.plot(x, times, "o-", color=colour)
        body += [(label, str(size), f"{mean:.4f}", f"{dev:.4f}", f"{sec:.2f}") for size, mean, dev, sec in lines]
    upper.set_ylabel("average accuracy")
    lower.set_ylabel("running time in s")
    lower.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    lower.set_xlabel("windows per batch")
    lower.set_ylim(bottom=0)
    for axis in (upper, lower):
        draw_gridlines(axis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    yield Drawing(
        f"batch-size-{scenario}",
        f"Batch size on the {readable_name(scenario)}",
        f"Above: average accuracy over {readable_list(faults_of(records))}, with the deviation over the trials. "
        "Below: running time per stream.",
        figure,
        ("method", "batch size", "accuracy", "deviation", "seconds"),
        tuple(body),
    )
