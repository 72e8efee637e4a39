"""Five minutes of ``benchmarks/faults``; the hour that it takes to try more combinations is left to that script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_no_fault_of_the_surroundings_changes_a_verdict_or_loses_a_block() -> None:
    command = [sys.executable, "-m", "benchmarks.faults", "--machines", "16", "--seconds", "300", "--speed", "60"]
    done = subprocess.run(
        [*command, "--patience", "0.2"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["lost"] == []
    assert found["differences"] == []
    assert found["stopped"] == []
    assert found["untold"] == []
    names = {"full disk", "EIO", "EMFILE", "full store", "killed process", "garbage", "half-open connections"}
    assert names | {"wrong tokens", "greedy readers"} <= found["struck"].keys()
    assert found["acknowledged"] > 16 * 300
    assert found["diagnoses"] > 2000
    assert done.returncode == 0
