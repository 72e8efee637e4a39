"""``cgsa methods``, ``cgsa scenarios`` and ``cgsa info``: the available choices, and the contents of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, Model, out, print_json, print_table
from cgsa.cli.preflight import files_values, print_files


def methods_command(*, json: AsJson = False) -> None:
    """List the training objectives and the online methods."""
    from cgsa.offline import OBJECTIVES
    from cgsa.online import METHODS

    found = [("offline", name, OBJECTIVES[name].summary, sorted(OBJECTIVES[name].needs)) for name in OBJECTIVES]
    found += [("online", name, METHODS[name].summary, sorted(METHODS[name].needs)) for name in METHODS]
    if json:
        print_json([dict(zip(("stage", "name", "summary", "needs"), row, strict=True)) for row in found])
        return
    rows = [(stage, f"[b]{name}[/b]", summary, ", ".join(needs)) for stage, name, summary, needs in found]
    print_table(("stage", "name", "summary", "needs"), rows)


def scenarios_command(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A scenario by name or as a .toml file: list the files that it needs."),
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """List the built-in scenarios: the training data of a model and the stream it then runs on.

    With a scenario, list the recordings that it needs in a folder [b]--data[/b],
    by the names that the data set gives them, each with the segments (such as T1)
    and stages (such as C1) that are cut out of it.

    The files of scenarios are plain TOML: copy one, edit it, and pass its path
    instead of a name.
    """
    from cgsa.config import as_table
    from cgsa.data.needed_files import needed_files
    from cgsa.data.scenario import Scenario, builtin_scenarios

    if scenario is not None:
        chosen = Scenario.load(scenario)
        files = needed_files(chosen)
        if json:
            print_json({**as_table(chosen), "files": files_values(files)})
        else:
            out.print(f"{chosen.name}: {chosen.title}", soft_wrap=True)
            print_files(files)
        return
    found = {name: (Scenario.load(name), path) for name, path in builtin_scenarios().items()}
    if json:
        print_json([{**as_table(one), "file": str(path)} for one, path in found.values()])
        return
    rows = [
        (f"[b]{name}[/b]", one.title, one.machine or "none", ", ".join(one.classes)) for name, (one, _) in found.items()
    ]
    print_table(("scenario", "title", "rig", "classes"), rows)
    # One line for all: a column would truncate every path.
    out.print(f"files: {next(iter(builtin_scenarios().values())).parent}", soft_wrap=True)


def info_command(
    bundle: Model,
    card: Annotated[Path | None, typer.Option(help="Write the model's card, a self-contained HTML page, here.")] = None,
    *,
    json: AsJson = False,
) -> None:
    """Check a bundle and show its accuracy where it was not trained, and what it was trained on."""
    from cgsa.cli.card import card_values, print_card
    from cgsa.cli.train import held_out_line, last_epoch
    from cgsa.config import as_table
    from cgsa.nn.bundle import ModelBundle
    from cgsa.nn.mlp import count_parameters

    model = ModelBundle.load(bundle)
    manifest = model.manifest
    parameters = {}
    if manifest.ensemble is None and manifest.change is None:
        parameters["F and G"] = count_parameters(model.network)
    if model.discriminator is not None:
        parameters["mean branch of D"] = count_parameters(model.discriminator.mean)
    last = last_epoch(model)
    if card is not None:
        from cgsa.report.card import card_page

        card_page(manifest, str(bundle)).write(card)
    if json:
        print_json({**card_values(manifest), "model": as_table(manifest), "parameters": parameters, "last_epoch": last})
        return
    print_card(manifest, details=True)
    table = Table(title=str(bundle), show_header=False)
    calibration = manifest.calibration if manifest.assessment is None else None
    rows = {
        **({} if calibration is None else {"held-out accuracy": held_out_line(calibration)}),
        "classes": ", ".join(manifest.classes),
        "channels": ", ".join(f"{name} ({unit})" for name, unit in zip(manifest.channels, manifest.units, strict=True)),
        "sample rate": f"{manifest.sample_rate:g} Hz",
        "window": f"{manifest.window.length} samples, step {manifest.window.step}",
        "condition" if len(manifest.conditions) == 1 else "conditions": "; ".join(
            f"{one.name}, {one.minimum:g} to {one.maximum:g} {one.unit}" for one in manifest.conditions
        ),
        "trained": f"{manifest.objective} on scenario {manifest.scenario}, seed {manifest.seed}",
    }
    if manifest.ensemble is not None:
        weights = zip(manifest.ensemble.members, model.require_ensemble().pool.tolist(), strict=True)
        rows |= (
            {} if manifest.assessment else {"weights": "; ".join(f"{name} {weight:.3f}" for name, weight in weights)}
        )
    elif manifest.change is None:
        rows["parameters"] = ", ".join(f"{name} {count:,}" for name, count in parameters.items())
        if model.discriminator is not None:
            usual = manifest.usual_deviation
            rows["gate of CGSA"] = "unknown: trained by an older version" if usual is None else usual.describe()
        rows["last epoch"] = ", ".join(f"{k} {v:.4g}" for k, v in last.items() if isinstance(v, int | float))
    rows |= {
        "notes": "; ".join(manifest.notes) or "none",
    }
    for name, value in rows.items():
        table.add_row(f"[b]{name}[/b]", value)
    out.print(table)
    if card is not None:
        out.print(f"card in {card}", soft_wrap=True)
