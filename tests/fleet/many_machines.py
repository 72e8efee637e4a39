"""The pages of a fleet of 300 machines on a loopback port, for browser tests; no shard runs.

``python -m tests.fleet.many_machines FOLDER`` prints a login link and then serves.
"""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path

from cgsa.events import Case
from cgsa.fleet import remote_machine
from cgsa.fleet.assignments import AssignmentFolder
from cgsa.fleet.gateway import Gateway
from cgsa.fleet.machine_status import PublishedMachine
from cgsa.fleet.monitored_fleet import MonitoredFleet
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.results import ResultBatch, StoredResults
from cgsa.live.store import Store
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.login import login_link
from cgsa.service.server import create_server
from tests.fleet.machines import assignment, model_in, table
from tests.live.store.examples import stored_diagnosis

COUNT, ALARMS = 300, 3


def status(number: int) -> WorkerStatus:
    """Return the status of a machine; every hundredth has an alarm, and some are behind."""
    diagnosis = replace(stored_diagnosis(3).diagnosis, verdict="health", state="health", trust=None)
    found = WorkerStatus(
        f"m{number:03d}", "normal", diagnosis, "learning", float(number % 7), 0, WatchCounts(blocks=9), 10.0, None
    )
    if number % 100 == 50:
        case = Case(1, "raised", "high", "wear", ("wear",), 1.0, 1.0, raised=1, notified=1)
        found = replace(found, standing="raised", case=case, diagnosis=replace(diagnosis, verdict="wear", state="wear"))
    return found


def main(folder: Path) -> None:
    remote_machine.SILENT_SECONDS = 3600.0
    model, names = model_in(folder), [f"m{number:03d}" for number in range(COUNT)]
    assignments, states = (ObjectFolder.of(str(folder / name)) for name in ("assignments", "states"))
    AssignmentFolder(assignments).save(
        table(*(assignment(name, model, f"s{number % 8}") for number, name in enumerate(names)))
    )
    store = Store(folder / "store.sqlite")
    results = StoredResults(store)
    epochs = results.claim(dict.fromkeys(names, 1), {})
    texts = [PublishedMachine(1, 1, 0.0, (), status(number)).to_text() for number in range(COUNT)]
    results.write([ResultBatch(name, epochs[name], (), text) for name, text in zip(names, texts, strict=True)])
    # Nobody publishes anything here.
    fleet = MonitoredFleet(store, Gateway(None, lambda: names), assignments, states)  # type: ignore[arg-type]
    authenticator = Authenticator(store)
    token = authenticator.create_token("ann", "viewer")
    server = create_server(create_app(fleet, authenticator))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(login_link(f"http://127.0.0.1:{listening.getsockname()[1]}", token), flush=True)
        server.run(sockets=[listening])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
