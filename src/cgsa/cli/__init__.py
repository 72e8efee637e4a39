"""The command line: ``cgsa import | train | evaluate | watch | serve | demo | simulate | bench | ...``.

Heavy imports happen inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.markup import escape

from cgsa import __version__
from cgsa.cli import (
    backup,
    bench,
    check,
    collect,
    compare,
    demo,
    evaluate,
    explain,
    export,
    fleet,
    importing,
    info,
    ledger,
    maintenance,
    reload,
    serve,
    simulate,
    stream,
    token,
    train,
    tune,
)
from cgsa.cli.console import out, talk
from cgsa.errors import CgsaError

# PyTorch's idle threads spin, which slows down the busy ones. This shortens the spinning; it must be set before PyTorch
# is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "30000")

app = typer.Typer(
    name="cgsa",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help=(
        "Diagnose machines under operating conditions nobody trained for.\n\n"
        "First steps, with nothing to download:\n\n"
        "  [b]cgsa demo[/b]                              simulate, train and diagnose in one go\n\n"
        "  [b]cgsa serve --demo[/b]                      three simulated machines on a dashboard\n\n"
        "  [b]cgsa simulate gearbox runs/rig[/b]         recordings of a simulated gearbox\n\n"
        "  [b]cgsa train gearbox runs/model --data runs/rig[/b]\n\n"
        "  [b]cgsa watch runs/model runs/rig/specimen_1/gear_wear_H_torque_circulation_1000rpm_20Nm.parquet[/b]\n\n"
        "With recordings of your own machine:\n\n"
        "  [b]cgsa import data/ machine/[/b]             a data set from a folder of files\n\n"
        "  [b]cgsa train machine/ model/[/b]             a model, and its accuracy where it was not trained\n\n"
        "  [b]cgsa evaluate model/ machine/[/b]          verdicts, alarms and delays on recordings\n\n"
        "  [b]cgsa watch model/ new.csv[/b]              verdicts over time\n\n"
        "  [b]cgsa serve model/ --machine press-1[/b]    live, with a dashboard and alarms"
    ),
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - Typer passes the value of the option by position
    if asked:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    del version


app.command("simulate")(simulate.simulate_command)
app.command("import")(importing.import_command)
app.command("check")(check.check_command)
app.command("train")(train.train_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("watch")(stream.stream_command)
# The former name of the same command.
app.command("stream", hidden=True)(stream.stream_command)
app.command("explain")(explain.explain_command)
app.command("export")(export.export_command)
app.command("ledger")(ledger.ledger_command)
app.command("demo")(demo.demo_command)
app.command("serve")(serve.serve_command)
app.command("fleet")(fleet.fleet_command)
app.command("collect")(collect.collect_command)
app.command("compare")(compare.compare_command)
app.command("token")(token.token_command)
app.command("maintenance")(maintenance.maintenance_command)
app.command("reload")(reload.reload_command)
app.command("backup")(backup.backup_command)
app.command("restore")(backup.restore_command)
app.command("report")(serve.report_command)
app.command("sign")(serve.sign_command)
app.command("bench")(bench.bench_command)
app.command("tune")(tune.tune_command)
app.command("methods")(info.methods_command)
app.command("scenarios")(info.scenarios_command)
app.command("info")(info.info_command)


def main() -> None:
    """Run the command line; expected errors print one message and no traceback."""
    try:
        app()
    except CgsaError as error:
        talk.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        talk.print("stopped; the same command resumes where it can")
        sys.exit(130)
