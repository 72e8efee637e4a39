"""Does a model of the healthy machine alone raise false alarms, and does it notice faults? A day of every machine.

    python -m benchmarks.healthy_only_day run runs/day --data RECORDINGS --hours 24 --workers 16
    python -m benchmarks.healthy_only_day table runs/day

A run is five minutes of one healthy machine, commissioned at its start, and then a minute with a fault. The whole path
works on it: method ``change``, decision over time, alarm. There are three kinds of runs:

- *changing*: The condition changes every 15 to 60 s, and half of the time it is one absent from training.
- *steady*: The machine stays at one condition absent from training, and `method.change.steady` is set.
- *beyond* (rigs only): As *changing*, at up to a quarter above the highest trained torque.

A real set lends its recordings: one operating point is left out of the training, another one in every run. Its healthy
recording, and half of the time those of the other points, are played again and again, each time from another place,
with a gain within 2 % and white noise of a third of its noise floor. No window spans a splice. So the conditions are
real, but a day has no more of them than were recorded, and it lacks drift. At the trained points these are the
recordings of the training. The fault is a recording at the left-out point.

A rig is simulated without a break. It is trained on three assemblies at four torques, and runs on these and on three
others, at any torque in between. The fault develops in the same assembly.

Every finished run is a file: an interrupted script resumes, and ``--minutes`` ends it early.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from math import log, sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np
import torch
from benchmarks.healthy_only import REAL, place_of, segments_at, train_without
from torch import Tensor

from cgsa.bench.rotation.sets import RotationSet, steady_state_set
from cgsa.bench.tables import Table
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Segment, Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.errors import DataError
from cgsa.files import replacing
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.rigs import RIGS
from cgsa.workflow import create_method, train, training_spec

CHANGING, STEADY, BEYOND = "changing", "steady", "beyond"
HEALTHY_SECONDS, FAULT_SECONDS = 300.0, 60.0
HELD_SECONDS = (15.0, 60.0)
"""Shortest and longest time at one condition."""
RAMP_SECONDS = 5.0
"""Time that the torque of a rig takes from one level to the next."""
LEFT_OUT_SHARE = 0.5
GAIN, NOISE = 0.02, 1 / 3
BATCH = 16
SPEEDS = {"gearbox": 1000.0, "motor": 2000.0}
TORQUES = {"gearbox": (5.0, 10.0, 15.0, 20.0), "motor": (10.0, 20.0, 30.0, 40.0)}
TRAINED_ASSEMBLIES, ASSEMBLIES = 3, 6
TRAINING_SECONDS = 10.0
BEYOND_FACTOR = 1.25
Rng = np.random.Generator
Batches = Iterator[Tensor]


@dataclass(frozen=True)
class Run:
    """One machine for five minutes and one fault."""

    set: str
    conditions: str
    number: int

    def file(self, folder: Path) -> Path:
        """Return the path of the result."""
        return folder / f"{self.set}-{self.conditions}-{self.number:04d}.json"

    def rng(self) -> Rng:
        """Return the random numbers of this run."""
        return np.random.default_rng([self.number, *self.set.encode(), *self.conditions.encode()])


@dataclass(frozen=True)
class Result:
    """What happened in a run."""

    set: str
    conditions: str
    number: int
    left_out: str
    fault: str
    healthy_seconds: float
    false_alarms: int
    alarm_seconds: float
    """How long a false alarm was active."""
    delay: float | None
    """Seconds from the fault to its alarm; None if there was none. Runs that end in a false alarm have no fault."""
    faults: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--data", type=Path, help="folder of the real sets; without it, only the rigs run")
    running.add_argument("--sets", nargs="*", help="only these sets and rigs")
    running.add_argument("--conditions", nargs="*", default=[CHANGING, STEADY, BEYOND])
    running.add_argument("--hours", type=float, default=24.0, help="of every set and kind of run")
    running.add_argument("--minutes", type=float, default=float("inf"), help="no run starts after this time")
    running.add_argument("--workers", type=int, default=2)
    commands.add_parser("table").add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        run_all(options)
    print(table_of(options.folder).markdown())


def run_all(options: argparse.Namespace) -> None:
    """Train the models, and do all runs that have no result yet."""
    folder, data, begin = options.folder, options.data, time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    real = [name for name in REAL if data is not None and (data / name).is_dir()]
    names = [name for name in (*real, *SPEEDS) if options.sets is None or name in options.sets]
    count = max(1, round(options.hours * 3600 / HEALTHY_SECONDS))
    runs = [
        Run(name, conditions, number)
        for number in range(count)
        for name in names
        for conditions in options.conditions
        if conditions != BEYOND or name in SPEEDS
    ]
    unfinished = [run for run in runs if not run.file(folder).exists()]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        models = {(run.set, model_number(run, data)) for run in unfinished}
        training = [pool.submit(train_model, name, number, data, folder) for name, number in sorted(models)]
        for done, finished in enumerate(as_completed(training), start=1):
            finished.result()
            print(f"\r{done} of {len(training)} models", end="", flush=True)
        print()
        jobs = [pool.submit(do_run, run, data, folder, begin + 60 * options.minutes) for run in unfinished]
        for done, finished in enumerate(as_completed(jobs), start=len(runs) - len(unfinished) + 1):
            finished.result()
            print(f"\r{done} of {len(runs)} runs", end="", flush=True)
    print()


def model_number(run: Run, data: Path | None) -> int:
    """Return which of the models of a set a run uses: one per left-out point, or the only one of a rig."""
    return 0 if run.set in SPEEDS or data is None else run.number % len(steady_state_set(data / run.set).points)


def model_path(name: str, number: int, folder: Path) -> Path:
    """Return where a model is saved."""
    return folder / "models" / f"{name}-{number}"


def train_model(name: str, number: int, data: Path | None, folder: Path) -> None:
    """Train a model if there is none."""
    torch.set_num_threads(1)
    path = model_path(name, number, folder)
    if path.is_dir():
        return
    if name in SPEEDS or data is None:
        bundle = train_rig(name)
    else:
        rotated = steady_state_set(data / name)
        bundle = train_without(rotated, [one for one in rotated.points if one != rotated.points[number]])
    bundle.save(path)


def train_rig(name: str) -> ModelBundle:
    """Train on healthy assemblies at all torques."""
    scenario, profile = Scenario.load(name), Profile.load("healthy_only")
    segments = [
        Segment(
            RIGS[name]()
            .drive(
                scenario.healthy,
                torque=torque,
                speed=SPEEDS[name],
                seconds=TRAINING_SECONDS,
                specimen=specimen,
                seed=100 * specimen + place,
            )
            .select(scenario.channels),
            0,
            specimen,
        )
        for specimen in range(1, TRAINED_ASSEMBLIES + 1)
        for place, torque in enumerate(TORQUES[name])
    ]
    windows = Windows(segments, training_spec(segments, profile), conditions=scenario.condition_names)
    [bundle] = train(scenario, profile, windows)
    return bundle


def do_run(run: Run, data: Path | None, folder: Path, until: float) -> None:
    """Play or simulate one run, diagnose it, and write the result; nothing happens after ``until``."""
    if time.monotonic() > until:
        return
    torch.set_num_threads(1)
    bundle = ModelBundle.load(model_path(run.set, model_number(run, data), folder))
    if run.set in SPEEDS or data is None:
        left_out, fault, healthy, faulty = simulated(run, bundle)
    else:
        left_out, fault, healthy, faulty = played(run, bundle, steady_state_set(data / run.set))
    watched = Watched(bundle, steady=run.conditions == STEADY)
    alarms = [watched.step(x) for x in healthy]
    before = np.concatenate([[False], *alarms])
    raised, active = int((before[1:] & ~before[:-1]).sum()), float(before.sum() * watched.step_seconds)
    delay, faults = None, 0
    if not before[-1]:
        after = np.concatenate([watched.step(x) for x in faulty])
        delay, faults = (float(after.argmax() * watched.step_seconds) if after.any() else None), 1
    seconds = (len(before) - 1) * watched.step_seconds
    result = Result(run.set, run.conditions, run.number, left_out, fault, seconds, raised, active, delay, faults)
    with replacing(run.file(folder), DataError) as fresh:
        fresh.write_text(json.dumps(asdict(result)), encoding="utf-8")


class Watched:
    """A machine under watch: method, decision and clock."""

    def __init__(self, bundle: ModelBundle, *, steady: bool) -> None:
        profile, manifest = Profile.load("healthy_only"), bundle.manifest
        settings = {"steady": steady}
        method = create_method(bundle, profile.default_method, profile, settings=settings, healthy_start=True)
        self._diagnoser = Diagnoser(method, DecisionMaker(profile.decide, manifest))
        self.step_seconds = manifest.window.step / manifest.sample_rate
        self._now = 0.0

    def step(self, x: Tensor) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each window whether the alarm is active."""
        end = self._now + len(x) * self.step_seconds
        self._diagnoser.method.interval, self._now = (self._now, end), end
        decided = self._diagnoser.step(x).decision
        if decided is None:
            raise DataError("no decision")
        return decided.alarm.numpy()


