"""``cgsa info``: the contents of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json


def info_command(
    bundle: Annotated[Path, typer.Argument(help="A model that [b]cgsa train[/b] wrote.")], *, json: AsJson = False
) -> None:
    """Check a bundle and show its classes, channels, network, training and last training metrics."""
    from cgsa.cli.train import last_epoch
    from cgsa.config import as_table
    from cgsa.nn.bundle import ModelBundle
    from cgsa.nn.mlp import count_parameters

    model = ModelBundle.load(bundle)
    manifest = model.manifest
    parameters = {"F and G": count_parameters(model.network)}
    if model.discriminator is not None:
        parameters["mean branch of D"] = count_parameters(model.discriminator.mean)
    last = last_epoch(model)
    if json:
        print_json({"model": as_table(manifest), "parameters": parameters, "last_epoch": last})
        return
    table = Table(title=str(bundle), show_header=False)
    rows = {
        "classes": ", ".join(manifest.classes),
        "channels": ", ".join(f"{name} ({unit})" for name, unit in zip(manifest.channels, manifest.units, strict=True)),
        "sample rate": f"{manifest.sample_rate:g} Hz",
        "window": f"{manifest.window.length} samples, step {manifest.window.step}",
        "condition" if len(manifest.conditions) == 1 else "conditions": "; ".join(
            f"{one.name}, {one.minimum:g} to {one.maximum:g} {one.unit}" for one in manifest.conditions
        ),
        "parameters": ", ".join(f"{name} {count:,}" for name, count in parameters.items()),
        "trained": f"{manifest.objective} on scenario {manifest.scenario}, seed {manifest.seed}",
        "last epoch": ", ".join(f"{k} {v:.4g}" for k, v in last.items() if isinstance(v, int | float)),
        "notes": "; ".join(manifest.notes) or "none",
    }
    for name, value in rows.items():
        table.add_row(f"[b]{name}[/b]", value)
    out.print(table)
