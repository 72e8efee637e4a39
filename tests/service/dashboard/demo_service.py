"""A service on a loopback port with a few toy machines, for browser tests.

``python -m tests.service.dashboard.demo_service FOLDER`` prints one line of JSON (address and tokens) and then serves.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch
import uvicorn

from cgsa.data.recording import FloatArray
from cgsa.live.alarms import AlarmConfig
from cgsa.live.intake.block import Block
from cgsa.live.levels.config import LevelConfig
from cgsa.live.plant import ExplainConfig, MachineConfig, Plant
from cgsa.live.worker import WorkerConfig
from cgsa.nn.bundle import ModelBundle
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.rights import ROLES
from cgsa.service.sinks import AlarmSinks, EscalationConfig
from tests.machines import RATE, bundle
from tests.service.sinks.notifications import Receiver

BLOCK_SECONDS = 0.2
SHAFT_SPEED = 1200.0
KINEMATICS = """
[kinematics]
shafts = [{ name = "rotor" }]
bearings = [{ name = "drive end", shaft = "rotor", part = "6205-2RS" }]
"""
PAST_SECONDS = 40.0
"""Seconds of signal that the machines have processed when the service starts."""
MACHINES = {"pump-1": "robust", "pump-2": "robust", "fan-3": "paper", "mill-4": "robust", "press-5": "robust"}
"""Profiles of the machines. In this order they are: healthy, faulty since half of the past, healthy, with a dead sensor
since half of the past, and without any data."""


def samples(machine: str, seconds: float, rng: np.random.Generator) -> FloatArray:
    """Return the block of a machine that begins this many seconds after its first."""
    found = rng.standard_normal((2, round(BLOCK_SECONDS * RATE))).astype(np.float32)
    if machine == "pump-2" and seconds > PAST_SECONDS / 2:
        found *= 6
    if machine == "mill-4" and seconds > PAST_SECONDS / 2:
        found[0] = 0.25
    return found


def _healthy_bundle() -> ModelBundle:
    """Return the toy model, biased towards the healthy class."""
    model = bundle()
    with torch.no_grad():
        last = [layer for layer in model.network.G.modules() if isinstance(layer, torch.nn.Linear)][-1]
        last.bias[0] += 60.0
    return model


class Feeder(threading.Thread):
    """Sends the blocks of all machines: first those of the past, then in real time."""

    def __init__(self, plant: Plant) -> None:
        super().__init__(daemon=True)
        self._plant = plant
        self._rng = np.random.default_rng(0)
        self._begin = time.time() - PAST_SECONDS
        self._stopped = threading.Event()
        self._sent = 0

    def catch_up(self, until: float | None = None) -> None:
        """Send what is due now, or what the machines did up to so many seconds after their first sample."""
        end = time.time() if until is None else self._begin + until
        while self._begin + (self._sent + 1) * BLOCK_SECONDS < end:
            seconds = self._sent * BLOCK_SECONDS
            for machine in MACHINES:
                if machine != "press-5":
                    values = samples(machine, seconds, self._rng)
                    block = Block(machine, self._sent, self._begin + seconds, RATE, ("a", "b"), values)
                    self._plant.submit(block)
            self._sent += 1

    def run(self) -> None:
        while not self._stopped.wait(BLOCK_SECONDS / 2):
            self.catch_up()

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def main(folder: Path) -> None:
    _healthy_bundle().save(folder / "model")
    kinematics = folder / "pump.toml"
    kinematics.write_text(KINEMATICS)
    # The past arrives all at once and must not suspend learning. States are saved rarely, so that those which a slow
    # browser shows still exist when the test chooses one.
    config = WorkerConfig(checkpoint_seconds=20.0, shed_above=60.0)
    with Receiver() as lead, Plant(folder / "plant", threads=1, config=config) as plant:
        # The first receiver cannot be reached, so alarms escalate to the second.
        tables = [
            {"kind": "webhook", "name": "shift", "url": "http://127.0.0.1:9/"},
            {"kind": "webhook", "name": "lead", "url": lead.url},
        ]
        escalation = EscalationConfig(("shift", "lead"), undelivered_after=2.0)
        sinks = AlarmSinks(plant, folder / "outbox", tables, escalation=escalation)
        for name, profile in MACHINES.items():
            alarms = AlarmConfig(on_delay=1.0, no_data_delay=600.0)
            levels = LevelConfig(("a velocity 500 900", "b rms - 90"))
            known = ExplainConfig(str(kinematics), speed=SHAFT_SPEED) if name == "pump-2" else ExplainConfig()
            plant.add(
                MachineConfig(name, folder / "model", profile=profile, alarms=alarms, levels=levels, explain=known)
            )
        authenticator = Authenticator(plant.store)
        app = create_app(plant, authenticator, sinks=sinks, runs_plant=False)
        feeder = Feeder(plant)
        # The faulty machine was healthy for long enough to have a reference.
        for seconds in (4.0, 16.0, 19.0):
            feeder.catch_up(seconds)
            plant.wait_until_idle()
            app.state.context.trends.sample()
        feeder.catch_up()
        plant.wait_until_idle()
        app.state.context.trends.sample()
        app.state.context.trends.flush()
        feeder.start()
        tokens = {role: authenticator.create_token(f"{role}-ann", role) for role in ROLES}
        listening = socket.create_server(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(json.dumps({"address": address, "tokens": tokens}), flush=True)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        server.run(sockets=[listening])
        feeder.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