def played(run: Run, bundle: ModelBundle, rotated: RotationSet) -> tuple[str, str, Batches, Batches]:
    """Return the left-out point, the fault, and the windows of both parts of a run of a real set."""
    spec, rng = bundle.manifest.window, run.rng()
    left_out = rotated.points[run.number % len(rotated.points)]
    label = 1 + run.number // len(rotated.points) % len(rotated.scenario.faults)
    here = {
        (one.label, place_of(one, left_out)): Windows([one], spec)
        for one in segments_at(rotated, [left_out], healthy_only=False)
    }
    # A machine is recorded healthy at every point, and with the fault at the one that is left out.
    places = sorted({place for _, place in here if (0, place) in here and (label, place) in here})
    place = places[int(rng.integers(len(places)))]
    others = [
        Windows([segment], spec)
        for point in rotated.points
        if point != left_out
        for segment in segments_at(rotated, [point], healthy_only=True)
        if place_of(segment, point) == place
    ]
    healthy = [here[0, place]] if run.conditions == STEADY or not others else [here[0, place], *others]
    step = spec.step / bundle.manifest.sample_rate
    fault = play([here[label, place]], FAULT_SECONDS, step, rng)
    return (
        rotated.point_name(left_out),
        rotated.scenario.faults[label - 1],
        play(healthy, HEALTHY_SECONDS, step, rng),
        fault,
    )


