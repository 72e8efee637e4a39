"""Does an exported model say what ``cgsa watch`` says, and what does it need? Size, start-up time and installation.

    python -m benchmarks.edge_export --data RECORDINGS
    python -m benchmarks.edge_export --starts --output runs/edge_starts/edge_export

RECORDINGS has one folder per real set. For each set and profile the script trains a model on the scenario of the set,
unless the folder of models has one, and exports it; the gate of the export compares it with torch on the recordings.
Then a fresh virtual environment, with the requirements of the package and nothing else, runs the package on each
recording, and once more on all of them as one stream: from a machine that is known to be healthy at first over its
faults to a standstill. Its events are compared with those of ``cgsa watch``, batch by batch. The start-up time is that
of a whole process that diagnoses one window, the least of several, by the clock and of the processor. By the clock it
means something on an idle computer alone: ``--starts`` measures it once more, with the packages of an earlier run, and
``python -m benchmarks.publish measurements runs/edge_starts`` replaces these figures and leaves the others.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from venv import EnvBuilder

import numpy as np
import torch
from benchmarks.impostors import REAL
from benchmarks.result_files import Result, read_folder, write_result

from cgsa.bench.tables import Table
from cgsa.data.library import open_library
from cgsa.data.recording import Recording
from cgsa.data.scenario import Scenario
from cgsa.data.steady_state import SteadyStateLibrary
from cgsa.edge.package import RUN, export_package
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.workflow import asks_about_start, diagnose, train_candidates, with_healthy_start

PROFILES = ("recommended", "healthy_only", "robust")
STARTS = 7
"""Start-ups of which the shortest counts: other programs on the computer delay some."""
Stream = Mapping[Path, Recording]
STILL = 0.01
"""Level of a machine at standstill, as a share of its level when it runs."""
JOINED = ("verdict", "state", "alarm", "sensor_question", "commissioning", "flagged", "accepted", "operation")
"""Fields of an event that must be the same."""


@dataclass(frozen=True)
class Row:
    """One exported model."""

    set: str
    profile: str
    method: str
    recordings: int
    batches: int
    verdicts: int
    """Batches with another state."""
    alarms: int
    """Batches with another alarm."""
    others: int
    """Batches with any other difference in a field that is no number."""
    probability: float
    """Largest difference of the mean probability of a class over a batch from ``cgsa watch``."""
    parity: float
    """Largest difference of a probability from torch in double precision, on windows of the recordings."""
    parity_windows: int
    package_bytes: int
    start_seconds: float
    """By the clock."""
    start_cpu_seconds: float
    install_bytes: int
    """Size of the installed requirements."""


def fresh_environment(folder: Path, requirements: Path) -> Path:
    """Return the interpreter of an environment with some requirements alone."""
    python = folder / "bin" / "python"
    if not python.exists():
        EnvBuilder(with_pip=False).create(folder)
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "-r", str(requirements)]
        subprocess.run(install, check=True)  # noqa: S603 - the command is ours
    return python


def installed_bytes(python: Path) -> int:
    """Return the size of everything that is installed in an environment, as ``du`` counts it: in blocks on disk."""
    [packages] = python.parent.parent.glob("lib/python*/site-packages")
    return sum(512 * path.lstat().st_blocks for path in packages.rglob("*"))


def run_package(python: Path, package: Path, *words: Path | str) -> list[dict[str, Any]]:
    """Return the events of the runner for recordings and options."""
    command = [str(python), str(package / RUN), *map(str, words), "--json"]
    # Without the variables of this process, which might add its packages to those of the environment.
    environment = {"PATH": os.environ["PATH"]}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    return [json.loads(line) for line in found.stdout.splitlines()]


def start_times(python: Path, package: Path, window: Path) -> tuple[float, float]:
    """Return how long a process takes to load the model and to diagnose one window: by the clock, and of processors."""
    clock, processors = [], []
    for _ in range(STARTS):
        begun, used = time.perf_counter(), _used_by_processes()
        run_package(python, package, window)
        clock.append(time.perf_counter() - begun)
        processors.append(_used_by_processes() - used)
    return min(clock), min(processors)


def measure_starts(name: str, profile: str, options: argparse.Namespace) -> Result:
    """Measure the start of a package that an earlier run exported, together with its window."""
    package = options.packages / f"{name}-{profile}"
    python = fresh_environment(options.environment, package / "requirements.txt")
    clock, processor = start_times(python, package, package.with_suffix(".npy"))
    return {"set": name, "profile": profile, "start_seconds": clock, "start_cpu_seconds": processor}


def _used_by_processes() -> float:
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def trained(name: str, profile: str, folder: Path, data: Path) -> ModelBundle:
    """Return a model of a set, trained on the scenario with its name unless it was before."""
    if not folder.exists():
        scenario = Scenario.load(name)
        train_candidates(scenario, {profile: Profile.load(profile)}, open_library(data, scenario), folder)
    return ModelBundle.load(folder)


def recordings_of(model: ModelBundle, data: Path, most: int) -> Iterator[tuple[Path, Recording]]:
    """Yield recordings of a set, evenly spaced, and their files."""
    library = SteadyStateLibrary(data, assumed_rate=model.manifest.sample_rate)
    files = library.files[:: max(1, -(-len(library.files) // most))]
    for file in files:
        found = library.get(file.state, file.run, severity="H", specimen=file.specimen)
        if found.samples >= model.manifest.window.length:
            yield file.path, found


def whole_stream(recordings: Mapping[Path, Recording], model: ModelBundle, name: str, still: Path) -> Stream:
    """Return healthy recordings, then those of faults, and the first as at standstill, which is kept in a file."""
    healthy = Scenario.load(name).healthy
    stream = dict(sorted(recordings.items(), key=lambda one: one[1].label != healthy))
    first = next(iter(stream.values())).select(model.manifest.channels)
    stream[still] = replace(first, signal=(STILL * first.signal).astype(np.float32))
    np.save(still, stream[still].signal)
    return stream


def measure(name: str, profile: str, options: argparse.Namespace) -> Row:
    """Train, export and compare one model."""
    data, package = options.data / name, options.packages / f"{name}-{profile}"
    model = trained(name, profile, options.models / f"{name}-{profile}", data)
    config = DiagnosisConfig.from_profile(Profile.load(profile))
    recordings = dict(recordings_of(model, data, options.recordings))
    channels = model.manifest.channels
    report = export_package(model, config, package, (one.select(channels).signal for one in recordings.values()))
    python = fresh_environment(options.environment, package / "requirements.txt")
    counts, largest = np.zeros(4, dtype=np.int64), 0.0
    asks, whole = (
        asks_about_start(config.method),
        whole_stream(recordings, model, name, package.with_suffix(".still.npy")),
    )
    known = (with_healthy_start(config), "--healthy-start") if asks else (config,)
    singles: list[tuple[Stream, DiagnosisConfig]] = [({path: one}, config) for path, one in recordings.items()]
    for stream, settings, *words in (*singles, (whole, *known)):
        events = diagnose(SignalDiagnoser(model, settings), stream.values())
        expected = [json.loads(batch.event.to_json()) for batch in events]
        found = run_package(python, package, *stream, *words)
        if len(expected) != len(found):
            raise SystemExit(f"{package}: {len(expected)} batches by torch, {len(found)} by the package")
        for pair in zip(expected, found, strict=True):
            counts += _differences(*pair)
            largest = max(largest, _largest(*pair))
    window = package.with_suffix(".npy")
    np.save(window, next(iter(recordings.values())).signal[:, : model.manifest.window.length])
    batches, verdicts, alarms, others = counts.tolist()
    clock, processor = start_times(python, package, window)
    return Row(
        set=name,
        profile=profile,
        method=report.method,
        recordings=len(recordings),
        batches=batches,
        verdicts=verdicts,
        alarms=alarms,
        others=others,
        probability=largest,
        parity=report.parity.probability,
        parity_windows=report.parity.windows,
        package_bytes=report.bytes,
        start_seconds=clock,
        start_cpu_seconds=processor,
        install_bytes=installed_bytes(python),
    )


def _differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[int]:
    """Return one batch, and whether state, alarm, or another field that is no number differs."""
    named = [name for name in JOINED if name in found and expected[name] != found[name]]
    others = any(name not in {"state", "alarm"} for name in named)
    return [1, int("state" in named), int("alarm" in named), int(others)]


def _largest(expected: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    pairs = [(expected["probabilities"][name], value) for name, value in found["probabilities"].items()]
    return max((abs(one - other) for one, other in pairs), default=0.0)


def table_of(results: Sequence[Result]) -> Table:
    """Return the table of all models."""
    head = (
        "set",
        "profile",
        "recordings",
        "batches",
        "other states",
        "other alarms",
        "other texts or counts",
        "largest difference from `cgsa watch`",
        "from torch in double precision",
        "package, MB",
        "start, s",
        "of it processor, s",
        "installed, MB",
    )
    body = tuple(
        (
            row["set"],
            row["profile"],
            f"{row['recordings']}",
            f"{row['batches']}",
            f"{row['verdicts']}",
            f"{row['alarms']}",
            f"{row['others']}",
            f"{row['probability']:.0e}",
            f"{row['parity']:.0e}",
            f"{row['package_bytes'] / 1e6:.1f}",
            f"{row['start_seconds']:.2f}",
            f"{row['start_cpu_seconds']:.2f}",
            f"{row['install_bytes'] / 1e6:.0f}",
        )
        for row in results
    )
    return Table("edge_export", head, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the sets")
    parser.add_argument("--starts", action="store_true", help="measure the starts of exported packages alone")
    parser.add_argument("--sets", nargs="*", default=REAL, help="only these")
    parser.add_argument("--profiles", nargs="*", default=PROFILES, help="only these")
    parser.add_argument("--recordings", type=int, default=1000, help="most recordings per set")
    parser.add_argument("--models", type=Path, default=Path("runs/edge_models"))
    parser.add_argument("--packages", type=Path, default=Path("runs/edge_packages"))
    parser.add_argument("--environment", type=Path, default=Path("runs/edge_environment"))
    parser.add_argument("--output", type=Path, default=Path("runs/edge_export"))
    options = parser.parse_args()
    if options.starts:
        packages = [(name, profile) for name in options.sets for profile in options.profiles]
        for name, profile in (one for one in packages if (options.packages / "-".join(one)).is_dir()):
            found = measure_starts(name, profile, options)
            write_result(options.output / f"{name}-{profile}.json", found)
            print(json.dumps(found), flush=True)
        return
    if options.data is None:
        parser.error("expected --data RECORDINGS, or --starts")
    for name in options.sets:
        for profile in options.profiles:
            file = options.output / f"{name}-{profile}.json"
            if not file.exists():
                write_result(file, asdict(measure(name, profile, options)))
    print(table_of(read_folder(options.output)).markdown())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
