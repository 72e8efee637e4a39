"""``cgsa fleet --demo``: a fleet of simulated machines, with all that it needs, on this computer."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cgsa.cli.console import talk
from cgsa.cli.fleet_run import run_fleet


def run_fleet_demo(folder: Path, port: int) -> None:
    """Prepare the demo in a folder and run it until it is stopped."""
    from cgsa.fleet.demo import demo_fleet
    from cgsa.fleet.log.nats_server import NatsServer
    from cgsa.service.demo import prepare_demo

    # Says at once if there is none, before anything is simulated.
    server = NatsServer(folder / "nats")
    named: set[str] = set()

    def report(step: str, *_: int) -> None:
        if step not in named:
            named.add(step)
            talk.print(f"{step} ...")

    prepare_demo(folder, report, workers=os.cpu_count() or 1)
    with server:
        run_fleet(demo_fleet(folder, server.address, port), token=time.strftime("demo-%m%d-%H%M%S"))
