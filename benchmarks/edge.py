"""How much computation does a second of signal need? The models of the plan ``edge`` against the paper's student.

    cgsa bench edge runs
    python benchmarks/edge.py runs/models runs/data/gearbox

All models process the stream of one gearbox fault on one core, in turns, so that other load on the computer affects all
of them alike. CGSA learns from all windows, which is its highest cost. The script prints the cost of a second of signal
relative to the paper's network and step under the engine ``float32`` in the same run. The plan has the accuracies.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from cgsa.bench.plan import Plan, PlanEntry, TrainingJob
from cgsa.bench.speed.measure import EVERYTHING, Setting
from cgsa.bench.tables import Table
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows, WindowSpec
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.mlp import count_parameters
from cgsa.online.base import OnlineMethod
from cgsa.profile import Profile
from cgsa.workflow import create_method

SCENARIO = "gearbox"
WARM_UP, TURN, TURNS = 3, 3, 8


@dataclass
class Runner:
    """One model and its position in the stream."""

    name: str
    method: OnlineMethod
    windows: Windows
    batch: int
    weights: int
    seconds: list[float] = field(default_factory=list)
    """One entry per batch."""

    def take_turn(self, batches: range) -> None:
        """Process some batches and time each one; a short stream starts again at its end."""
        whole = len(self.windows) // self.batch
        for number in batches:
            begin = number % whole * self.batch
            begun = time.perf_counter()
            self.method.step(self.windows.gather(slice(begin, begin + self.batch)))
            self.seconds.append(time.perf_counter() - begun)

    @property
    def load(self) -> float:
        """Seconds of computation per second of signal."""
        return float(np.median(self.seconds)) * self.windows.sample_rate / (self.batch * self.windows.spec.step)


def runner_of_entry(plan: Plan, entry: PlanEntry, models: Path, streams: dict[WindowSpec, Windows]) -> Runner:
    """Return the model of an entry's first trial, ready for its stream."""
    profile = plan.profile_of(SCENARIO, entry.profile)
    bundle = ModelBundle.load(models / TrainingJob(SCENARIO, entry.objective, 0, entry.profile).key)
    settings = EVERYTHING if entry.method == "cgsa" else {}
    method = create_method(bundle, entry.method, profile, settings=settings)
    weights = count_parameters(bundle.network)
    return Runner(entry.name, method, streams[profile.window], profile.stream.batch_size, weights)


def runner_of_paper(engine: str, stream: Windows) -> Runner:
    """Return the paper's student, untrained: the values of the weights do not affect the speed."""
    bundle = Setting().bundle()
    method = create_method(bundle, "cgsa", Profile.load("paper"), settings={"engine": engine, **EVERYTHING})
    return Runner(f"the paper's, `{engine}`", method, stream, Setting().batch, count_parameters(bundle.network))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    plan, scenario = Plan.load("edge"), Scenario.load(SCENARIO)
    segments = scenario.stream_segments(open_library(options.data, scenario), scenario.faults[0])
    specs = {plan.profile_of(SCENARIO, entry.profile).window for entry in plan.entries} | {WindowSpec()}
    streams = {spec: Windows(segments, spec) for spec in specs}
    runners = [runner_of_paper(engine, streams[WindowSpec()]) for engine in ("float32", "mixed")]
    runners += [runner_of_entry(plan, entry, options.models, streams) for entry in plan.entries]
    for runner in runners:
        runner.take_turn(range(WARM_UP))
        runner.seconds.clear()
    for turn in range(TURNS):
        for runner in runners:
            runner.take_turn(range(WARM_UP + turn * TURN, WARM_UP + (turn + 1) * TURN))
    paper = runners[0].load
    rows = tuple(
        (
            one.name,
            f"{one.weights:,}",
            f"{one.windows.sample_rate / one.windows.spec.step:.0f}",
            f"{one.load / paper:.4f}",
            f"{paper / one.load:.1f}",
        )
        for one in runners
    )
    columns = ("model", "weights", "windows per second", "cost of a second of signal", "x cheaper")
    print(Table("edge", columns, rows).markdown())


if __name__ == "__main__":
    main()
