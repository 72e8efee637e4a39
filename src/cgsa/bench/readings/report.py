"""The results of a grid of readings: tidy rows, a table, a figure, and the profile that follows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from cgsa.bench.figures.drawing import Drawing
from cgsa.bench.figures.style import HIGHLIGHT_COLOUR, draw_gridlines, figure_style
from cgsa.bench.readings.choose import ScoredReading, choose_reading, score_reading
from cgsa.bench.readings.grid import METHODS_OF_A_READING, ReadingGrid
from cgsa.bench.readings.statements import STATEMENTS, results_of_seeds
from cgsa.bench.records import Row, RunRecord
from cgsa.bench.tables import Table
from cgsa.config import overlay, toml_value
from cgsa.data.scenario import Scenario
from cgsa.errors import ConfigError
from cgsa.files import replacing

PROFILE_FILE = "paper.toml"


def score_grid(grid: ReadingGrid, records: Sequence[RunRecord], trials: int) -> list[ScoredReading]:
    """Return every reading with the results of the seeds that have finished."""
    faults = len(Scenario.load(grid.scenario).faults)
    found = []
    for reading in grid.readings:
        entries = {method: grid.entry_of(reading, method) for method in METHODS_OF_A_READING}
        found.append(score_reading(grid, reading, results_of_seeds(records, entries, faults, trials)))
    return found


def write_readings(grid: ReadingGrid, records: Sequence[RunRecord], folder: Path, trials: int) -> Table:
    """Write rows, table, figure and the chosen profile, and return the table."""
    scored = score_grid(grid, records, trials)
    chosen = choose_reading(scored, trials)
    _write_csv(folder / "rows.csv", _stream_rows(grid, records))
    _write_csv(folder / "statements.csv", _statement_rows(scored))
    table = readings_table(scored, chosen)
    table.write(folder / "tables")
    with figure_style():
        readings_drawing(scored, chosen).write(folder / "figures")
    with replacing(folder / PROFILE_FILE, ConfigError) as fresh:
        fresh.write_text(_profile_text(grid, chosen, trials), encoding="utf-8")
    return table


def readings_table(scored: Sequence[ScoredReading], chosen: ScoredReading | None) -> Table:
    """Return readings by statements: in how many seeds each holds; then what stands behind it, means over the seeds."""
    header = (
        "reading",
        "parameters",
        *(statement.name for statement in STATEMENTS),
        "sum",
        "CAL",
        "CGSA - CAL",
        "RCG rejects",
        "labels right, first to last fifth",
        "joined: CAL",
        "CGSA",
        "chosen",
    )
    return Table("readings", header, tuple(_table_row(one, is_chosen=one is chosen) for one in scored))


def _table_row(one: ScoredReading, *, is_chosen: bool) -> tuple[str, ...]:
    seeds, counts = list(one.seeds.values()), "as in the paper" if one.fits_counts else "other"
    if not seeds:
        return (one.reading.name, counts, *([""] * (len(STATEMENTS) + 7)), "")
    fifths = np.mean([result.fifths for result in seeds], axis=0)
    return (
        one.reading.name,
        counts,
        *(f"{count} of {len(seeds)}" for count in one.holds),
        str(sum(one.holds)),
        f"{np.mean([result.totals['CAL'] for result in seeds]):.3f}",
        f"{one.gain:+.3f}",
        f"{np.mean([result.rejected for result in seeds]):.3f}",
        f"{fifths[0]:.3f} to {fifths[-1]:.3f}",
        f"{np.mean([result.joined['CAL'] for result in seeds]):.3f}",
        f"{np.mean([result.joined['CGSA'] for result in seeds]):.3f}",
        "yes" if is_chosen else "",
    )


def readings_drawing(scored: Sequence[ScoredReading], chosen: ScoredReading | None) -> Drawing:
    """Draw a map of readings by statements, and the gain of CGSA with every seed."""
    names = [one.reading.name for one in scored]
    shares = np.array([[count / max(1, len(one.seeds)) for count in one.holds] for one in scored])
    # Wider margins than usual: the longest names need more room than the layout measures.
    layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1)
    figure = Figure(figsize=(10, 1.8 + 0.21 * len(scored)), layout=layout)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.4))
    left.imshow(shares, cmap="Greens", vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        text = str(scored[row].holds[column]) if scored[row].seeds else ""
        left.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if share > 0.6 else "black")
    names_of_statements = [one.name for one in STATEMENTS]
    left.set_xticks(
        range(len(STATEMENTS)), names_of_statements, rotation=40, ha="right", rotation_mode="anchor", fontsize=7
    )
    left.set_yticks(range(len(scored)), names, fontsize=7)
    for row, one in enumerate(scored):
        colour = HIGHLIGHT_COLOUR if one is chosen else "black"
        gains = [result.gain for result in one.seeds.values()]
        right.plot(gains, [row] * len(gains), "o", color=colour, markersize=3)
    right.axvline(0, color="black", linewidth=0.8)
    right.set_xlabel("accuracy of CGSA minus that of its frozen model, every seed")
    draw_gridlines(right, "x")
    return Drawing(
        "readings",
        "Readings of what the paper leaves open",
        "Left: the number of seeds in which each of the paper's statements holds. Right: what the online stage gains. "
        "The reading that becomes the profile is red.",
        figure,
        ("reading", *(one.name for one in STATEMENTS), "gain by seed"),
        tuple(
            (
                one.reading.name,
                *map(str, one.holds),
                ", ".join(f"{result.gain:+.4f}" for result in one.seeds.values()),
            )
            for one in scored
        ),
    )


def _statement_rows(scored: Sequence[ScoredReading]) -> Iterator[Row]:
    for one in scored:
        for seed, result in one.seeds.items():
            values = {
                **{f"accuracy {name}": value for name, value in result.totals.items()},
                **{f"joined {name}": value for name, value in result.joined.items()},
                **{f"in-distribution {name}": value for name, value in result.known.items()},
                **{f"labels right, fifth {place}": value for place, value in enumerate(result.fifths, start=1)},
                "rejected by RCG": result.rejected,
            }
            for statement in STATEMENTS:
                yield {
                    "reading": one.reading.name,
                    "seed": seed,
                    "statement": statement.name,
                    "paper": statement.source,
                    "holds": int(statement.holds(result)),
                    **values,
                }


def _stream_rows(grid: ReadingGrid, records: Sequence[RunRecord]) -> Iterator[Row]:
    """Yield the rows of every reading; readings that share a model share its rows."""
    by_entry: dict[str, list[RunRecord]] = {}
    for record in records:
        by_entry.setdefault(record.entry, []).append(record)
    for reading in grid.readings:
        for method in METHODS_OF_A_READING:
            for record in by_entry.get(grid.entry_of(reading, method), []):
                for row in record.rows:
                    yield {"reading": reading.name, "row_of_ablation": method, **row}


def _write_csv(path: Path, rows: Iterator[Row]) -> None:
    found = list(rows)
    with replacing(path, ConfigError) as fresh, fresh.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in found for name in row)))
        writer.writeheader()
        writer.writerows(found)


def _profile_text(grid: ReadingGrid, chosen: ScoredReading | None, trials: int) -> str:
    """Return the profile that follows from the grid as TOML; a comment if there is none yet."""
    if chosen is None:
        return "# No reading has finished all of its seeds with the paper's parameter counts; nothing is chosen yet.\n"
    held = ", ".join(
        f"{statement.name}: {count} of {trials}" for statement, count in zip(STATEMENTS, chosen.holds, strict=True)
    )
    lines = [f"# The reading '{chosen.reading.name}', by the rule of cgsa bench readings.", f"# {held}."]
    return "\n".join([*lines, *_assignments(overlay(grid.budget, chosen.reading.settings))]) + "\n"


def _assignments(table: Mapping[str, object], path: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _assignments(value, f"{path}{name}.")
        else:
            yield f"{path}{name} = {toml_value(value)}"
