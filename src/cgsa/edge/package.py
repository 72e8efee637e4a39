"""Writes the package of an exported model: graphs, description and runner, once they are checked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path

from cgsa import __version__
from cgsa.data.recording import FloatArray
from cgsa.edge.description import compared_start, describe_package
from cgsa.edge.model_graphs import graphs_of
from cgsa.edge.parity import ParityReport, check_parity
from cgsa.edge.runner.package import DESCRIPTION
from cgsa.errors import BundleError
from cgsa.files import replacing
from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.nn.bundle import ModelBundle

RUNNER, RUN = "runner", "run.py"
START = '''"""Diagnoses recordings with the model in this folder: python run.py RECORDING [--json]."""

import sys

from runner.command import run

sys.exit(run())
'''
REQUIREMENTS = "numpy>=1.26\nonnxruntime>=1.18\n"


@dataclass(frozen=True)
class ExportReport:
    """What was written."""

    folder: str
    kind: str
    method: str
    bytes: int
    """Size of all files."""
    parity: ParityReport


def export_package(
    bundle: ModelBundle, config: DiagnosisConfig, folder: Path, signals: Iterable[FloatArray] | None = None
) -> ExportReport:
    """Write a model for a runner without torch.

    Parameters
    ----------
    bundle, config
        The model, and how the machine is watched with it; the method must be a frozen one.
    folder
        Replaced as a whole if it holds an earlier package.
    signals
        Samples of the machine, (channels, samples) each, on which torch and the graphs must agree; by default synthetic
        ones are used.
    """
    if folder.exists() and not (folder / DESCRIPTION).is_file():
        raise BundleError(f"{folder}: exists and is no exported model; choose another folder")
    described, graphs = describe_package(bundle, config), graphs_of(bundle, compared_start(bundle, config))
    described |= {
        "cgsa": __version__,
        "bundle_sha256": bundle.sha256,
        "sha256": {name: sha256(content).hexdigest() for name, content in graphs.items()},
    }
    with replacing(folder, BundleError) as fresh:
        (fresh / RUNNER).mkdir(parents=True)
        for name, content in graphs.items():
            (fresh / name).write_bytes(content)
        for source in resources.files("cgsa.edge.runner").iterdir():
            if source.name.endswith(".py"):
                (fresh / RUNNER / source.name).write_bytes(source.read_bytes())
        (fresh / RUN).write_text(START, encoding="utf-8")
        (fresh / "requirements.txt").write_text(REQUIREMENTS, encoding="utf-8")
        (fresh / DESCRIPTION).write_text(json.dumps(described), encoding="utf-8")
        # The files themselves are checked, as the runner will read them.
        report = check_parity(bundle, fresh, signals)
        described["parity"] = asdict(report)
        (fresh / DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        size = sum(path.stat().st_size for path in fresh.rglob("*") if path.is_file())
    return ExportReport(str(folder), described["kind"], config.method, size, report)
