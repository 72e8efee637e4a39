"""How plain, SupCon, DANN, CAL and CGSA fare on the simulated rigs, with the paper's figures beside ours.

For every rig and trial each objective is trained once, and every method meets
the stream of each fault twice: on an assembly that was trained on, as in the
paper, and on one that no training saw. Rows go to a JSON file, from which the
Markdown table is made.

    python benchmarks/core_table.py run --rig gearbox --trials 3 --out results.json
    python benchmarks/core_table.py table results.json > table.md
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from cgsa.config import parse_assignments
from cgsa.data.library import FolderLibrary
from cgsa.data.scenario import Scenario
from cgsa.data.simulation import carry_out_all, scenario_orders
from cgsa.metrics.stream import score
from cgsa.profiles import Profile
from cgsa.workflow import meet, stream_windows, train, training_windows

WATCHED = 1
"""Specimen whose stream is met, as in the paper one that was trained on; one more is kept from all training."""

ROWS: dict[str, tuple[str, str, dict[str, object]]] = {
    "Baseline": ("plain", "source", {}),
    "SupCon": ("supcon", "source", {}),
    "DANN": ("dann", "source", {}),
    "CAL": ("cal", "source", {}),
    "CAL+CF": ("cal", "cgsa", {"by_residual": False}),
    "CAL+RCG": ("cal", "cgsa", {"by_confidence": False}),
    "CGSA": ("cal", "cgsa", {}),
}
"""Row of the table: objective, online method and what differs from its settings."""

PAPER = {
    "gearbox": {
        "Baseline": 0.779,
        "SupCon": 0.815,
        "DANN": 0.862,
        "CAL": 0.868,
        "CAL+CF": 0.903,
        "CAL+RCG": 0.910,
        "CGSA": 0.918,
    },
    "motor": {"SupCon": 0.810, "CGSA": 0.907},
}
"""Total average accuracy on the real recordings: tables III, IV and VI of the paper."""

Record = dict[str, object]


def one_training(what: tuple[str, str, int], options: argparse.Namespace, data: Path) -> list[Record]:
    """Train one model (rig, objective, seed) and let every method that starts from it meet every stream."""
    rig, objective, seed = what
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    device = best_device()
    profile = Profile.load(options.profile, parse_assignments(options.set))
    scenario = Scenario.load(rig)
    fresh = options.specimens + 1
    library = FolderLibrary(data / rig, train_on=range(1, fresh))
    windows = training_windows(scenario, profile, library, device)
    begin = time.monotonic()
    bundle = train(scenario, profile, windows, objective=objective, seed=seed)
    seconds = time.monotonic() - begin
    history = bundle.training["history"]
    last = history[-1] if isinstance(history, list) else {}
    records: list[Record] = []
    for specimen in (WATCHED, fresh):
        for fault in scenario.faults:
            stream = stream_windows(bundle, scenario, fault, library, specimen=specimen, device=device)
            for row, (trained_by, method, settings) in ROWS.items():
                if trained_by == objective:
                    started = time.monotonic()
                    figures = score(meet(bundle, stream, method, profile, settings=settings))
                    records.append(
                        {
                            "rig": rig,
                            "row": row,
                            "fault": fault,
                            "trained_on": specimen != fresh,
                            "seed": seed,
                            "train_windows": len(windows),
                            "train_seconds": seconds,
                            "stream_seconds": time.monotonic() - started,
                            "last_epoch": last,
                            "notes": bundle.manifest.notes,
                            **asdict(figures),
                        }
                    )
    return records


def best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def run(options: argparse.Namespace) -> None:
    begin = time.monotonic()
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(options.data or folder)
        scenarios = [Scenario.load(rig) for rig in options.rig]
        orders = [
            order for plan in scenarios for order in scenario_orders(plan, data / plan.name, options.specimens + 1)
        ]
        carry_out_all([order for order in orders if not order.path.exists()], options.simulators)
        say(begin, f"{len(orders)} runs simulated")
        trainings = [
            (rig, objective, seed)
            for seed in range(options.trials)
            for rig in options.rig
            for objective in options.objective
        ]
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(one_training, what, options, data): what for what in trainings}
            for done in as_completed(waiting):
                rows = done.result()
                records += rows
                means = {}
                for row in dict.fromkeys(str(record["row"]) for record in rows):
                    chosen = [r for r in rows if r["row"] == row and r["trained_on"]]
                    means[row] = round(mean_of(chosen, "average_accuracy"), 3)
                say(begin, f"{waiting[done]} trained in {rows[0]['train_seconds']:.0f} s: {means}")
    about = {
        "profile": options.profile,
        "set": options.set,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if best_device() == "cuda" else "cpu",
        "command": "python benchmarks/core_table.py "
        + " ".join(sys.argv[1:]).replace(options.out, Path(options.out).name),
    }
    Path(options.out).write_text(json.dumps({"about": about, "records": records}, indent=0))
    print(markdown([Path(options.out)]))


def say(begin: float, text: str) -> None:
    print(f"{time.monotonic() - begin:6.0f} s  {text}", flush=True)


def mean_of(records: Sequence[Record], key: str) -> float:
    return float(np.mean([float(str(record[key])) for record in records]))


def markdown(paths: Sequence[Path]) -> str:
    """Return the tables of one or more result files."""
    files = [json.loads(path.read_text()) for path in paths]
    records: list[Record] = [record for file in files for record in file["records"]]
    lines = [
        f"`{file['about']['command']}` (torch {file['about']['torch']}, {file['about']['device']})\n" for file in files
    ]
    for rig in dict.fromkeys(str(record["rig"]) for record in records):
        plan = Scenario.load(rig)
        for trained_on in (True, False):
            chosen = [r for r in records if r["rig"] == rig and r["trained_on"] is trained_on]
            known = "an assembly that was trained on" if trained_on else "an assembly that no training saw"
            lines += [f"### {rig}, stream of {known}\n", *table(chosen, plan, PAPER[rig] if trained_on else {})]
    return "\n".join(lines)


def table(records: Sequence[Record], plan: Scenario, paper: dict[str, float]) -> list[str]:
    """Return one Markdown table: stage accuracies by fault, total average with its spread over trials, and ECE."""
    stages = [f"{stage.name} ({stage.level:g} {plan.condition.unit})" for stage in plan.online]
    head = [
        "",
        *stages,
        *(fault.replace("_", " ") for fault in plan.faults),
        "total average",
        "ECE",
        "learnt from",
        "paper",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in ROWS:
        mine = [record for record in records if record["row"] == row]
        if not mine:
            continue
        by_stage = np.mean([np.asarray(record["stage_accuracy"], dtype=float) for record in mine], axis=0)
        by_fault = [mean_of([r for r in mine if r["fault"] == fault], "average_accuracy") for fault in plan.faults]
        trials = [
            mean_of([r for r in mine if r["seed"] == seed], "average_accuracy")
            for seed in sorted({int(str(record["seed"])) for record in mine})
        ]
        rates = [float(str(r["acceptance_rate"])) for r in mine if r["acceptance_rate"] is not None]
        cells = [
            row,
            *(f"{value:.3f}" for value in (*by_stage, *by_fault)),
            f"**{np.mean(trials):.3f}** ± {np.std(trials):.3f}",
            f"{mean_of(mine, 'ece'):.3f}",
            f"{np.mean(rates):.3f}" if rates else "",
            f"{paper[row]:.3f}" if row in paper else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    doing = commands.add_parser("run", help="train, stream and write the rows")
    doing.add_argument("--rig", nargs="+", default=["gearbox", "motor"])
    doing.add_argument("--objective", nargs="+", default=["plain", "supcon", "dann", "cal"])
    doing.add_argument("--trials", type=int, default=3)
    doing.add_argument("--specimens", type=int, default=3, help="assemblies of each class to train on")
    doing.add_argument("--tf32", action="store_true", help="let the GPU multiply matrices in TF32")
    doing.add_argument("--profile", default="paper")
    doing.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    doing.add_argument("--workers", type=int, default=1, help="trainings at once")
    doing.add_argument("--simulators", type=int, default=2, help="simulations at once")
    doing.add_argument("--data", help="folder to keep the simulated runs in")
    doing.add_argument("--out", default="core_table.json")
    doing.set_defaults(call=run)
    telling = commands.add_parser("table", help="make the Markdown tables out of rows")
    telling.add_argument("results", nargs="+", type=Path)
    telling.set_defaults(call=lambda options: print(markdown(options.results)))
    options = parser.parse_args()
    call = options.call
    del options.call  # what is left goes to other processes, and a function of this script cannot
    call(options)


if __name__ == "__main__":
    main()
