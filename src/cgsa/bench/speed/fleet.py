"""Time a fleet of machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from cgsa.bench.speed.measure import EVERYTHING, RATE, Setting, memory_in_use
from cgsa.online.fleet import MACHINES_PER_STACK, FleetOutput, StudentFleet

FLEETS: Mapping[str, Sequence[int]] = {"cpu": (1, 4), "cuda": (33, 330)}
"""Numbers of machines for each kind of device, if none are given."""
WARM_UP, BATCHES = 4, 8


@dataclass(frozen=True)
class FleetSpeed:
    """Speed of a fleet."""

    machines: int
    windows_per_second: float
    """Of all machines together."""
    times_real_time: float
    """Seconds of signal of every machine processed per second."""
    step_ms: float
    """Time for one batch of every machine."""
    memory_mb: float
    """Memory per machine."""


def measure_fleet(
    machines: int,
    *,
    setting: Setting | None = None,
    device: torch.device | str = "cpu",
    report: Callable[[int, int], None] | None = None,
) -> FleetSpeed:
    """Time this many machines, each at another position of one stream, with all windows accepted."""
    chosen = setting or Setting(batches=WARM_UP + BATCHES + 1)
    bundle, windows = chosen.bundle(), chosen.windows()
    before = memory_in_use(device)
    fleet = StudentFleet(bundle, EVERYTHING, device=device, together=min(machines, MACHINES_PER_STACK))
    for machine in range(machines):
        fleet.join(str(machine))
    last: FleetOutput | None = None
    begun = 0.0
    for number in range(WARM_UP + BATCHES):
        if number == WARM_UP:
            if last is not None:
                last.on_host()
            begun = time.perf_counter()
        places = {str(machine): number * chosen.batch + machine % chosen.batch for machine in range(machines)}
        batches = {name: windows.gather(slice(place, place + chosen.batch)) for name, place in places.items()}
        output = fleet.step(batches)
        # Fetch results while the next step is running.
        if last is not None:
            last.on_host()
        last = output
        if report:
            report(number + 1, WARM_UP + BATCHES)
    output.on_host()
    seconds = (time.perf_counter() - begun) / BATCHES
    return FleetSpeed(
        machines,
        machines * chosen.batch / seconds,
        chosen.batch * chosen.step / RATE / seconds,
        1e3 * seconds,
        (memory_in_use(device) - before) / machines / 1e6,
    )
