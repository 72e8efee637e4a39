"""Three simulated gearboxes to monitor, with nothing to download.

A model is trained on labelled recordings of one assembly at low torque. Then gearboxes run at torques absent from
training: one stays healthy, in one the gears wear after a quarter of a minute, in one a tooth cracks later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from cgsa.data.library import FolderLibrary
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.scenario import Scenario
from cgsa.live.plant import MachineConfig
from cgsa.offline.run import Progress
from cgsa.profile import Profile
from cgsa.rigs.simulation import run_simulations, scenario_jobs
from cgsa.service.config import ServiceConfig
from cgsa.workflow import train, training_windows

SCENARIO, PROFILE = "gearbox", "recommended"
CROSSFADE_SECONDS = 0.1
"""Length of the crossfade from one recording to the next."""


@dataclass(frozen=True)
class DemoMachine:
    """What happens to one gearbox: stages of the scenario's stream; the fault begins in the second stage."""

    name: str
    fault: str
    first: tuple[int, ...]
    """Stages played once."""
    then: tuple[int, ...]
    """Stages repeated after them."""


DEMO_MACHINES = (
    DemoMachine("gearbox-1", "gear_wear", first=(0, 1), then=(2,)),
    DemoMachine("gearbox-2", "teeth_crack", first=(0, 0, 0, 1), then=(2,)),
    DemoMachine("gearbox-3", "gear_wear", first=(0,), then=(0,)),
)


SIMULATING, TRAINING, WRITING = "Simulate recordings of gearboxes", "Train a model at low torque", "Write the streams"
"""Steps of the preparation."""


def demo_config(folder: Path) -> ServiceConfig:
    """Return the configuration of the service, whose recordings and model need not exist yet."""
    return ServiceConfig(
        folder=str(folder / "plant"),
        machines=tuple(MachineConfig(machine.name, folder / "model", profile=PROFILE) for machine in DEMO_MACHINES),
        sources=tuple(replay_table(folder, machine, machine.name) for machine in DEMO_MACHINES),
    )


def replay_table(folder: Path, machine: DemoMachine, name: str) -> dict[str, object]:
    """Return the settings of a source that replays the streams of a machine as those of the machine ``name``."""
    files = [str(path) for path in _files(folder, machine)]
    return {
        "kind": "replay",
        "name": f"replay of {name}",
        "machine": name,
        "files": files,
        "loop": True,
        "loop_from": 1,
    }


def prepare_demo(folder: Path, report: Callable[[str, int, int], None], *, workers: int) -> None:
    """Create model and streams, and the recordings for them, unless they exist.

    ``report`` receives the name of a step, how much of it is done, and how much there is to do.
    """
    plan, profile = Scenario.load(SCENARIO), Profile.load(PROFILE)
    recordings, model = folder / "recordings", folder / "model"
    if model.exists() and all(path.exists() for machine in DEMO_MACHINES for path in _files(folder, machine)):
        return
    jobs = scenario_jobs(plan, recordings, 1)
    missing = [job for job in jobs if not job.path.exists()]
    if missing:
        written = count(1)
        report(SIMULATING, 0, len(missing))
        run_simulations(missing, workers, lambda _: report(SIMULATING, next(written), len(missing)))
    library = FolderLibrary(recordings)
    if not model.exists():
        report(TRAINING, 0, 0)
        windows = training_windows(plan, profile, library)
        on_progress = partial(_report_training, objective=profile.default_objective, report=report)
        [trained] = train(plan, profile, windows, report=on_progress)
        trained.save(model)
    for number, machine in enumerate(DEMO_MACHINES):
        report(WRITING, number, len(DEMO_MACHINES))
        first, then = _files(folder, machine)
        if not then.exists():
            write_parquet(_recording(plan, library, machine, machine.first, loops=False), first)
            write_parquet(_recording(plan, library, machine, machine.then, loops=True), then)
    report(WRITING, len(DEMO_MACHINES), len(DEMO_MACHINES))


def _report_training(progress: Progress, objective: str, report: Callable[[str, int, int], None]) -> None:
    # The model is trained once; then again without each of some recordings, to estimate its accuracy on others.
    name = TRAINING if progress.phase == objective else f"{TRAINING}: {progress.phase}"
    report(name, progress.epoch * progress.steps + progress.step, progress.epochs * progress.steps)


def _files(folder: Path, machine: DemoMachine) -> tuple[Path, Path]:
    streams = folder / "streams"
    return streams / f"{machine.name}-first.parquet", streams / f"{machine.name}-then.parquet"


def _recording(
    plan: Scenario, library: FolderLibrary, machine: DemoMachine, stages: Sequence[int], *, loops: bool
) -> Recording:
    """Return stages of the stream as one recording."""
    segments = plan.stream_segments(library, machine.fault)
    parts = [segment.recording for stage in stages for segment in segments if segment.stage == stage]
    overlap = round(CROSSFADE_SECONDS * parts[0].sample_rate)

    def join(traces: Sequence[FloatArray]) -> FloatArray:
        return crossfade([np.atleast_2d(trace) for trace in traces], overlap, loops=loops)

    return Recording(
        signal=join([part.signal for part in parts]),
        sample_rate=parts[0].sample_rate,
        channels=parts[0].channels,
        units=parts[0].units,
        conditions={name: join([part.conditions[name] for part in parts])[0] for name in parts[0].conditions},
        source=f"demo of {machine.name}",
    )


def crossfade(parts: Sequence[FloatArray], overlap: int, *, loops: bool) -> FloatArray:
    """Join segments, (channels, samples), with a crossfade from each to the next, and from the last to the first.

    A hard cut between two recordings is a click, which no machine makes. If the result does not loop, its begin and end
    stay as they are.
    """
    rise = np.sin(np.linspace(0, np.pi / 2, overlap, dtype=np.float32)) ** 2
    found: list[FloatArray] = []
    for place, part in enumerate(parts):
        begins, ends = place == 0 and not loops, place + 1 == len(parts) and not loops
        if not begins:
            mixed = rise * part[:, :overlap] + (1 - rise) * parts[place - 1][:, -overlap:]
            found.append(mixed.astype(np.float32))
        found.append(part[:, 0 if begins else overlap : part.shape[1] if ends else -overlap])
    return np.concatenate(found, axis=1)
