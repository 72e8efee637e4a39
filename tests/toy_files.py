"""The toy machine as files: a scenario, a profile, recordings and a plan, for whatever starts from a path."""

from __future__ import annotations

from pathlib import Path

from cgsa.data.readers.parquet import write_parquet
from tests.machines import ToyLibrary

RUNS = {"low": "torque_circulation_1000rpm_10Nm", "high": "torque_circulation_1000rpm_20Nm"}

SCENARIO = f"""
name = "toy"
title = "A toy machine"
machine = "toy"
healthy = "health"
faults = ["wear", "crack"]
channels = ["a", "b"]
sample_rate = 1000
[condition]
name = "torque"
unit = "Nm"
minimum = 0
maximum = 10
tolerance = 0.5
[[offline]]
name = "T1"
run = "{RUNS["low"]}"
ramp = [0, 10]
[[offline]]
name = "T2"
run = "{RUNS["low"]}"
level = 10
seconds = 2
[[online]]
name = "C1"
run = "{RUNS["high"]}"
level = 20
seconds = 2
[[online]]
name = "C2"
run = "{RUNS["high"]}"
level = 15
seconds = 2
fault_from = 0.5
"""

PROFILE = """
[window]
length = 32
step = 4
[network]
hidden = [24, 12, 8]
tap = 8
[train]
step = 8
epochs = 8
batch_size = 64
[stream]
batch_size = 64
[objective.cal]
lr = 3e-3
"""

PLAN = """
name = "toy plan"
scenarios = ["{folder}/toy.toml"]
profile = "{folder}/profile.toml"
trials = 2

[[entries]]
name = "Baseline"
objective = "plain"
method = "source"

[[entries]]
name = "CGSA"
objective = "cal"
method = "cgsa"
settings = {{ tau = 0.5, min_confidence = 0.5 }}
"""


def write_toy(folder: Path) -> Path:
    """Write all of it into ``folder``: toy.toml, profile.toml, plan.toml and data/toy/."""
    (folder / "toy.toml").write_text(SCENARIO)
    (folder / "profile.toml").write_text(PROFILE)
    (folder / "plan.toml").write_text(PLAN.format(folder=folder))
    for state in ("health", "wear", "crack"):
        for key, run in RUNS.items():
            recording = ToyLibrary().get(state, key, severity="H", specimen=1)
            name = f"{state}_{run}" if state == "health" else f"{state}_H_{run}"
            write_parquet(recording, folder / "data" / "toy" / f"{name}.parquet")
    return folder
