"""The processes of a fleet as Ray actors: results, shards and the controller, each placed and restarted by Ray.

All of them are detached: they outlive the program that started them. Whatever one of them holds in memory alone can be
lost at any time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import ray

from cgsa.errors import CgsaError, DataError
from cgsa.events import Case
from cgsa.fleet.assignments import AssignmentFolder, AssignmentTable
from cgsa.fleet.config import FleetConfig
from cgsa.fleet.controller import Controller
from cgsa.fleet.failures import raise_unavailable
from cgsa.fleet.log.jetstream import JetStreamLog
from cgsa.fleet.results import ResultBatch, ResultStore, StoredResults
from cgsa.fleet.shard import Shard, ShardStatus
from cgsa.live.plant import MachineConfig
from cgsa.live.retries import RetriedTasks
from cgsa.live.store import PostgresAddress, Store
from cgsa.live.store.database import Outcome
from cgsa.live.store.mapping import Statement
from cgsa.live.store.opening import STORE_FILE
from cgsa.live.store_maintenance import StoreMaintenance

LOG = logging.getLogger(__name__)
T = TypeVar("T")
RESULTS, CONTROLLER, SHARD = "results", "controller", "shard"
"""Names of the actors; that of a shard is followed by its own name."""
CALL_SECONDS = 30.0
"""How long a call may take, apart from those that wait for a shard to save its machines."""
APPEND_SECONDS = 2.0
"""For how long a shard offers a remark to a log that does not acknowledge it."""
RELEASE_SECONDS = 90.0
OPEN_SECONDS = 2.0
"""Time between two attempts of a shard to open a database."""


def call(reference: Any, seconds: float = CALL_SECONDS) -> Any:
    """Return the result of a remote call, or raise its own error; an actor that is away is an error that passes."""
    try:
        return ray.get(reference, timeout=seconds)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except (ray.exceptions.RayError, TimeoutError) as error:
        raise_unavailable("a process of the fleet does not answer", error)


class ResultsActor:
    """The process that has the store open, if that is a file."""

    def __init__(self, config: FleetConfig) -> None:
        folder = Path(config.folder)
        folder.mkdir(parents=True, exist_ok=True)
        store = Store(folder / STORE_FILE)
        self._store, self._results = store, StoredResults(store)
        self._maintenance = StoreMaintenance(store, config.retention, config.ledger)
        self._maintenance.start()

    def claim(self, versions: Mapping[str, int], above: Mapping[str, int]) -> Mapping[str, int]:
        """See :class:`~cgsa.fleet.results.ResultStore`."""
        return self._results.claim(versions, above)

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        """See :class:`~cgsa.fleet.results.ResultStore`."""
        return self._results.write(batches)

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        """See :class:`~cgsa.fleet.results.ResultStore`."""
        return self._results.continued_numbers(machine)

    def write_each(self, jobs: Sequence[Sequence[Statement]]) -> list[Outcome]:
        """See :meth:`cgsa.live.store.Store.write_each`."""
        return self._store.write_each(*jobs)


class RemoteResults:
    """The results actor, as shards use it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def claim(self, versions: Mapping[str, int], above: Mapping[str, int]) -> Mapping[str, int]:
        """Return a new epoch for each machine, whose earlier owners may write no more."""
        found: Mapping[str, int] = self._ask(self._actor.claim.remote(versions, above))
        return found

    def write(self, batches: Sequence[ResultBatch]) -> frozenset[str]:
        """Write results; return the machines that others own."""
        found: frozenset[str] = self._ask(self._actor.write.remote(batches)) if batches else frozenset()
        return found

    def continued_numbers(self, machine: str) -> tuple[int, Case | None]:
        """Return the number of the next batch and the newest case, for a watch that starts afresh."""
        found: tuple[int, Case | None] = self._ask(self._actor.continued_numbers.remote(machine))
        return found

    def _ask(self, reference: Any) -> Any:
        """Return an answer; whatever keeps the results from being stored, such as a full disk, passes."""
        try:
            return call(reference)
        except CgsaError as error:
            raise_unavailable("results cannot be stored", error)


