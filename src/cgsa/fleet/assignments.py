"""Which shard hosts which machine: the table, and the folder that keeps it when controller and driver die."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from cgsa.config import as_table, bind
from cgsa.errors import BundleError, CgsaError, is_environmental
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.live.plant import MachineConfig

LOG = logging.getLogger(__name__)
KEEP = 8
"""Tables kept, the newest and those before it."""
STEPS = 2**32
"""Versions that one controller can give."""
_DEFAULTS = {
    name: value for name, value in as_table(MachineConfig("any", "")).items() if name not in {"name", "bundle"}
}
"""Settings of machines that a table leaves out, since most machines of a large fleet have most of them."""
_FILE = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class Assignment:
    """A machine and the shard that hosts it."""

    machine: MachineConfig
    shard: str
    version: int
    """Version of the table in which this was decided."""
    log: str = ""
    """Machine whose records a shadow reads; empty for a machine with a log of its own."""
    begin: int = 0
    """Position at which a shadow begins."""
    keep_from: int | None = None
    """Position from which on the log keeps all records, whatever the states include; None if it need not."""


@dataclass(frozen=True)
class Rollout:
    """A new bundle on its way to the machines that have an old one."""

    old: str
    new: str
    stage: Literal["shadow", "canary"]
    machines: tuple[str, ...]
    """Those on which the two are compared."""


@dataclass(frozen=True)
class AssignmentTable:
    """All machines of a fleet."""

    version: int = 0
    """Increases with every change."""
    assignments: tuple[Assignment, ...] = ()
    shards: tuple[str, ...] = ()
    """All shards, also those without machines."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Measured load of machines, in seconds of processing per second."""
    rollout: Rollout | None = None
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Bundles that were replaced by others on all machines."""

    @property
    def by_machine(self) -> Mapping[str, Assignment]:
        """The assignments by the names of the machines."""
        return {one.machine.name: one for one in self.assignments}

    @property
    def watched(self) -> Mapping[str, Assignment]:
        """The machines with logs of their own, by name: all but the shadows."""
        return {one.machine.name: one for one in self.assignments if not one.log}

    def of_shard(self, shard: str) -> tuple[Assignment, ...]:
        """Return the machines of a shard."""
        return tuple(one for one in self.assignments if one.shard == shard)


class AssignmentFolder:
    """Keeps the tables; one controller at a time writes.

    Each controller begins a generation of versions, above those of all earlier ones. If one that was believed dead is
    not, its tables never count again.
    """

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder = folder
        self._settings: dict[str, tuple[MachineConfig, Mapping[str, object]]] = {}
        """Machines and their settings as they are written, by name."""
        self._read: tuple[str, AssignmentTable] | None = None
        """The file that was read last, and its table."""

    def newest(self, shard: str | None = None) -> AssignmentTable:
        """Return the newest table that is whole, an empty one if there is none.

        If a shard is given, the table has that part alone which it needs.
        """
        for name in reversed(self._names()):
            # A file is never changed.
            if self._read is not None and self._read[0] == name:
                return self._read[1]
            try:
                table = _decode(self._folder.read(name), f"{self._folder.path}/{name}", shard)
            except CgsaError as error:
                if is_environmental(error):
                    raise
                LOG.warning("%s; the table before it is used", error)
                continue
            if shard is None:
                self._read = name, table
            return table
        return AssignmentTable()

    def save(self, table: AssignmentTable) -> None:
        """Write a table, then remove old ones."""
        rows = [{**vars(one), "machine": self._settings_of(one.machine)} for one in table.assignments]
        text = json.dumps({**as_table(replace(table, assignments=())), "assignments": rows}).encode()
        self._folder.write(f"{table.version:020d}.json", (hashlib.sha256(text).hexdigest().encode(), b"\n", text))
        for name in self._names()[:-KEEP]:
            self._folder.remove(name)

    def next_generation(self) -> int:
        """Return the first version of a new controller."""
        newest = max((int(name[:20]) for name in self._names()), default=0)
        return (newest // STEPS + 1) * STEPS

    def _settings_of(self, machine: MachineConfig) -> Mapping[str, object]:
        """Return what a machine has other than the defaults."""
        known = self._settings.get(machine.name)
        if known is None or known[0] is not machine:
            table = as_table(machine)
            different = {
                name: value for name, value in table.items() if name not in _DEFAULTS or _DEFAULTS[name] != value
            }
            known = self._settings[machine.name] = machine, different
        return known[1]

    def _names(self) -> list[str]:
        return [name for name in self._folder.names() if _FILE.fullmatch(name)]


def _decode(data: bytes, where: str, shard: str | None) -> AssignmentTable:
    digest, _, text = data.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise BundleError(f"{where}: is damaged: its hash differs")
    found = json.loads(text)
    if shard is not None:
        found["assignments"] = [one for one in found["assignments"] if one["shard"] == shard]
        found["weights"] = {}
    return bind(AssignmentTable, found, where, BundleError)
