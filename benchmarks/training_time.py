"""How long does ``cgsa train`` take, and is the model the same with any threads? Profile ``recommended``.

    python -m benchmarks.training_time --data RECORDINGS
    python -m benchmarks.training_time --data RECORDINGS --before ../older/src
    python -m benchmarks.publish measurements runs

RECORDINGS has one folder per real set. Each is imported, and two made-up machines are written beside them: one of 60
recordings, and a large one of 168 at 24 operating conditions (``made_up_machine.py``). Then ``cgsa train MACHINE
MODEL`` runs in a process of its own on two cores, with the usual settings and with one thread (``OMP_NUM_THREADS=1``);
both models must be the same. The script measures the wall time of the command and the processor time of all its
threads, start and reading included, its memory, and how busy other processes keep the computer. Where nothing else
runs, the wall time is between the processor time and half of it. With ``--before``, the same is measured with the
package in another source tree, directly before each measurement.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.made_up_machine import MadeUpMachine
from benchmarks.result_files import Result, read_folder, write_result

from cgsa.bench.tables import Table
from cgsa.data.dataset import DataSet
from cgsa.data.importing.steady import plan_steady_state
from cgsa.data.importing.write import write_data_set
from cgsa.errors import CgsaError

REAL = ("bldc_iq", "kat_units", "phone_motor2", "current_motor", "spectraquest_gearbox", "limerick_motor")
ASSUMED_RATE = 12_900.0
"""Of the set that states none."""
MADE_UP = (
    MadeUpMachine("made_up_60", classes=5, speeds=4, loads=3),
    MadeUpMachine("made_up_168", classes=7, speeds=6, loads=4),
)
NOW, BEFORE = "now", "before"
VARIANTS: Mapping[str, Mapping[str, str]] = {"usual": {}, "one": {"OMP_NUM_THREADS": "1"}}
"""Environment by the name of the threads."""
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOMP_SPINCOUNT")


def writers(data: Path | None) -> dict[str, Callable[[Path], object]]:
    """Return what writes the data set of each machine into a folder."""
    found: dict[str, Callable[[Path], object]] = {}
    if data is not None:
        for name in REAL:
            if (data / name).is_dir():
                found[name] = partial(write_data_set, plan_steady_state(data / name, sample_rate=ASSUMED_RATE))
    return found | {machine.name: machine.write for machine in MADE_UP}


def train_once(machine: Path, model: Path, source: Path, variables: Mapping[str, str]) -> Result:
    """Run the command once with the package in ``source``, and return what it took."""
    shutil.rmtree(model, ignore_errors=True)
    inherited = {name: text for name, text in os.environ.items() if name not in LIMITS}
    paths = os.pathsep.join([str(source.resolve()), inherited.get("PYTHONPATH", "")])
    environment = {**inherited, **variables, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "cgsa", "train", str(machine), str(model), "--device", "cpu", "--json"]
    load = os.getloadavg()[0]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=errors)  # noqa: S603
        # Unlike the methods of the process, this tells what it took.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise CgsaError(f"{' '.join(command)}: {errors.read().decode()}")
        output.seek(0)
        told = json.loads(output.read())
    return {
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "memory_bytes": usage.ru_maxrss * 1024,
        "load": load,
        "held_out_accuracy": told.get("held_out_accuracy"),
        "model": digest(model),
    }


def digest(model: Path) -> str:
    """Return a fingerprint of all files of a model."""
    found = hashlib.sha256()
    for file in sorted(model.iterdir()):
        found.update(file.read_bytes())
    return found.hexdigest()


def about(machine: Path) -> Result:
    """Return the size of a data set."""
    found = DataSet.load(machine)
    return {
        "recordings": len(found.about.recordings),
        "conditions": len({one.point for one in found.selected}),
        "classes": len(found.about.classes),
        "channels": len(found.about.channels),
    }


def table_of(results: Sequence[Result]) -> Table:
    """Return the table of all machines."""
    every = {(row["set"], row["threads"], row["version"]): row for row in results}
    body = []
    for row in results:
        if row["version"] == NOW:
            before = every.get((row["set"], row["threads"], BEFORE))
            alone = every.get((row["set"], "one", NOW))
            same = "" if alone is None else "yes" if row["model"] == alone["model"] else "no"
            size = f"{row['recordings']}, {row['conditions']}, {row['classes']}"
            body.append((row["set"], size, row["threads"], *_figures(before), *_figures(row), same))
    measured = ("s", "CPU s", "load", "GB", "accuracy")
    head = (
        "set",
        "recordings, conditions, classes",
        "threads",
        *(f"before: {name}" for name in measured),
        *measured,
        "same model as with one thread",
    )
    return Table("training_time", head, tuple(body))


def _figures(row: Result | None) -> tuple[str, ...]:
    if row is None:
        return ("", "", "", "", "")
    accuracy = row["held_out_accuracy"]
    return (
        f"{row['seconds']:.0f}",
        f"{row['processor_seconds']:.0f}",
        f"{row['load']:.0f}",
        f"{row['memory_bytes'] / 1e9:.1f}",
        "" if accuracy is None else f"{accuracy:.4f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--before", type=Path, help="source tree of another version")
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--threads", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--machines", type=Path, default=Path("runs/training_time_machines"))
    parser.add_argument("--output", type=Path, default=Path("runs/training_time"))
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    sources = {BEFORE: options.before, NOW: Path(__file__).parents[1] / "src"}
    # One after the other: a measurement of time needs the computer for itself.
    for number, (name, write) in enumerate(writers(options.data).items()):
        machine = options.machines / name
        if options.sets and name not in options.sets:
            continue
        if not machine.exists():
            write(machine)
        for threads in options.threads:
            for version, source in sources.items():
                file = options.output / f"{number}_{name}_{threads}_{version}.json"
                if source is not None and not file.exists():
                    model = options.machines / f"{name}_model"
                    result = train_once(machine, model, source, VARIANTS[threads])
                    row = {"set": name, "version": version, "threads": threads, **about(machine), **result}
                    write_result(file, row)
                    print(row, flush=True)
    print(table_of(read_folder(options.output)).markdown())


if __name__ == "__main__":
    main()
