"""``cgsa export``: write a model for a computer without torch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cgsa.cli.console import AsJson, Model, Set, out, print_json, print_note


def export_command(
    bundle: Model,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FOLDER", help="Folder for model, settings and runner.")],
    check: Annotated[
        list[Path] | None,
        typer.Option(
            "--check",
            metavar="RECORDING",
            help="Recording of the machine on which torch and the exported model must agree; may be repeated. By "
            "default synthetic signals are used.",
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Frozen online method: commissioning, source, reference or change.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Settings to start from, as for [b]cgsa train[/b]; default: those that suit the model."),
    ] = None,
    changes: Set = None,
    *,
    healthy_start: Annotated[
        bool, typer.Option("--healthy-start", help="The machine is known to be healthy when the runner starts.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Export a model with its settings and a runner that needs numpy and onnxruntime alone.

    The exported model is compared with torch before it is written, and refused if a probability differs by more than
    1e-5.
    """
    from cgsa.config import parse_assignments
    from cgsa.edge.requirements import require_onnx

    require_onnx()
    from cgsa.data.readers import read_recording
    from cgsa.edge.package import export_package
    from cgsa.live.signal_diagnoser import DiagnosisConfig
    from cgsa.nn.bundle import ModelBundle
    from cgsa.profile import Profile, profile_of
    from cgsa.workflow import matching_channels, with_healthy_start

    model = ModelBundle.load(bundle)
    settings = Profile.load(profile or profile_of(model.manifest), parse_assignments(changes or []))
    config = DiagnosisConfig.from_profile(settings, method)
    if healthy_start:
        config = with_healthy_start(config)
    signals = None if check is None else (matching_channels(read_recording(path), model).signal for path in check)
    report = export_package(model, config, onnx, signals)
    if json:
        print_json(asdict(report))
        return
    parity = report.parity
    what = "windows of recordings" if parity.recorded else "synthetic windows; --check compares recordings"
    out.print(f"{report.kind} model, method {report.method}: {report.folder}, {report.bytes / 1e6:.1f} MB")
    out.print(
        f"largest difference from torch: {parity.probability:.1e} in a probability, {parity.distance:.1e} in a "
        f"distance, on {parity.windows} {what}"
    )
    out.print(f"to torch in single precision, as in cgsa watch: {parity.single:.1e}; {parity.verdicts} verdicts differ")
    out.print(f"run it: python {onnx / 'run.py'} RECORDING", soft_wrap=True)
    if model.manifest.ensemble is not None and model.manifest.ensemble.speed is not None:
        print_note("the runner gets no operating conditions: the members in orders are left out")
