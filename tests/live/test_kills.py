"""A service that is killed repeatedly gives the same results and ends in the same state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).parents[2] / "benchmarks" / "kills.py"


def test_a_service_killed_repeatedly_gives_the_results_of_one_that_was_not() -> None:
    command = [sys.executable, str(KILLS), "--kills", "8", "--seconds", "16"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 8
    assert found["refused_blocks"] > 0  # blocks sent twice were used once
    assert found["differences"] == []
    assert found["learnt"] > 5000
