"""A fleet as the API and the pages see it: its store, and what shards publish there.

Every half second it reads what is new, in a number of queries that depends neither on the shards nor on the machines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from cgsa.errors import DataError
from cgsa.events import AlarmChange, Comment, Event, Label, Note
from cgsa.fleet.assignments import AssignmentFolder
from cgsa.fleet.gateway import Gateway
from cgsa.fleet.new_rows import NewRows
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.remote_machine import RemoteMachine
from cgsa.fleet.states import MachineStates
from cgsa.live.commands import Command
from cgsa.live.intake.block import Block
from cgsa.live.intake.refusals import Refusal
from cgsa.live.monitored import EventListener
from cgsa.live.plant import ExplainConfig, MachineConfig
from cgsa.live.retries import Problem, RetriedTasks
from cgsa.live.store import Store, StoredDiagnosis
from cgsa.nn.bundle import ModelBundle

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.5
TABLE_POLLS = 10
"""Readings of the store until the table of machines is read again."""
TABLE, STORE = "read which machines there are", "read the store"


class MonitoredFleet:
    """The machines of a fleet; usable from any thread.

    ``assignments`` and ``states`` are the folders that all shards reach. The store is closed at the end.
    """

    def __init__(self, store: Store, gateway: Gateway, assignments: ObjectFolder, states: ObjectFolder) -> None:
        self.store, self._gateway = store, gateway
        self._assignments, self._states = AssignmentFolder(assignments), states
        self._machines: dict[str, RemoteMachine] = {}
        self._bundles: dict[str, ModelBundle] = {}
        self._listeners: list[EventListener] = []
        self._diagnoses = NewRows(StoredDiagnosis)
        self._others: tuple[NewRows[AlarmChange] | NewRows[Comment] | NewRows[Label] | NewRows[Note], ...] = (
            NewRows(AlarmChange),
            NewRows(Comment),
            NewRows(Label),
            NewRows(Note),
        )
        self._retries = RetriedTasks(None, lambda _: None)
        self._polls = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cgsa-fleet", daemon=True)

    @property
    def workers(self) -> Mapping[str, RemoteMachine]:
        """The machines by their names."""
        return self._machines

    @property
    def machines(self) -> Collection[str]:
        """Names of the machines that are watched."""
        return self._machines.keys()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What fails at present and is tried again."""
        return self._retries.problems

    def worker(self, machine: str) -> RemoteMachine:
        """Return a machine, or say that there is none."""
        found = self._machines.get(machine)
        if found is None:
            raise DataError(f"no machine {machine!r} is watched by this fleet")
        return found

    def explain_config(self, machine: str) -> ExplainConfig:
        """Return what is known of a machine, so that its alarms can be explained."""
        return self.worker(machine).config.explain

    def subscribe(self, listener: EventListener) -> Callable[[], None]:
        """Call a listener with all events from now on; return a function that ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def submit(self, block: Block) -> int:
        """Publish a block to the log and return its position."""
        return self._gateway.submit(block)

    def command(self, machine: str, command: Command) -> Future[None]:
        """Publish a command to the log."""
        return self.worker(machine).command(command)

    def last_refused(self, machine: str) -> Refusal | None:
        """Return the newest data of a machine that its shard has refused or misses."""
        return self.worker(machine).status().last_refused

    def start(self) -> None:
        """Read what there is, and then what is new, in a thread."""
        self.poll()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the store; shards go on."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for machine in self._machines.values():
            machine.close()
        self.store.close()

    def poll(self) -> None:
        """Read what is new."""
        if self._polls % TABLE_POLLS == 0:
            self._retries.attempt(TABLE, self._read_table)
        self._polls += 1
        self._retries.attempt(STORE, self._read_store)

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self.poll()

    def _read_table(self) -> None:
        found = self._assignments.newest().by_machine
        machines = {name: one for name, one in self._machines.items() if name in found}
        for name, one in found.items():
            if name not in machines or machines[name].config != one.machine:
                self._retries.attempt(f"load the model of {name}", partial(self._add, machines, one.machine))
        for name in self._machines.keys() - machines.keys():
            self._machines[name].close()
        # Another dictionary, since other threads go through the one before.
        self._machines = machines

    def _add(self, machines: dict[str, RemoteMachine], config: MachineConfig) -> None:
        path = str(Path(config.bundle).resolve())
        if path not in self._bundles:
            self._bundles[path] = ModelBundle.load(path)
        states = MachineStates(self._states.below(config.name), 0)
        machines[config.name] = RemoteMachine(config, self._bundles[path], states, self._gateway)

    def _read_store(self) -> None:
        with self.store.read() as snapshot:
            statuses = snapshot.statuses()
            diagnoses = self._diagnoses.read(snapshot)
            others = [event for table in self._others for event in table.read(snapshot)]
        for name, machine in self._machines.items():
            if name in statuses:
                # One that another version has written must not hide the others.
                self._retries.attempt(f"read the status of {name}", partial(machine.receive, statuses[name]))
        found: list[tuple[float, str, Event]] = [(one.diagnosis.end, one.machine, one.diagnosis) for one in diagnoses]
        found += [(one.time, one.machine, one) for one in others]
        for _, name, event in sorted(found, key=lambda one: one[0]):
            self._publish(name, event)

    def _publish(self, machine: str, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(machine, None, (event,))
            except Exception:
                # A fault in a listener must not end the thread.
                LOG.exception("%s: a listener to its events failed", machine, extra={"machine": machine})
