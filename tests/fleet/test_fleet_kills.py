"""A fleet that is killed piece by piece gives the results of a single process over the same log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from cgsa.fleet.log.nats_server import NatsServer

ROOT = Path(__file__).parents[2]


def test_a_fleet_killed_piece_by_piece_gives_the_results_of_one_process(nats_server: NatsServer) -> None:
    options = ["--machines", "4", "--shards", "2", "--kills", "1", "--seconds", "8"]
    # In a process of its own: Ray reads its environment when it is imported.
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fleet_kills", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
    assert done.returncode == 0, done.stderr[-5000:] + done.stdout
    # Ray writes there, too.
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["differences"] == []
    assert sum(found["kills"].values()) == 6
    assert found["learnt"] > 5000
    assert found["blocks"] == 4 * 77
