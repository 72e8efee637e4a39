"""Tables and single samples need no package of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.machines import ensemble_bundle

SCRIPT = """
import sys
for name in ("pandas", "polars", "river"):
    sys.modules[name] = None
import numpy as np
import cgsa
machine = cgsa.load(sys.argv[1])
print(len(machine.predict(np.random.default_rng(0).standard_normal((2, 400)))))
watch = cgsa.StreamClassifier(machine)
watch.learn_one({"a": 0.0, "b": 0.0})
cgsa.CgsaClassifier()
"""


def test_a_machine_runs_without_pandas_polars_and_river(tmp_path: Path) -> None:
    ensemble_bundle().save(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "model")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "18"), done.stderr
