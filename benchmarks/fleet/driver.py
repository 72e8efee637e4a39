"""The program that starts a fleet and publishes what its machines send; it is killed like everything else.

    python -m benchmarks.fleet.driver WORKSPACE FIRST

It reads how many rounds it may publish from its input, and writes the number of each one to its output once all of it
is acknowledged.
"""

from __future__ import annotations

import json
import sys
import threading
from itertools import islice
from pathlib import Path

from benchmarks.fleet.streams import publish, rounds

from cgsa.errors import UnavailableError
from cgsa.fleet.local_ray import use_local_ray


def main() -> None:
    workspace, first = Path(sys.argv[1]), int(sys.argv[2])
    use_local_ray(workspace / "ray")
    # Imported here, since Ray reads its environment on import.
    from cgsa.fleet.cluster import Fleet  # noqa: PLC0415
    from cgsa.fleet.config import FleetConfig  # noqa: PLC0415
    from cgsa.fleet.log.jetstream import JetStreamLog  # noqa: PLC0415

    settings = json.loads((workspace / "driver.json").read_text(encoding="utf-8"))
    config = FleetConfig.from_table(settings["fleet"], workspace / "fleet.toml")
    allowed, more = [0], threading.Condition()

    def receive() -> None:
        for line in sys.stdin:
            with more:
                allowed[0] = int(line)
                more.notify_all()

    threading.Thread(target=receive, daemon=True).start()
    with Fleet(config) as fleet, JetStreamLog(config.log) as log:
        while True:
            try:
                fleet.start()
            except UnavailableError:
                continue
            break
        for number, records in enumerate(islice(rounds(config.machines, settings["seconds"]), first, None), first):
            with more:
                while allowed[0] <= number:
                    more.wait()
            publish(log, records)
            print(number, flush=True)


if __name__ == "__main__":
    main()
