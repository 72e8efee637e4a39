"""A service that is killed again and again says and becomes what it would have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).parents[2] / "benchmarks" / "kills.py"


def test_lives_that_are_killed_leave_what_one_long_life_leaves() -> None:
    command = [sys.executable, str(KILLS), "--kills", "8", "--seconds", "16"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == 8
    assert found["refused_blocks"] > 0  # what was sent twice was taken once
    assert found["differences"] == []
    assert found["learnt"] > 5000
