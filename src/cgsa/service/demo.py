"""Three simulated gearboxes to watch, with nothing to download.

A model is trained on labelled recordings of one assembly at low torque. Then
gearboxes run at torques that no training held: one stays healthy, in one the
gears wear after a quarter of a minute, in one a tooth cracks later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgsa.data.library import FolderLibrary
from cgsa.data.readers.parquet import write_parquet
from cgsa.data.recording import FloatArray, Recording
from cgsa.data.scenario import Scenario
from cgsa.live.plant import MachineConfig
from cgsa.profile import Profile
from cgsa.rigs.simulation import run_simulations, scenario_jobs
from cgsa.service.config import ServiceConfig
from cgsa.workflow import train, training_windows

SCENARIO, PROFILE = "gearbox", "robust"
BLENDED_SECONDS = 0.1
"""Over which one recording passes into the next."""
Tell = Callable[[str], None]
"""Hears in words what is being done."""


@dataclass(frozen=True)
class Story:
    """What happens to one gearbox: stages of the scenario's stream, in whose second one the fault sets in."""

    machine: str
    fault: str
    first: tuple[int, ...]
    """Stages that come once..."""
    then: tuple[int, ...]
    """...and stages that go round and round after them."""


STORIES = (
    Story("gearbox-1", "gear_wear", first=(0, 1), then=(2,)),
    Story("gearbox-2", "teeth_crack", first=(0, 0, 0, 1), then=(2,)),
    Story("gearbox-3", "gear_wear", first=(0,), then=(0,)),
)


def prepare(folder: Path, tell: Tell, *, workers: int) -> ServiceConfig:
    """Make recordings and model, unless they are there, and return how to watch the machines."""
    plan, profile = Scenario.load(SCENARIO), Profile.load(PROFILE)
    recordings, model = folder / "recordings", folder / "model"
    orders = scenario_jobs(plan, recordings, 1)
    missing = [order for order in orders if not order.path.exists()]
    if missing:
        tell(f"simulating {len(missing)} recordings of a gearbox")
        run_simulations(missing, workers)
    library = FolderLibrary(recordings)
    if not model.exists():
        tell("training a model at low torque")
        [trained] = train(plan, profile, training_windows(plan, profile, library))
        trained.save(model)
    for story in STORIES:
        first, then = _files(folder, story)
        if not then.exists():
            write_parquet(_told(plan, library, story, story.first, goes_round=False), first)
            write_parquet(_told(plan, library, story, story.then, goes_round=True), then)
    return ServiceConfig(
        folder=str(folder / "plant"),
        machines=tuple(MachineConfig(story.machine, model, profile=PROFILE) for story in STORIES),
        sources=tuple(
            {
                "kind": "replay",
                "name": f"replay of {story.machine}",
                "machine": story.machine,
                "files": [str(path) for path in _files(folder, story)],
                "loop": True,
                "loop_from": 1,
            }
            for story in STORIES
        ),
    )


def _files(folder: Path, story: Story) -> tuple[Path, Path]:
    streams = folder / "streams"
    return streams / f"{story.machine}-first.parquet", streams / f"{story.machine}-then.parquet"


def _told(
    plan: Scenario, library: FolderLibrary, story: Story, stages: Sequence[int], *, goes_round: bool
) -> Recording:
    """Return stages of the stream as one recording."""
    segments = plan.stream_segments(library, story.fault)
    parts = [segment.recording for stage in stages for segment in segments if segment.stage == stage]
    overlap = round(BLENDED_SECONDS * parts[0].sample_rate)

    def joined(traces: Sequence[FloatArray]) -> FloatArray:
        return blended([np.atleast_2d(trace) for trace in traces], overlap, goes_round=goes_round)

    return Recording(
        signal=joined([part.signal for part in parts]),
        sample_rate=parts[0].sample_rate,
        channels=parts[0].channels,
        units=parts[0].units,
        conditions={name: joined([part.conditions[name] for part in parts])[0] for name in parts[0].conditions},
        source=f"demo of {story.machine}",
    )


def blended(parts: Sequence[FloatArray], overlap: int, *, goes_round: bool) -> FloatArray:
    """Join stretches, (channels, samples), each passing into the next over some samples, the last into the first.

    Cut hard, two recordings meet in a click, which is nothing that a machine does. Where the whole does not go round,
    it begins and ends as it is.
    """
    rise = np.sin(np.linspace(0, np.pi / 2, overlap, dtype=np.float32)) ** 2
    found: list[FloatArray] = []
    for place, part in enumerate(parts):
        begins, ends = place == 0 and not goes_round, place + 1 == len(parts) and not goes_round
        if not begins:
            mixed = rise * part[:, :overlap] + (1 - rise) * parts[place - 1][:, -overlap:]
            found.append(mixed.astype(np.float32))
        found.append(part[:, 0 if begins else overlap : part.shape[1] if ends else -overlap])
    return np.concatenate(found, axis=1)
