"""Does a model of the healthy machine alone notice a fault? Every set, every operating condition left out in turn.

    python benchmarks/healthy_only.py --data RECORDINGS --rigs runs/data

RECORDINGS has one folder per real set, ``runs/data`` one per rig (``cgsa simulate gearbox runs/data/gearbox``). The
script leaves one operating condition at a time out, and trains on the healthy recordings of all others as the profile
``healthy_only`` does. Then it scores the windows of the left-out condition, healthy and faulty ones, with three
references: that of the training alone; *elsewhere*, the beginning of a recording of the machine at another condition,
up to four in turn; and *here*, its beginning at the left-out condition, with the limit for steady conditions. Windows
that overlap a reference are excluded. Windows are counted one by one, without joining them over time.

It writes one row per set, left-out condition, reference and fault, and a table of all sets. The area under the ROC
curve (AUROC) is that between healthy and faulty windows of one left-out condition. *False* and *noticed* are the shares
of healthy and faulty windows above the limit, which training has placed without knowing either.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from cgsa.bench.rotation.points import OperatingPoint, training_selection
from cgsa.bench.rotation.sets import RotationSet, rig_set, steady_state_set
from cgsa.bench.tables import Table
from cgsa.data.library import open_library
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.metrics.detection import area_under_roc
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import train, training_spec

REAL = ("limerick_motor", "spectraquest_gearbox", "current_motor", "bldc_iq", "phone_motor2", "kat_units")
RIGS = ("gearbox", "motor")
MIN_TRAINED_POINTS = 2
REFERENCE_SECONDS = 1.0
MAX_REFERENCES = 4
NONE, ELSEWHERE, HERE = "none", "elsewhere", "here"
"""References: that of the training; one of the machine at another condition; one at the condition itself."""


@dataclass(frozen=True)
class Row:
    """Windows of one fault at one left-out condition."""

    set: str
    left_out: str
    reference: str
    fault: str
    healthy_windows: int
    faulty_windows: int
    auroc: float
    false: float
    noticed: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rigs", type=Path)
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/healthy_only"))
    options = parser.parse_args()
    every = {name: steady_state_set(options.data / name) for name in REAL if (options.data / name).is_dir()}
    if options.rigs:
        found = [name for name in RIGS if (options.rigs / name).is_dir()]
        every |= {name: rig_set(name, options.rigs / name, simulated=False) for name in found}
    options.output.mkdir(parents=True, exist_ok=True)
    for name in every if options.sets is None else options.sets:
        rows = list(rotate(every[name]))
        with (options.output / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, [one.name for one in fields(Row)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)
        print(f"{name}: {len(rows)} rows", flush=True)
    text = table_of(options.output).markdown()
    (options.output / "table.md").write_text(text)
    print(text)


def rotate(rotated: RotationSet) -> Iterator[Row]:
    """Yield the rows of every left-out condition."""
    for point in rotated.points:
        remaining = [one for one in rotated.points if one != point]
        if len(remaining) < MIN_TRAINED_POINTS:
            continue
        bundle = train_without(rotated, remaining)
        yield from judge(rotated, point, bundle)


def segments_at(rotated: RotationSet, points: Sequence[OperatingPoint], *, healthy_only: bool) -> list[Segment]:
    """Return whole recordings at some points."""
    scenario = rotated.scenario.healthy_only() if healthy_only else rotated.scenario
    scenario = replace(scenario, offline=training_selection(points, scenario.conditions, (0.0, 1.0)))
    return scenario.training_segments(open_library(rotated.folder, scenario))


def train_without(rotated: RotationSet, remaining: Sequence[OperatingPoint]) -> ModelBundle:
    """Train on the healthy recordings at the remaining points."""
    scenario, profile = rotated.scenario, Profile.load("healthy_only")
    segments = segments_at(rotated, remaining, healthy_only=True)
    windows = Windows(segments, training_spec(segments, profile), conditions=scenario.condition_names)
    [bundle] = train(scenario, profile, windows)
    return bundle


@torch.no_grad()
def judge(rotated: RotationSet, point: OperatingPoint, bundle: ModelBundle) -> Iterator[Row]:
    """Yield the rows of one left-out condition."""
    model = bundle.require_change()
    found = rows_at(rotated, bundle, point, healthy_only=False)
    # Runs of one point, such as positions of a sensor, and specimens each have a reference of their own.
    healthy_rows = {place_of(one, point): rows for one, rows in found if one.label == 0}
    elsewhere: dict[tuple[int, int], list[Tensor]] = {}
    for other in rotated.points:
        for segment, rows in rows_at(rotated, bundle, other, healthy_only=True) if other != point else ():
            elsewhere.setdefault(place_of(segment, other), []).append(beginning(rows, bundle)[0])
    for label, fault in enumerate(rotated.scenario.faults, start=1):
        faulty_rows = {place_of(one, point): rows for one, rows in found if one.label == label}
        without = [
            torch.cat([model.log_score(rows)[0] for rows in some.values()]) for some in (healthy_rows, faulty_rows)
        ]
        scores = {NONE: [(without[0], without[1])], ELSEWHERE: [], HERE: []}
        for place, rows in healthy_rows.items():
            if place not in faulty_rows:
                continue
            faulty = faulty_rows[place]
            references = elsewhere.get(place, [])
            for reference in references[:: -(-len(references) // MAX_REFERENCES) or 1]:
                scores[ELSEWHERE].append((model.log_score(rows, reference)[0], model.log_score(faulty, reference)[0]))
            reference, rest = beginning(rows, bundle)
            if len(rest):
                healthy, changed = (model.log_score(one, reference, steady=True)[0] for one in (rest, faulty))
                scores[HERE].append((healthy, changed))
        for name, pairs in scores.items():
            if pairs:
                yield Row(
                    rotated.name,
                    rotated.point_name(point),
                    name,
                    fault,
                    sum(len(healthy) for healthy, _ in pairs),
                    sum(len(faulty) for _, faulty in pairs),
                    round(fmean(area_under_roc(healthy.numpy(), faulty.numpy()) for healthy, faulty in pairs), 4),
                    round(fmean(float((healthy > 0).double().mean()) for healthy, _ in pairs), 4),
                    round(fmean(float((faulty > 0).double().mean()) for _, faulty in pairs), 4),
                )


def rows_at(
    rotated: RotationSet, bundle: ModelBundle, point: OperatingPoint, *, healthy_only: bool
) -> list[tuple[Segment, Tensor]]:
    """Return the features of every recording at a point."""
    model, spec = bundle.require_change(), bundle.manifest.window
    return [
        (segment, torch.cat([model.rows(x) for _, x in Windows([segment], spec).batches(64)]))
        for segment in segments_at(rotated, [point], healthy_only=healthy_only)
    ]


def place_of(segment: Segment, point: OperatingPoint) -> tuple[int, int]:
    """Return what recordings of one machine share at all points: the specimen, and the place of the run at a point."""
    run = Path(segment.recording.source.split("?")[0]).stem.split("__")[-1]
    return segment.machine, point.runs.index(run) if run in point.runs else 0


def beginning(rows: Tensor, bundle: ModelBundle) -> tuple[Tensor, Tensor]:
    """Return the reference from the beginning of a recording, and the windows that do not overlap it."""
    used, first_free = within_reference(len(rows), bundle.manifest.window, bundle.manifest.sample_rate)
    return rows[:used].mean(dim=0, keepdim=True), rows[first_free:]


def within_reference(windows: int, spec: WindowSpec, sample_rate: float) -> tuple[int, int]:
    """Return how many of the windows of a recording make its reference, and the first that does not overlap these.

    The reference lasts for a second from the end of the first window on, but not beyond the middle of the recording.
    """
    overlapping = -(-spec.length // spec.step)
    used = min(round(REFERENCE_SECONDS * sample_rate / spec.step) + 1, (windows - overlapping) // 2 + 1)
    return max(1, used), max(1, used) - 1 + overlapping


def table_of(folder: Path) -> Table:
    """Return the means of every set over all left-out conditions, faults counting the same."""
    head = ["set", "conditions"]
    for name in (NONE, ELSEWHERE, HERE):
        head += [f"AUROC, reference {name}", "worst condition", "false", "noticed"]
    rows = []
    for path in (folder / f"{name}.csv" for name in (*REAL, *RIGS)):
        if not path.is_file():
            continue
        with path.open() as file:
            every = list(csv.DictReader(file))
        cells = [path.stem, str(len({one["left_out"] for one in every}))]
        for name in (NONE, ELSEWHERE, HERE):
            by_condition: dict[str, list[float]] = {}
            mine = [one for one in every if one["reference"] == name]
            for one in mine:
                by_condition.setdefault(one["left_out"], []).append(float(one["auroc"]))
            means = [fmean(some) for some in by_condition.values()]
            cells += [f"{fmean(means):.3f}", f"{min(means):.3f}"]
            cells += [f"{fmean(float(one[column]) for one in mine):.3f}" for column in ("false", "noticed")]
        rows.append(tuple(cells))
    return Table("table", tuple(head), tuple(rows))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
