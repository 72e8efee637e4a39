"""``cgsa info``: what a bundle holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, out, print_json


def info_command(
    bundle: Annotated[Path, typer.Argument(help="A model that [b]cgsa train[/b] wrote.")], *, json: AsJson = False
) -> None:
    """Check a bundle and tell what is in it: classes, channels, network, training and its last figures."""
    from cgsa.cli.train import last_epoch
    from cgsa.config import as_table
    from cgsa.nn.bundle import ModelBundle
    from cgsa.nn.mlp import count_parameters

    model = ModelBundle.load(bundle)
    about = model.manifest
    parameters = {"F and G": count_parameters(model.network)}
    if model.discriminator is not None:
        parameters["mean branch of D"] = count_parameters(model.discriminator.mean)
    last = last_epoch(model)
    if json:
        print_json({"model": as_table(about), "parameters": parameters, "last_epoch": last})
        return
    table = Table(title=str(bundle), show_header=False)
    rows = {
        "classes": ", ".join(about.classes),
        "channels": ", ".join(f"{name} ({unit})" for name, unit in zip(about.channels, about.units, strict=True)),
        "sample rate": f"{about.sample_rate:g} Hz",
        "window": f"{about.window.length} samples, step {about.window.step}",
        "condition" if len(about.conditions) == 1 else "conditions": "; ".join(
            f"{one.name}, {one.minimum:g} to {one.maximum:g} {one.unit}" for one in about.conditions
        ),
        "parameters": ", ".join(f"{name} {count:,}" for name, count in parameters.items()),
        "trained": f"{about.objective} on scenario {about.scenario}, seed {about.seed}",
        "last epoch": ", ".join(f"{k} {v:.4g}" for k, v in last.items() if isinstance(v, int | float)),
        "notes": "; ".join(about.notes) or "none",
    }
    for name, value in rows.items():
        table.add_row(f"[b]{name}[/b]", value)
    out.print(table)
