"""Simulated gearboxes in a fleet on one computer, with nothing to download.

Their model and streams are those of the demo of a service.
"""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

from cgsa.fleet.config import FleetConfig, FleetServiceConfig, RayConfig
from cgsa.fleet.log.jetstream import JetStreamConfig
from cgsa.fleet.log.nats import NatsConfig
from cgsa.live.plant import MachineConfig
from cgsa.service.demo import DEMO_MACHINES, PROFILE, replay_table

MACHINES, SHARDS = 4, 2


def demo_fleet(folder: Path, log: str, port: int) -> FleetConfig:
    """Return the settings of the fleet; ``log`` is the address of a NATS server."""
    names = {f"gearbox-{number + 1}": one for number, one in enumerate(islice(cycle(DEMO_MACHINES), MACHINES))}
    return FleetConfig(
        folder=str(folder.resolve() / "fleet"),
        shards=SHARDS,
        log=JetStreamConfig(NatsConfig((log,))),
        # Two shards run on whatever computer this is.
        ray=RayConfig(cpus_per_shard=0.5),
        service=FleetServiceConfig(port=port),
        sources=tuple(replay_table(folder.resolve(), one, name) for name, one in names.items()),
        machines=tuple(MachineConfig(name, str(folder.resolve() / "model"), profile=PROFILE) for name in names),
    )
