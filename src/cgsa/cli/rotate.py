"""``cgsa bench rotate``: leave every operating condition, unit and run out of training in turn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import out, print_json, print_note, print_table, progress_bar

if TYPE_CHECKING:
    from cgsa.bench.records import Row
    from cgsa.bench.rotation.run import Rotation, RotationProgress
    from cgsa.bench.rotation.sets import RotationSet


class StreamStart(StrEnum):
    """Where the streams of a rotation start."""

    UNSEEN = "unseen"
    TRAINED = "trained"
    BOTH = "both"


Variant = Annotated[
    StreamStart,
    typer.Option(help="For [b]rotate[/b]: whether streams start at the left-out condition or at a trained one."),
]
Peers = Annotated[
    bool, typer.Option("--peers/--no-peers", help="For [b]rotate[/b]: compare with plain classifiers, too.")
]
Paper = Annotated[
    bool, typer.Option("--paper", help="For [b]rotate[/b]: compare with the paper's CGSA, too, which is slow.")
]
KnownConditions = Annotated[
    bool,
    typer.Option(
        "--known-conditions",
        help="For [b]rotate[/b]: run our model a second time with the operating conditions handed over.",
    ),
]
RotatedProfile = Annotated[
    str, typer.Option("--profile", help="For [b]rotate[/b]: profile of our model, a name or the path of a .toml file.")
]
DEFAULT_SEEDS = 3


def rotate_command(
    folder: Path,
    data: Path | None,
    names: Sequence[str],
    *,
    profile: str,
    seeds: int | None,
    variant: StreamStart,
    peers: bool,
    paper: bool,
    known_conditions: bool,
    workers: int,
    threads: int,
    device: str,
    collect_only: bool,
    json: bool,
) -> None:
    """Run a rotation, write its rows, tables and figures into ``folder``/rotate, and print the summaries."""
    from cgsa.bench.rotation.folds import VARIANTS
    from cgsa.bench.rotation.peers import PEERS
    from cgsa.bench.rotation.report import write_rotation
    from cgsa.bench.rotation.run import Rotation, collect_rotation
    from cgsa.bench.rotation.sets import find_sets

    rotation = Rotation(
        folder / "rotate",
        profile,
        peers=tuple(PEERS) if peers else (),
        paper=paper,
        seeds=seeds or DEFAULT_SEEDS,
        variants=VARIANTS if variant is StreamStart.BOTH else (variant.value,),
        device=device,
        threads=threads,
        known_conditions=known_conditions,
    )
    for name in () if collect_only else rotation.peers:
        PEERS[name].require_packages()
    sets, notes = find_sets(data, folder / "data", names)
    for note in notes:
        print_note(note)
    rows = collect_rotation(rotation, sets) if collect_only else _run_with_progress_bar(rotation, sets, workers)
    summaries = write_rotation(rotation, rows)
    if json:
        print_json([row for found in rows.values() for row in found])
        return
    for table in summaries:
        print_table(table.header, table.rows, table.name.replace("-", ", streams start "))
    out.print(f"rows: {rotation.folder / 'rows'}", soft_wrap=True)
    out.print(f"tables and figures: {rotation.folder}", soft_wrap=True)


def _run_with_progress_bar(rotation: Rotation, sets: Sequence[RotationSet], workers: int) -> dict[str, list[Row]]:
    from cgsa.bench.executors import ProcessExecutor
    from cgsa.bench.rotation.run import run_rotation

    executor = ProcessExecutor(workers or os.cpu_count() or 1, gpu=rotation.device != "cpu")
    with progress_bar() as bar:
        task = bar.add_task("folds", total=None, note="")

        def show(now: RotationProgress) -> None:
            bar.update(task, completed=now.finished, total=now.jobs, note=now.note)

        return run_rotation(rotation, sets, executor, show)