def play(recordings: Sequence[Windows], seconds: float, step: float, rng: Rng) -> Batches:
    """Yield batches of recordings in random order; the first is that of the left-out point."""
    remaining, place = round(seconds / step), len(recordings) - 1
    while remaining > 0:
        windows = recordings[place]
        count = min(remaining, round(rng.uniform(*HELD_SECONDS) / step))
        gain = torch.from_numpy(rng.uniform(1 - GAIN, 1 + GAIN, (1, windows.samples.shape[0], 1))).float()
        noise = NOISE * noise_floor(windows.samples)[None, :, None]
        index = (torch.arange(count) + int(rng.integers(len(windows)))) % len(windows)
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        for begin in range(0, count, BATCH):
            x = windows.gather(index[begin : begin + BATCH])
            yield gain * x + noise * torch.randn(x.shape, generator=generator)
        remaining -= count
        # The machine is commissioned at a trained point if it has one, and goes to the left-out point from there.
        place = 0 if len(recordings) == 1 or rng.random() < LEFT_OUT_SHARE else int(rng.integers(1, len(recordings)))


def noise_floor(samples: Tensor) -> Tensor:
    """Return the deviation of white noise as loud as the quietest tenth of the spectrum of every channel."""
    # Without a taper, strong lines leak into quiet ones, and the noise would be far louder than the floor.
    taper = torch.hann_window(samples.shape[1])
    lines = torch.fft.rfft((samples - samples.mean(dim=1, keepdim=True)) * taper).abs()
    # The power of a line of white noise is distributed exponentially.
    scale = sqrt(-float(taper.square().sum()) * log(0.9))
    return torch.div(torch.quantile(lines, 0.1, dim=1), scale)


def simulated(run: Run, bundle: ModelBundle) -> tuple[str, str, Batches, Batches]:
    """Return the torque, the fault, and the windows of both parts of a run of a rig."""
    scenario, rng = Scenario.load(run.set), run.rng()
    low, high = min(TORQUES[run.set]), max(TORQUES[run.set])
    allowed = (high, BEYOND_FACTOR * high) if run.conditions == BEYOND else (low, high)
    fault, specimen = scenario.faults[run.number % len(scenario.faults)], 1 + run.number % ASSEMBLIES
    if run.conditions == STEADY:
        torque: float | Mapping[float, float] = float(rng.uniform(*allowed))
        last = torque
    else:
        torque, begin = {}, 0.0
        while begin < HEALTHY_SECONDS:
            last, end = float(rng.uniform(*allowed)), begin + float(rng.uniform(*HELD_SECONDS))
            torque |= {begin: last, min(end, HEALTHY_SECONDS): last}
            begin = end + RAMP_SECONDS
    name = f"{low:g} to {high:g} Nm" if run.conditions == CHANGING else f"{allowed[0]:g} to {allowed[1]:g} Nm"

    def windows(state: str, torque: float | Mapping[float, float], seconds: float, seed: int) -> Batches:
        recording = RIGS[run.set]().drive(
            state,
            torque=torque,
            speed=SPEEDS[run.set],
            seconds=seconds,
            severity=scenario.severity_of(state),
            specimen=specimen,
            seed=seed,
            same_assembly=True,
        )
        cut = Windows([Segment(recording.select(scenario.channels), 0, 0)], bundle.manifest.window)
        yield from (x for _, x in cut.batches(BATCH))

    seed = int(rng.integers(10_000, 2**31))
    healthy = windows(scenario.healthy, torque, HEALTHY_SECONDS, seed)
    return name, fault, healthy, windows(fault, last, FAULT_SECONDS, seed + 1)


def table_of(folder: Path) -> Table:
    """Return false alarms, alarms and delays by set and kind of run."""
    results = [Result(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    rows = []
    for name in (*REAL, *SPEEDS):
        for conditions in (CHANGING, STEADY, BEYOND):
            mine = [one for one in results if (one.set, one.conditions) == (name, conditions)]
            if not mine:
                continue
            hours = sum(one.healthy_seconds for one in mine) / 3600
            alarms, delays = sum(one.false_alarms for one in mine), [one.delay for one in mine if one.delay is not None]
            faults = sum(one.faults for one in mine)
            rows.append(
                (
                    name,
                    conditions,
                    f"{hours:.1f}",
                    str(alarms),
                    f"{24 * alarms / hours:.1f}",
                    f"{len({one.left_out for one in mine if one.false_alarms})}",
                    f"{len(delays)} of {faults}",
                    f"{median(delays):.1f}" if delays else "",
                )
            )
    head = ("set", "conditions", "healthy hours", "false alarms", "per 24 h", "at points", "faults alarmed", "delay, s")
    return Table("day", head, tuple(rows))


if __name__ == "__main__":
    main()
