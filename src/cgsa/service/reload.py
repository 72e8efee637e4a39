"""Takes over a changed configuration while the service runs: all of it that is right, or nothing.

Everything that may be wrong is found before anything is changed: the file, the settings of sources and sinks, the
certificate, and the models of machines that are new or changed. A machine that is exchanged diagnoses first what it has
received; its senders get 503 meanwhile, and send again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.errors import BundleError, CgsaError, ConfigError, DataError
from cgsa.files import replacing
from cgsa.live.commands import SERVICE
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import AuditEntry
from cgsa.live.watch import Watch
from cgsa.nn.bundle import ModelBundle
from cgsa.service.config import ServiceConfig
from cgsa.service.configuration_check import check_links
from cgsa.service.sources import create_source

if TYPE_CHECKING:
    from cgsa.service.service import Service

RESULT_FILE = "reload.json"
"""File in the folder of a service with the result of its last reload, for the command."""
TAKEN_OVER = frozenset({"machines", "sources", "sinks", "escalation", "worker", "retention", "ledger"})
"""Settings that a reload takes over; all others need a restart. Certificates are read again in any case."""
MAX_RESULT = 2000
"""Characters of a result in the audit."""

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReloadResult:
    """What a reload has changed, or why it was refused."""

    time: float
    refused: str = ""
    """What is wrong; empty if the configuration was taken over."""
    added: tuple[str, ...] = ()
    """Machines."""
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Sources that are new, changed or gone."""
    sinks: bool = False
    """Whether the sinks were exchanged."""
    restart: tuple[str, ...] = ()
    """Settings that differ and need a restart."""

    def __str__(self) -> str:
        if self.refused:
            return f"refused, the former configuration stays: {self.refused}"
        named = {"added": self.added, "changed": self.changed, "removed": self.removed, "sources": self.sources}
        parts = [f"{what} {', '.join(names)}" for what, names in named.items() if names]
        parts += ["sinks exchanged"] if self.sinks else []
        parts += [f"only after a restart: {', '.join(self.restart)}"] if self.restart else []
        return "; ".join(parts) or "nothing has changed"


class Reloader:
    """Reloads the configuration of a running service; ``load`` reads it."""

    def __init__(self, service: Service, load: Callable[[], ServiceConfig]) -> None:
        self._service, self._load = service, load
        self._config = service.config

    def reload(self) -> ReloadResult:
        """Take over the configuration as it is now, or say what is wrong; never raises."""
        try:
            result = self._take_over()
        except CgsaError as error:
            result = ReloadResult(time.time(), refused=str(error))
        except Exception as error:  # a fault of the program must not end the service
            LOG.exception("the configuration could not be reloaded")
            result = ReloadResult(time.time(), refused=f"{type(error).__name__}: {error}")
        self._report(result)
        return result

    def _take_over(self) -> ReloadResult:
        new, old, plant = self._load(), self._config, self._service.plant
        if Path(new.folder).resolve() != Path(old.folder).resolve():
            raise ConfigError(f"folder {new.folder}: the service runs on {old.folder}; restart it for another folder")
        problems = [f"{one.where}: {one.text}" for one in check_links(new) if one.severity == "problem"]
        if problems:
            raise ConfigError("; ".join(problems))
        changes = _MachineChanges.between(old, new, plant)
        watches = {machine.name: plant.prepare(machine) for machine in (*changes.added, *changes.changed)}
        self._reload_certificate()
        # From here on nothing of the configuration can be wrong.
        sinks = (new.sink_tables, new.escalation) != (old.sink_tables, old.escalation)
        if sinks:
            self._service.sinks.exchange(new.sink_tables, new.escalation)
        plant.config = new.worker
        plant.maintenance.retention, plant.maintenance.ledger = new.retention, new.ledger
        failed = changes.apply(plant, watches)
        sources = self._service.sources.exchange(new.sources, lambda table: create_source(plant, table))
        self._config = new
        if failed:
            raise DataError("; ".join(failed))
        return ReloadResult(
            time.time(),
            added=tuple(machine.name for machine in changes.added),
            changed=tuple(machine.name for machine in changes.changed),
            removed=changes.removed,
            sources=tuple(sources),
            sinks=sinks,
            restart=tuple(
                field.name
                for field in fields(ServiceConfig)
                if field.name not in TAKEN_OVER
                and getattr(new, field.name) != getattr(self._service.config, field.name)
            ),
        )

    def _reload_certificate(self) -> None:
        """Use the certificate as it is in its files now, for connections from now on."""
        context, config = self._service.server.config.ssl, self._service.config
        if context is None or config.tls_certificate is None:
            return
        try:
            context.load_cert_chain(config.tls_certificate, config.tls_key)
        except OSError as error:
            raise ConfigError(f"{config.tls_certificate}: cannot be used ({error})") from error

    def _report(self, result: ReloadResult) -> None:
        """Write the result into the log, the audit and a file."""
        store = self._service.plant.store
        LOG.log(logging.WARNING if result.refused else logging.INFO, "configuration reloaded: %s", result)
        try:
            store.add_audit(
                AuditEntry(result.time, SERVICE, "reload the configuration", result=str(result)[:MAX_RESULT])
            )
            with replacing(Path(self._config.folder) / RESULT_FILE, DataError) as fresh:
                fresh.write_text(json.dumps({**asdict(result), "text": str(result)}), encoding="utf-8")
        except CgsaError as error:
            LOG.warning("the result of the reload could not be written: %s", error)


@dataclass(frozen=True)
class _MachineChanges:
    """What to do with machines."""

    added: tuple[MachineConfig, ...]
    changed: tuple[MachineConfig, ...]
    removed: tuple[str, ...]

    @classmethod
    def between(cls, old: ServiceConfig, new: ServiceConfig, plant: Plant) -> _MachineChanges:
        """Return the changes from one configuration to another; models whose files have changed count."""
        plant.forget_models()
        before = {machine.name: machine for machine in old.machines if machine.name in plant.workers}
        after = {machine.name: machine for machine in new.machines}
        common = [after[name] for name in before if name in after]
        return cls(
            tuple(machine for name, machine in after.items() if name not in before),
            tuple(
                machine
                for machine in common
                if machine != before[machine.name] or new.worker != old.worker or _has_new_model(machine, plant)
            ),
            tuple(name for name in plant.workers if name not in after),
        )

    def apply(self, plant: Plant, watches: Mapping[str, Watch]) -> list[str]:
        """Change the plant; return what failed. What works is done: each machine is a matter of its own."""
        failed: list[str] = []
        steps: list[Callable[[], object]] = [
            *(partial(plant.remove, name) for name in self.removed),
            *(partial(plant.exchange, machine, watches[machine.name]) for machine in self.changed),
            *(partial(plant.add, machine, watches[machine.name]) for machine in self.added),
        ]
        for step in steps:
            try:
                step()
            except CgsaError as error:
                failed.append(str(error))
        return failed


def _has_new_model(machine: MachineConfig, plant: Plant) -> bool:
    """Return whether the files of a machine's model are no longer those that are in use."""
    try:
        return ModelBundle.load(Path(machine.bundle)).sha256 != plant.worker(machine.name).watch.bundle.sha256
    except BundleError:
        # Preparing it says what is wrong.
        return True
