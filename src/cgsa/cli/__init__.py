"""The command line: ``cgsa import | train | evaluate | watch | serve | demo | simulate | bench | ...``.

Heavy imports happen inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Diagnose machines under operating conditions nobody trained for.\n\n"
        "First steps, with nothing to download:\n\n"
        "  [b]cgsa demo[/b]                            simulate, train, diagnose\n\n"
        "  [b]cgsa serve --demo[/b]                    simulated machines, live\n\n"
        "With recordings of your own machine:\n\n"
        "  [b]cgsa import data/ machine/[/b]           a data set from a folder\n\n"
        "  [b]cgsa train machine/ model/[/b]           a model, and its accuracy\n\n"
        "  [b]cgsa evaluate model/ machine/[/b]        verdicts, alarms, delays\n\n"
        "  [b]cgsa watch model/ new.csv[/b]            verdicts over time\n\n"
        "  [b]cgsa serve model/ --machine press-1[/b]  live, with a dashboard"
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


COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "First steps": {
        "demo": demo.demo_command,
        "simulate": simulate.simulate_command,
    },
    "Your own machine": {
        "import": importing.import_command,
        "check": check.check_command,
        "train": train.train_command,
        "info": info.info_command,
        "evaluate": evaluate.evaluate_command,
        "watch": stream.stream_command,
        "explain": explain.explain_command,
        "ledger": ledger.ledger_command,
        "export": export.export_command,
    },
    "Live service": {
        "serve": serve.serve_command,
        "fleet": fleet.fleet_command,
        "token": token.token_command,
        "maintenance": maintenance.maintenance_command,
        "report": serve.report_command,
        "collect": collect.collect_command,
        "compare": compare.compare_command,
        "reload": reload.reload_command,
        "backup": backup.backup_command,
        "restore": backup.restore_command,
        "sign": serve.sign_command,
    },
    "Research": {
        "methods": info.methods_command,
        "scenarios": info.scenarios_command,
        "bench": bench.bench_command,
        "tune": tune.tune_command,
    },
}
"""The commands by the panels of ``cgsa --help``."""

for _panel, _commands in COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)
# The former name of the same command.
app.command("stream", hidden=True)(stream.stream_command)


def main() -> None:
    """Run the command line; expected errors print one message and no traceback."""
    try:
        app(prog_name="cgsa")
    except CgsaError as error:
        talk.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        talk.print("stopped; the same command resumes where it can")
        sys.exit(130)
