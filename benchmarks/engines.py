"""Do the fast engines of CGSA give the verdicts of the reference? Trained models on the streams of the rigs.

    cgsa train gearbox runs/cal/gearbox --data runs/data/gearbox
    python benchmarks/engines.py runs/cal/gearbox runs/data/gearbox --engines literal mixed
    python benchmarks/engines.py runs/cal/gearbox runs/data/gearbox --engines graph fleet --device cuda

The reference is the engine `float32`. For the stream of every fault, the script prints the share of windows with the
same verdict and the stage-mean accuracy of both engines. `literal` is Algorithm 1 in plain PyTorch, the baseline of
all speed ratios. `fleet` treats the streams of all faults and assemblies as the machines of one fleet; each is also
compared with the same machine by itself, in a fleet of one and under `graph`. The last line of a stream compares two
runs of the reference that differ in the last bit of one weight in a thousand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from cgsa.bench.speed.literal import LiteralLoop
from cgsa.bench.tables import Table
from cgsa.config import bind
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows
from cgsa.metrics.stream import StreamTrace, score
from cgsa.nn.bundle import ModelBundle
from cgsa.online.cgsa import Cgsa, CgsaConfig
from cgsa.online.fleet import StudentFleet
from cgsa.profile import Profile
from cgsa.workflow import stream_windows

BATCH = 256
PERTURBED_EVERY = 1000
"""One weight in this many is moved to the next floating-point number."""


def run_alone(bundle: ModelBundle, windows: Windows, engine: str, device: str) -> Tensor:
    """Return the class probabilities of all windows of a stream."""
    settings = Profile.load("paper").method_settings("cgsa")
    if engine == "literal":
        loop = LiteralLoop(bundle, bind(CgsaConfig, settings, "literal loop"), device)
        # An index, not a slice: the windows share no memory.
        batches = torch.arange(len(windows)).tensor_split(range(BATCH, len(windows), BATCH))
        return torch.cat([loop.step(windows.gather(some).to(device))[0] for some in batches]).cpu()
    method = Cgsa(bundle, {**settings, "engine": engine}, device=device)
    return torch.cat([method.step(x).probabilities for _, x in windows.batches(BATCH)]).cpu()


def run_as_fleet(bundle: ModelBundle, streams: dict[str, Windows], device: str) -> dict[str, Tensor]:
    """Return the class probabilities of all streams, processed as one fleet."""
    fleet = StudentFleet(bundle, Profile.load("paper").method_settings("cgsa"), device=device)
    outputs: dict[str, list[Tensor]] = {name: [] for name in streams}
    for name in streams:
        fleet.join(name)
    for begin in range(0, max(map(len, streams.values())), BATCH):
        batches = {
            name: windows.gather(slice(begin, min(begin + BATCH, len(windows))))
            for name, windows in streams.items()
            if begin < len(windows)
        }
        for name, output in fleet.step(batches).on_host().items():
            outputs[name].append(output.probabilities)
    return {name: torch.cat(parts) for name, parts in outputs.items()}


def perturbed(bundle: ModelBundle) -> ModelBundle:
    """Return the model with the last bit of some weights changed."""
    network = deepcopy(bundle.network)
    with torch.no_grad():
        for parameter in network.parameters():
            some = parameter.view(-1)[::PERTURBED_EVERY]
            some.copy_(torch.nextafter(some, torch.tensor(torch.inf)))
    return replace(bundle, model=network)


def accuracy(windows: Windows, probabilities: Tensor) -> float:
    """Return the mean over the stages of the share of correctly classified windows."""
    trace = StreamTrace(
        windows.labels.numpy(),
        windows.stages.numpy(),
        probabilities.numpy(),
        accepted=None,
        evidence={},
        batch_size=BATCH,
    )
    return score(trace).average_accuracy


def rows(options: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Compare all engines on all streams; yield one row per pair."""
    bundle = ModelBundle.load(options.bundle)
    scenario = Scenario.load(bundle.manifest.scenario)
    library = open_library(options.data, scenario)
    streams = {
        f"{fault} {specimen}": stream_windows(bundle, scenario, fault, library, specimen=specimen)
        for fault in scenario.faults
        for specimen in options.specimens
    }
    runs: dict[str, dict[str, Tensor]] = {}
    for engine in ("float32", *options.engines):
        if engine == "fleet":
            runs[engine] = run_as_fleet(bundle, streams, options.device)
        else:
            runs[engine] = {
                name: run_alone(bundle, windows, engine, options.device) for name, windows in streams.items()
            }
        print(f"{engine} done", flush=True)
    runs["float32, 0.1 % of weights perturbed"] = {
        name: run_alone(perturbed(bundle), windows, "float32", options.device) for name, windows in streams.items()
    }
    for name, windows in streams.items():
        reference = runs["float32"][name]
        for engine, outputs in runs.items():
            if engine == "float32":
                continue
            before, after = accuracy(windows, reference), accuracy(windows, outputs[name])
            to_graph, to_one = "-", "-"
            if engine == "fleet":
                one = run_as_fleet(bundle, {name: windows}, options.device)[name]
                to_one = "all bits" if torch.equal(one, outputs[name]) else f"{_equal(one, outputs[name]):.4f}"
                to_graph = f"{_equal(runs['graph'][name], outputs[name]):.4f}" if "graph" in runs else "-"
            yield (
                scenario.name,
                name,
                engine,
                f"{_equal(reference, outputs[name]):.4f}",
                f"{before:.4f}",
                f"{after:.4f}",
                f"{after - before:+.4f}",
                to_one,
                to_graph,
            )


def _equal(one: Tensor, other: Tensor) -> float:
    """Return the share of windows with the same verdict."""
    return float((one.argmax(dim=1) == other.argmax(dim=1)).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--engines", nargs="+", default=["mixed"], choices=["literal", "mixed", "graph", "fleet"])
    parser.add_argument("--specimens", nargs="+", type=int, default=[1])
    parser.add_argument("--device", default="cpu")
    head = (
        "rig",
        "stream",
        "engine",
        "equal verdicts",
        "float32",
        "engine's",
        "difference",
        "to a fleet of one",
        "to graph",
    )
    print(Table("engines", head, tuple(rows(parser.parse_args()))).markdown())


if __name__ == "__main__":
    main()