class ShardActor:
    """A process with many machines; after a restart it continues with those that the newest table gives it."""

    def __init__(self, name: str, config: FleetConfig) -> None:
        results = _results_of(config)
        # What a shard has to say to the log can wait; its machines cannot.
        log = JetStreamLog(replace(config.log, append_seconds=APPEND_SECONDS))
        self._shard = Shard(name, log, results, config.states_folder(), config=config.shard)
        self._shard.start()
        self._shard.assign(AssignmentFolder(config.assignments_folder()).newest())

    def assign(self, table: AssignmentTable) -> None:
        """Host the machines that a table gives to this shard, and no others."""
        self._shard.assign(table)

    def release(self, machines: tuple[str, ...]) -> None:
        """Let go of machines once what was processed is written and saved."""
        self._shard.release(machines)

    def status(self) -> ShardStatus:
        """Return the status of the shard and its machines."""
        return self._shard.status()

    def stop(self) -> None:
        """Save all machines and stop."""
        self._shard.stop()


def _results_of(config: FleetConfig) -> ResultStore:
    """Return where a shard writes its results: directly into a database, or by the process that has the file open."""
    if config.store is None:
        return RemoteResults(start_actor(ResultsActor, RESULTS, config, config))
    store = _open_database(config.store.address())
    # Of all shards, one at a time maintains the database.
    StoreMaintenance(store, config.retention, config.ledger).start()
    return StoredResults(store)


def _open_database(address: PostgresAddress) -> Store:
    """Return the store in a database, as soon as that can be reached: Ray does not restart what fails to start."""
    while True:
        try:
            return Store(address)
        except DataError as error:
            LOG.warning("%s; it is tried again", error)
            time.sleep(OPEN_SECONDS)


class RemoteShard:
    """A shard actor, as the controller uses it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def assign(self, table: AssignmentTable) -> None:
        """Host the machines that a table gives to this shard, and no others."""
        call(self._actor.assign.remote(table))

    def release(self, machines: tuple[str, ...]) -> None:
        """Let go of machines once what was processed is written and saved."""
        call(self._actor.release.remote(machines), RELEASE_SECONDS)

    def status(self) -> ShardStatus:
        """Return the status of the shard and its machines."""
        found: ShardStatus = call(self._actor.status.remote())
        return found

    def stop(self) -> None:
        """Save all machines, and end the process for good."""
        call(self._actor.stop.remote(), RELEASE_SECONDS)
        ray.kill(self._actor)


class ControllerActor:
    """The process that assigns machines to shards."""

    def __init__(self, config: FleetConfig) -> None:
        self._config = config
        self._controller = Controller(
            AssignmentFolder(config.assignments_folder()),
            lambda name: RemoteShard(start_actor(ShardActor, f"{SHARD} {name}", config, name, config)),
            config.controller,
        )
        self._retries = RetriedTasks(None, LOG.warning)
        self._ended = threading.Event()
        threading.Thread(target=self._check, name="cgsa-check", daemon=True).start()

    def set_shards(self, names: tuple[str, ...]) -> None:
        """Have these shards and no others, and spread the machines over them."""
        self._controller.set_shards(names)

    def add(self, machines: tuple[MachineConfig, ...]) -> None:
        """Watch machines."""
        self._controller.add(*machines)

    def remove(self, machine: str) -> None:
        """Watch a machine no more."""
        self._controller.remove(machine)

    def move(self, machine: str, shard: str) -> None:
        """Move a machine to a shard."""
        self._controller.move(machine, shard)

    def rebalance(self) -> None:
        """Spread the machines over the shards by their measured load."""
        self._controller.rebalance()

    def table(self) -> AssignmentTable:
        """Return the table as it is now."""
        return self._controller.table

    def statuses(self) -> Mapping[str, ShardStatus]:
        """Return the newest status of each shard that answers."""
        return self._controller.statuses

    def _check(self) -> None:
        while not self._ended.wait(self._config.controller.check_seconds):
            self._retries.attempt("check the shards", self._controller.check)


def start_actor(kind: type[T], name: str, config: FleetConfig, *arguments: object) -> Any:
    """Return the actor of a name, started if it does not run; Ray restarts it whenever it dies."""
    cores = config.ray.cpus_per_shard if kind is ShardActor else 0
    options = {
        "name": name,
        "namespace": config.ray.namespace,
        "get_if_exists": True,
        "lifetime": "detached",
        "max_restarts": -1,
        "num_cpus": cores,
        "max_concurrency": 4,
    }
    return ray.remote(kind).options(**options).remote(*arguments)
