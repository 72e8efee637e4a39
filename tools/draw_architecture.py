"""Draw the two pictures of ``docs/architecture.md``: the packages with their layers, and the data flow.

    python -m tools.draw_architecture [FOLDER]

The layers are read from ``pyproject.toml``, where import-linter checks them.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.drawing import ACCENT, BOX, FAINT, WIDTH, arrow, box, picture, text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CONTENTS = {
    "cli": "one file per command",
    "service": "API, sources, sinks, dashboard",
    "fleet": "shards on Ray, replayable log",
    "bench": "plans, runs, tables, figures",
    "report": "HTML reports of streams and periods",
    "estimators": "Machine, scikit-learn, single samples",
    "evaluation": "a model on labelled recordings",
    "workflow": "train, run_method, diagnose",
    "live": "SignalDiagnoser, watch, alarms, journal, store",
    "explain": "named lines, bands, contributions",
    "edge": "export to ONNX, and a runner without torch",
    "diagnosis": "Diagnoser: method + decision + trust",
    "ledger": "one row per window, with its reason",
    "profile": "settings of a whole run: paper, quick, robust",
    "decide": "filter, unknown, alarm",
    "online": "one file per method",
    "offline": "one file per objective",
    "engines": "the same steps, faster; the plain engine is the reference",
    "metrics": "accuracy, ECE, delay, cost",
    "nn": "networks, losses, ModelBundle",
    "check": "one file per check of recordings",
    "rigs": "simulated gearbox and motor",
    "data": "Recording, readers, Windows, Scenario",
    "config": "TOML",
    "events": "one schema",
    "registry": "names",
    "files": "atomic writes",
    "errors": "what went wrong, where, what is right",
}
"""What each package holds."""
ROW, MARGIN = 54, 20


def layers() -> list[list[str]]:
    """Return the packages of each layer, top layer first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    [found] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [[package.strip().removeprefix("cgsa.") for package in layer.split("|")] for layer in found]


def draw_packages() -> str:
    """Return the picture of the packages: a package may import only from layers below it."""
    parts, inner = [], WIDTH - 2 * MARGIN - 40
    rows = layers()
    for number, packages in enumerate(rows):
        top, width = MARGIN + number * ROW, inner / len(packages)
        for place, package in enumerate(packages):
            left = MARGIN + 40 + place * width
            parts += [
                box(left + 3, top + 3, width - 6, ROW - 6, BOX),
                text(left + width / 2, top + 23, package, size=16, weight="bold"),
                text(left + width / 2, top + 41, CONTENTS[package], size=12 if len(packages) < 4 else 11, colour=FAINT),
            ]
    bottom = MARGIN + len(rows) * ROW
    parts += [
        arrow([(MARGIN + 18, MARGIN + 6), (MARGIN + 18, bottom - 6)]),
        f'<g transform="translate({MARGIN + 8},{bottom / 2}) rotate(-90)">{text(0, 0, "may import", size=13)}</g>',
    ]
    return picture(parts, bottom + MARGIN, "Packages of cgsa, layer by layer, as pyproject.toml lists them")


Step = tuple[str, str, str]
TRAINING: Sequence[Step] = (
    ("file | rig", "data/readers | rigs", "labelled"),
    ("Recording", "data/recording.py", "signal, rate, conditions"),
    ("Windows", "data/windows.py", "views of raw samples"),
    ("train", "workflow.py, offline", "an objective"),
    ("ModelBundle", "nn/bundle.py", "safetensors + JSON"),
)
INTAKE: Sequence[Step] = (
    ("file | live source", "data | service/sources", "no labels"),
    ("Recording | Block", "data | live/intake", "samples in order"),
    ("Windower", "live/intake/windower.py", "batches of windows"),
    ("QualityGate", "live/intake/quality.py", "rejects sensor faults"),
    ("Diagnoser", "diagnosis/diagnoser.py", "method + decision + trust"),
)
OUTPUT: Sequence[Step] = (
    ("event, ledger rows", "events.py, ledger", "one per batch, per window"),
    ("alarms", "live/alarms.py", "one open case per machine"),
    ("store", "live/store", "SQLite"),
    ("report | dashboard", "report | service", "and API, MQTT, webhook"),
)


def draw_data_flow() -> str:
    """Return the picture of the data flow: training above, diagnosis below."""
    parts, step, height = [], (WIDTH - 2 * MARGIN) / 5, 74
    tops = (50, 190, 330)

    def row(steps: Sequence[Step], top: float, first: int = 0) -> None:
        for number, (title, where, what) in enumerate(steps, start=first):
            left = MARGIN + number * step
            parts.append(box(left + 8, top, step - 16, height, BOX))
            parts.append(text(left + step / 2, top + 24, title, size=14, weight="bold"))
            parts.append(text(left + step / 2, top + 43, where, size=11, colour=FAINT))
            parts.append(text(left + step / 2, top + 60, what, size=11, colour=FAINT))
            if number > first:
                parts.append(arrow([(left - 8, top + height / 2), (left + 8, top + height / 2)]))

    def centre(number: int) -> float:
        return MARGIN + (number + 0.5) * step

    parts += [
        text(MARGIN + 8, 34, "Training, once", size=14, anchor="start", colour=ACCENT),
        text(MARGIN + 8, 176, "Diagnosis, as long as the machine runs", size=14, anchor="start", colour=ACCENT),
    ]
    row(TRAINING, tops[0])
    row(INTAKE, tops[1])
    row(OUTPUT, tops[2], first=1)
    parts += [
        arrow([(centre(4), tops[0] + height), (centre(4), tops[1])]),
        arrow([(centre(4), tops[1] + height), (centre(4), 297), (centre(1), 297), (centre(1), tops[2])]),
    ]
    title = "From a file or a live source through windows, quality gate and Diagnoser to events, store and reports"
    return picture(parts, 430, title)


PICTURES = {"architecture-packages.svg": draw_packages, "architecture-data-flow.svg": draw_data_flow}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")
