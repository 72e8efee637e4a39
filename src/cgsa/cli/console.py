"""What the commands share: where they print, their progress bars and common options."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

# Results go to standard output; talk and progress go to standard error, so that a pipe gets results alone.
out = Console(highlight=False)
talk = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON for other programs.")]
Profile = Annotated[
    str, typer.Option(help="Settings to start from: [b]paper[/b], [b]quick[/b], or the path of a .toml file.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as train.epochs=20; may be repeated."),
]
Seed = Annotated[int, typer.Option(help="Same seed, same numbers.")]
Device = Annotated[str, typer.Option(help="Where to compute: [b]cpu[/b], [b]cuda[/b], or [b]auto[/b] for the best.")]


def print_json(value: object) -> None:
    """Print one JSON value on one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def pick_device(name: str) -> str:
    """Return the device to use; ``auto`` takes a GPU where there is one."""
    import torch

    from cgsa.errors import ConfigError

    available = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if available else "cpu"
    if name.startswith("cuda") and not available:
        raise ConfigError(f"--device {name}: torch finds no GPU on this machine; use cpu or auto")
    return name


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show progress on standard error; nothing where that is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=talk, disable=not talk.is_terminal) as bar:
        yield bar
