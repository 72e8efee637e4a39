"""The literal twin of a fleet: one process applies the records of the log, one after the other, to a fresh watch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.machine_log import MachineLog
from cgsa.live.plant import MachineConfig
from cgsa.live.results import add_results
from cgsa.live.store import Store
from cgsa.live.watch import Watch
from cgsa.nn.bundle import ModelBundle


def apply_log(
    log: ReplayableLog, machines: Iterable[MachineConfig], store: Store, *, source: MachineLog | None = None
) -> Mapping[str, Watch]:
    """Fill a store with the results of machines, and return their watches as they are in the end.

    ``source`` has the records of a shadow.
    """
    final = {}
    for machine in machines:
        bundle = ModelBundle.load(Path(machine.bundle))
        watch = Watch(machine.name, bundle, machine.watch_config(bundle), model=bundle.sha256)
        records = log.read(machine.name, 0) if source is None else source.read(source.begin)
        for record in records:
            add_results(store, machine.name, record.position, watch.apply(record))
        final[machine.name] = watch
    store.flush()
    return final
