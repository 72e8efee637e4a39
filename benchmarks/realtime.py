"""How many machines can a computer diagnose in real time? Profile ``recommended``.

    python -m benchmarks.realtime --data RECORDINGS --rigs runs/data --workers 2

RECORDINGS has one folder per real set, ``runs/data`` one per rig (``cgsa simulate gearbox runs/data/gearbox``). For
each set the script trains a model on all recordings, unless the folder of models has one. Then one process per worker
receives the signal of the healthy machine in blocks, as a sender posts them, and diagnoses it with everything that a
service does per block: windows, quality gate, levels, features, classifiers, checks, commissioning and decision. Every
process has one thread. The script prints the seconds of signal that are diagnosed per second of processor time, by one
process alone and by all of them at the same time, and how many machines two cores diagnose in real time. Processor time
is that of the process, so other load on the computer matters little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from benchmarks.impostors import REAL, RIGS, segments_at
from benchmarks.result_files import Result, read_folder, write_result

from cgsa.bench.rotation.sets import RotationSet, rig_set, steady_state_set
from cgsa.bench.tables import Table
from cgsa.data.recording import FloatArray
from cgsa.data.windows import Windows
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.ensemble import Ensemble
from cgsa.profile import Profile
from cgsa.workflow import train, training_spec, with_healthy_start

PROFILE = "recommended"
WARM_UP = 3.0
"""Seconds of signal before the measurement: the start of the machine is observed, and buffers are filled."""
CORES = 2


@dataclass(frozen=True)
class Row:
    """One set."""

    set: str
    sample_rate: float
    channels: int
    classes: int
    recordings: int
    block_seconds: float
    alone: float
    """Seconds of signal per second of processor time, one process."""
    together: float
    """The same per process, with several processes at the same time."""
    workers: int
    model_bytes: int
    parameters: int
    """Numbers of the features, classifiers and checks."""


def rotation_sets(data: Path | None, rigs: Path | None) -> dict[str, RotationSet]:
    """Return the sets that are there."""
    found = {} if data is None else {name: steady_state_set(data / name) for name in REAL if (data / name).is_dir()}
    if rigs is not None:
        found |= {name: rig_set(name, rigs / name, simulated=False) for name in RIGS if (rigs / name).is_dir()}
    return found


def train_model(rotated: RotationSet, folder: Path) -> None:
    """Train a model on a whole set, unless there is one."""
    if folder.exists():
        return
    profile, segments = Profile.load(PROFILE), segments_at(rotated, rotated.points)
    windows = Windows(segments, training_spec(segments, profile), conditions=rotated.scenario.condition_names)
    [bundle] = train(rotated.scenario, profile, windows)
    bundle.save(folder)


def healthy_signal(rotated: RotationSet, seconds: float) -> FloatArray:
    """Return the signal of the healthy machine, repeated as often as necessary."""
    healthy = [one.recording.signal for one in segments_at(rotated, rotated.points) if one.label == 0]
    every, wanted = np.concatenate(healthy, axis=1), round(seconds * rotated.scenario.sample_rate)
    return np.asarray(np.resize(every.T, (wanted, len(every))).T, dtype=np.float32)


def diagnosed_per_second(model: Path, samples: FloatArray, block_seconds: float) -> float:
    """Return the seconds of signal that one process diagnoses per second of processor time."""
    torch.set_num_threads(1)
    bundle, config = ModelBundle.load(model), DiagnosisConfig.from_profile(Profile.load(PROFILE))
    signal, rate = SignalDiagnoser(bundle, with_healthy_start(config)), bundle.manifest.sample_rate
    first, block = round(WARM_UP * rate), max(1, round(block_seconds * rate))
    signal.add(samples[:, :first])
    begun = time.process_time()
    for begin in range(first, samples.shape[1], block):
        signal.add(samples[:, begin : begin + block])
    seconds = float(samples.shape[1] - first) / rate
    return seconds / (time.process_time() - begun)


def measure(rotated: RotationSet, model: Path, options: argparse.Namespace) -> Row:
    """Train and diagnose one set."""
    train_model(rotated, model)
    samples = healthy_signal(rotated, WARM_UP + options.seconds)
    arguments = (model, samples, options.block)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        alone = pool.submit(diagnosed_per_second, *arguments).result()
        jobs = [pool.submit(diagnosed_per_second, *arguments) for _ in range(options.workers)]
        together = float(np.mean([job.result() for job in jobs]))
    bundle, scenario = ModelBundle.load(model), rotated.scenario
    return Row(
        rotated.name,
        scenario.sample_rate,
        len(scenario.channels),
        len(scenario.classes),
        len(segments_at(rotated, rotated.points)),
        options.block,
        alone,
        together,
        options.workers,
        sum(file.stat().st_size for file in model.iterdir()),
        count_numbers(bundle),
    )


def count_numbers(bundle: ModelBundle) -> int:
    """Return how many numbers the ensemble and its checks have."""
    ensemble: Ensemble = bundle.require_ensemble()
    modules = [ensemble, *([] if bundle.known is None else [bundle.known])]
    return sum(tensor.numel() for module in modules for tensor in module.state_dict().values())


def table_of(results: Sequence[Result]) -> Table:
    """Return the table of all sets."""
    body = tuple(
        (
            row["set"],
            f"{row['sample_rate']:g} Hz x {row['channels']}",
            f"{row['classes']}",
            f"{row['recordings']}",
            f"{row['alone']:.1f}",
            f"{row['together']:.1f}",
            f"{CORES * row['together']:.0f}",
            f"{row['model_bytes'] / 1e6:.1f}",
            f"{row['parameters'] / 1e6:.2f}",
        )
        for row in results
    )
    head = (
        "set",
        "sensor",
        "classes",
        "recordings",
        "signal s per CPU s, alone",
        "all workers",
        "machines on two cores",
        "model, MB",
        "numbers, millions",
    )
    return Table("realtime", head, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rigs", type=Path)
    parser.add_argument("--models", type=Path, default=Path("runs/realtime_models"))
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=60.0, help="of signal")
    parser.add_argument("--block", type=float, default=0.5, help="seconds of a block")
    parser.add_argument("--workers", type=int, default=CORES)
    parser.add_argument("--output", type=Path, default=Path("runs/realtime"))
    options = parser.parse_args()
    options.models.mkdir(parents=True, exist_ok=True)
    # One set after the other: a measurement of time needs the computer for itself.
    for name, rotated in rotation_sets(options.data, options.rigs).items():
        file = options.output / f"{name}.json"
        if (not options.sets or name in options.sets) and not file.exists():
            write_result(file, asdict(measure(rotated, options.models / name, options)))
    print(table_of(read_folder(options.output)).markdown())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
