"""Draw the figures of docs/robust.md from models of the plan ``robust`` and their training recordings.

    cgsa bench robust runs
    python benchmarks/pictures.py runs docs/images --rig gearbox

1. The effect of a healthy reference: the same windows of several assemblies with and without it, in the plane that best
   separates the classes of the training data.
2. The stream of an assembly absent from training, from windows to verdict and alarm.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario
from cgsa.data.windows import Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.metrics.accuracy import DoubleArray, IntArray
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.reference import median_reference
from cgsa.online.reference import Reference
from cgsa.profile import Profile
from cgsa.report.figures import COLOURS
from cgsa.workflow import stream_windows

TRAINED, UNSEEN = (1, 2, 3), 4
MARKERS = ("o", "s", "^", "*")
DRAWN_PER_CLASS = 60
"""Windows drawn per class and assembly."""


def features_of(bundle: ModelBundle, windows: Windows) -> Tensor:
    """Return the features of all windows."""
    with torch.no_grad():
        return torch.cat([bundle.network.frontend(x) for _, x in windows.batches(2048)])


def plane(points: DoubleArray, labels: IntArray) -> tuple[DoubleArray, DoubleArray]:
    """Return the centre and the two directions that best separate the classes, scaled to unit within-class spread."""
    centre = points.mean(axis=0)
    means = np.stack([points[labels == label].mean(axis=0) for label in np.unique(labels)])
    within = np.cov((points - means[labels]).T) + 1e-2 * np.eye(points.shape[1])
    values, vectors = np.linalg.eigh(within)
    whitening = vectors / np.sqrt(values)
    _, _, directions = np.linalg.svd((means - centre) @ whitening)
    return centre, whitening @ directions[:2].T


def reference_picture(scenario: Scenario, bundle: ModelBundle, streams: Sequence[Sequence[Windows]]) -> Figure:
    """Draw windows of all assemblies, with the general reference and with the reference of their machine."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    general = bundle.require_reference()
    sides: list[list[Tensor]] = [[], []]
    labels, machines = [], []
    for machine, mine in enumerate(streams):
        features = torch.cat([features_of(bundle, windows) for windows in mine])
        found = torch.cat([windows.labels for windows in mine])
        count = round(0.5 * mine[0].sample_rate / mine[0].spec.step)
        own = median_reference(features[:count])
        for side, reference in zip(sides, (general, own), strict=True):
            side.append(features - reference)
        labels.append(found)
        machines.append(torch.full_like(found, machine))
    label, machine_of = torch.cat(labels).numpy(), torch.cat(machines).numpy()
    rng = np.random.default_rng(0)
    for axis, side, title in zip(
        figure.subplots(1, 2), sides, ("less the mean of all machines", "less the machine's own reference"), strict=True
    ):
        points = torch.cat(side).double().numpy()
        trained = machine_of < len(TRAINED)
        centre, directions = plane(points[trained], label[trained])
        flat = (points - centre) @ directions
        for number, marker in enumerate(MARKERS):
            for index, name in enumerate(scenario.classes):
                rows = np.flatnonzero((machine_of == number) & (label == index))
                rows = rng.choice(rows, min(DRAWN_PER_CLASS, len(rows)), replace=False)
                new = number == len(TRAINED)
                axis.scatter(
                    *flat[rows].T,
                    s=34 if new else 9,
                    marker=marker,
                    color=COLOURS[index],
                    edgecolors="black" if new else "none",
                    linewidths=0.4,
                    alpha=0.9 if new else 0.5,
                    label=name if number == 0 else None,
                    zorder=3 if new else 2,
                )
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.axes[0].legend(fontsize=8, loc="best")
    figure.suptitle(f"{scenario.name}: three assemblies from training (dots), and one absent from it (stars)")
    return figure


def stream_picture(scenario: Scenario, bundle: ModelBundle, windows: Windows, fault: str) -> Figure:
    """Draw a stream from windows to verdict and alarm."""
    trace = run_stream(Diagnoser(Reference(bundle)), windows, batch_size=256)
    decision = DecisionMaker(Profile.load("robust").decide, bundle.manifest)
    decided = decide_afterwards(trace, decision)
    time = np.arange(len(trace.label)) * windows.spec.step / windows.sample_rate
    onset = float(time[np.argmax(trace.label > 0)])
    figure = Figure(figsize=(10, 8), layout="constrained")
    windows_axis, far, verdict, alarm = figure.subplots(4, 1, sharex=True)
    some = np.arange(0, len(time), max(1, len(time) // 3000))
    windows_axis.plot(time[some], trace.prediction[some], ".", markersize=2, color=COLOURS[1])
    windows_axis.step(time, trace.label, color="black", linewidth=1, where="post", label="truth")
    windows_axis.set_yticks(range(len(scenario.classes)), scenario.classes, fontsize=8)
    windows_axis.set_ylabel("windows")
    far.semilogy(time[some], trace.evidence["distance"][some], ".", markersize=2, color="#888888")
    far.axhline(decision.distance_limit or 1.0, color=COLOURS[0], linewidth=1, label="limit of known states")
    far.set_ylabel("distance")
    for axis, beliefs, name in (
        (verdict, decided.posterior, "verdict"),
        (alarm, decided.alarm_posterior, "alarm belief"),
    ):
        for index, state in enumerate(decision.states):
            axis.plot(time, beliefs[:, index].numpy(), linewidth=1.2, color=COLOURS[index % len(COLOURS)], label=state)
        axis.set_ylim(-0.03, 1.03)
        axis.set_ylabel(name)
    raised = np.flatnonzero(decided.alarm.numpy())
    if len(raised):
        alarm.axvspan(float(time[raised[0]]), float(time[-1]), color=COLOURS[0], alpha=0.12, label="alarm active")
    for axis in (windows_axis, far, verdict, alarm):
        axis.axvline(onset, color="black", linestyle="--", linewidth=1)
        axis.margins(x=0)
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    alarm.set_xlabel("stream time in s")
    figure.suptitle(f"{scenario.name}, an assembly absent from training: {fault} from the dashed line on")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--rig", default="gearbox")
    parser.add_argument("--fault")
    parser.add_argument("--trial", type=int, default=0)
    options = parser.parse_args()
    scenario = Scenario.load(options.rig)
    bundle = ModelBundle.load(options.runs / "models" / f"{options.rig}-plain-{options.trial}")
    library = open_library(options.runs / "data" / options.rig, scenario)
    streams = [
        [stream_windows(bundle, scenario, fault, library, specimen=specimen) for fault in scenario.faults]
        for specimen in (*TRAINED, UNSEEN)
    ]
    fault = options.fault or scenario.faults[0]
    pictures = {
        "reference": reference_picture(scenario, bundle, streams),
        "watch": stream_picture(scenario, bundle, streams[-1][scenario.faults.index(fault)], fault),
    }
    for name, figure in pictures.items():
        figure.savefig(options.images / f"robust-{name}-{options.rig}.png", dpi=110)


if __name__ == "__main__":
    main()
