"""What all commands share: consoles, progress bars and common options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

# Results go to standard output, messages and progress to standard error: a pipe receives results only.
out = Console(highlight=False)
talk = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON for other programs.")]
Profile = Annotated[
    str,
    typer.Option(
        help="Settings to start from: [b]recommended[/b], [b]paper[/b], [b]quick[/b], [b]robust[/b], or the path of a "
        ".toml file."
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that [b]cgsa train[/b] wrote.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as train.epochs=20; may be repeated."),
]
Seed = Annotated[int, typer.Option(help="Same seed, same results.")]
Device = Annotated[
    str, typer.Option(help="Where to compute: [b]cpu[/b], [b]cuda[/b], or [b]auto[/b] for a GPU if there is one.")
]


@contextmanager
def recording_progress() -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar; the callback receives how many recordings are done, how many there are, and the last one."""
    with progress_bar() as bar:
        task = bar.add_task("recordings", total=None, note="")
        yield lambda done, total, name: bar.update(task, completed=done, total=total, note=Path(name).stem)


def print_page(html: Path | None) -> None:
    """Print where the page is, if one was written."""
    if html is not None:
        out.print(f"page: {html}", soft_wrap=True)


def print_json(value: object) -> None:
    """Print one JSON value on one line."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def pick_device(name: str) -> str:
    """Return the device to use; ``auto`` is a GPU if there is one."""
    import torch

    from cgsa.errors import ConfigError

    available = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if available else "cpu"
    kind, _, index = name.partition(":")
    if kind not in {"cpu", "cuda"} or (index and not index.isdecimal()):
        raise ConfigError(f"--device {name}: unknown device; use cpu, cuda, cuda:1 or auto")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"--device {name}: torch finds {torch.cuda.device_count() or 'no'} GPU here; use cpu or auto")
    return name


def print_note(text: str) -> None:
    """Print something that the user should know, on standard error."""
    talk.print(f"[yellow]note:[/] {escape(text)}", soft_wrap=True)


def print_table(header: Iterable[str], rows: Iterable[Iterable[str]], title: str | None = None) -> None:
    """Print a table of text cells."""
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def progress_bar() -> Progress:
    """Show progress on standard error if that is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=talk, disable=not talk.is_terminal)
