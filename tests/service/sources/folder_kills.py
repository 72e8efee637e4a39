"""Kills a service that watches a folder, again and again, and prints what its journal then holds.

Run as a program: a process can be forked safely only while it has one thread.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.worker import WorkerConfig
from cgsa.service.sources.folder import FolderConfig, FolderSource
from tests.machines import bundle
from tests.service.sources.recordings import START, drop

FILES, SAMPLES = 5, 1000


def serve(folder: Path, *, to_the_end: bool) -> None:
    """Watch the folder until the process is killed, or until all files were taken."""
    torch.set_num_threads(1)
    config = FolderConfig(
        folder=str(folder / "inbox"),
        machine="m1",
        complete="renamed",
        processed="move",
        poll_seconds=0.01,
        block_seconds=0.02,
        start="modified",
    )

    async def main(plant: Plant) -> None:
        source = FolderSource(plant, config)
        running = asyncio.create_task(source.run())
        while not to_the_end or any(path.is_file() for path in (folder / "inbox").iterdir()):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        running.cancel()

    with Plant(folder / "plant", threads=1, config=WorkerConfig(checkpoint_seconds=0.1)) as plant:
        plant.add(MachineConfig("m1", folder / "model", profile="paper"))
        asyncio.run(main(plant))
        plant.wait_until_idle()
        counts = plant.worker("m1").status().counts
    print(json.dumps(vars(counts)), flush=True)


def main(folder: Path) -> None:
    """Kill the service at random moments, then let it finish."""
    bundle().save(folder / "model")
    for number in range(FILES):
        drop(folder / "inbox", f"{number:02}.parquet", SAMPLES, number, START + 60 * number)
    choose = random.Random(0)  # noqa: S311 - no secret
    for _ in range(5):
        child = os.fork()
        if child == 0:
            serve(folder, to_the_end=False)
            os._exit(0)
        time.sleep(choose.uniform(0.1, 0.5))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    serve(folder, to_the_end=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
