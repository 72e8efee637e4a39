"""Do the real sets come back from every format, and train? Imports of whole sets.

    python -m benchmarks.import_formats --data RECORDINGS --out runs/import_formats --workers 2
    python -m benchmarks.publish measurements runs

Every recording of a set is written in one format, with a table of classes, conditions and units beside the files. The
folder is imported as ``cgsa import FOLDER MACHINE --table TABLE`` does, and each recording of the new data set is
compared with the original. *Exact* means the same float32 samples, channels, units, rate, class and conditions. FLAC
keeps 24 bits of full scale, and text of UFF58 in single precision seven digits, so that these two are close instead;
rates of WAV and FLAC are whole numbers. With ``--train``, a model of the data set is trained with the recommended
profile, as ``cgsa train`` does; training depends on nothing but the recordings, so that equal ones give the same model.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.result_files import Result, measure_all, read_folder
from tests.data.readers.test_real_sets import UNITS
from tests.data.readers.writers import FORMATS, Written

from cgsa.bench.tables import Table
from cgsa.data.dataset import DataSet
from cgsa.data.importing.choose import ImportChoices, choose_plan
from cgsa.data.importing.plan import ImportPlan
from cgsa.data.importing.steady import plan_steady_state
from cgsa.data.importing.write import write_data_set
from cgsa.data.read_options import ReadOptions
from cgsa.data.recording import Recording
from cgsa.profile import Profile
from cgsa.workflow import train, training_windows

SETS = ("bldc_iq", "current_motor", "kat_units", "limerick_motor", "phone_motor2", "spectraquest_gearbox")
ASSUMED_RATE = 12_900.0
"""Of the set that states none."""
WHOLE_RATES = ("wav", "flac")


@dataclass(frozen=True)
class Import:
    """One set in one format."""

    data: Path
    set: str
    format: str
    train: bool


def import_set(one: Import) -> Result:
    """Write a set in a format, import it, compare it, and train a model if asked to."""
    written = FORMATS[one.format]
    plan = plan_steady_state(one.data / one.set, sample_rate=_assumed_rate(one))
    with tempfile.TemporaryDirectory() as place:
        folder, machine = Path(place) / "files", Path(place) / one.set
        folder.mkdir()
        originals = list(write_files(plan, written, folder, UNITS[one.set], whole_rate=one.format in WHOLE_RATES))
        table = write_table(plan, written, folder)
        first = originals[0]
        options = ReadOptions(
            None if written.states_rate else first.sample_rate,
            None if written.states_names else first.channels,
            None if written.states_units else first.units,
        )
        imported = write_data_set(choose_plan(folder, options, ImportChoices(table=table)), machine).data_set
        differences = [
            _difference(plan, imported, place, original, full_scale=written.full_scale)
            for place, original in enumerate(originals)
        ]
        result = {
            "set": one.set,
            "format": one.format,
            "recordings": len(originals),
            "exact": sum(difference == 0 for difference in differences),
            "largest_difference": max(differences),
            "allowed": written.tolerance * 1.01,
        }
        return {**result, **(_train(imported) if one.train else {})}


def write_files(
    plan: ImportPlan, written: Written, folder: Path, unit: str, *, whole_rate: bool
) -> Iterable[Recording]:
    """Write every recording of a plan in a unit, since not every set states one, and yield what was written."""
    for number, found in enumerate(plan.recordings):
        recording = plan.read(found)
        units = (unit,) * len(recording.channels)
        rate = round(recording.sample_rate) if whole_rate else recording.sample_rate
        recording = replace(recording, units=units, sample_rate=float(rate))
        written.write(recording, folder / f"{number:04d}{written.suffix}")
        yield recording


def write_table(plan: ImportPlan, written: Written, folder: Path) -> Path:
    """Write the table of the files beside the folder, and return its path."""
    conditions = sorted({name for found in plan.recordings for name in found.conditions})
    path = folder.with_name("table.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "class", "unit", "run", *conditions])
        for number, found in enumerate(plan.recordings):
            levels = [found.conditions[name] for name in conditions]
            writer.writerow([f"{number:04d}{written.suffix}", found.label, found.unit or "", found.run or "", *levels])
    return path


def _difference(plan: ImportPlan, imported: DataSet, place: int, original: Recording, *, full_scale: bool) -> float:
    """Return the largest difference of a recording, as a share of its largest value; infinite if it is another one."""
    entry, found = imported.about.recordings[place], plan.recordings[place]
    read = imported.read(entry)
    # Names of channels are kept; a mean is stated by data sets alone.
    same = (
        (read.channels, read.units, read.sample_rate) == (original.channels, original.units, original.sample_rate)
        and (entry.label, entry.unit) == (found.label, found.unit)
        and dict(entry.levels) == dict(found.conditions)
        and read.signal.shape == original.signal.shape
    )
    if not same:
        return float("inf")
    largest = float(np.abs(original.signal).max())
    signal = read.signal * largest if full_scale else read.signal
    return float(np.abs(signal - original.signal).max()) / largest


def _train(imported: DataSet) -> Result:
    scenario, profile, begin = imported.scenario(), Profile.load("recommended"), time.perf_counter()
    [bundle] = train(scenario, profile, training_windows(scenario, profile, imported))
    weights = hashlib.sha256()
    for name, tensor in sorted(bundle.require_ensemble().state_dict().items()):
        weights.update(name.encode() + tensor.numpy().tobytes())
    return {"model": weights.hexdigest()[:12], "seconds": time.perf_counter() - begin}


def _assumed_rate(one: Import) -> float | None:
    return ASSUMED_RATE if one.set == "spectraquest_gearbox" else None


def table_of(results: Sequence[Result]) -> Table:
    """Return one row per format: what came back of all sets, and whether models were trained."""
    rows = []
    for name in FORMATS:
        mine = [one for one in results if one["format"] == name]
        if not mine:
            continue
        trained = [one for one in mine if "model" in one]
        rows.append(
            (
                name,
                str(len(mine)),
                f"{sum(one['exact'] for one in mine)} of {sum(one['recordings'] for one in mine)}",
                f"{max(one['largest_difference'] for one in mine):.1g}",
                ", ".join(f"{one['set']} `{one['model'][:6]}`" for one in sorted(trained, key=lambda one: one["set"])),
            )
        )
    return Table(
        "import-formats", ("format", "sets", "exact recordings", "largest difference", "trained models"), tuple(rows)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/import_formats"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--train", nargs="*", choices=SETS, default=list(SETS), help="sets of which models are trained")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    items = {
        options.out / f"{name}-{''.join(letter if letter.isalnum() else '_' for letter in kind)}.json": Import(
            options.data, name, kind, name in options.train
        )
        for name in options.sets
        for kind in options.formats
    }
    measure_all(import_set, items, options.workers)
    print(table_of(read_folder(options.out)).markdown())


if __name__ == "__main__":
    main()
