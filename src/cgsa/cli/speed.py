"""``cgsa bench speed``: how fast the online stage is on this machine."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from cgsa.cli.console import out, print_json, progress_bar


def speed(device: str, *, json: bool) -> None:
    """Time all engines beside the literal loop, and tell how their cost grows."""
    from cgsa.bench.speed.measure import ENGINES, Setting, grow, measure

    with progress_bar() as bar:
        task = bar.add_task("engines in turn", total=None)
        speeds = measure(
            Setting(batches=42), device=device, report=lambda done, total: bar.update(task, completed=done, total=total)
        )
        growth = []
        for engine in ENGINES:
            bar.update(task, description=f"what more costs {engine}", completed=0, total=None)
            growth += grow(engine, device=device)
    if json:
        print_json({"engines": [asdict(one) for one in speeds], "growth": [asdict(one) for one in growth]})
        return
    table = Table(
        "engine",
        "windows/s",
        "x literal",
        "of the limit",
        "p50, ms",
        "p99, ms",
        "memory, MB",
        title="One stream, the paper's network and batch",
    )
    for one in speeds:
        table.add_row(
            one.engine,
            f"{one.windows_per_second:.0f}",
            f"{one.ratio:.2f}",
            f"{one.share:.0%}",
            f"{one.p50_ms:.1f}",
            f"{one.p99_ms:.1f}",
            f"{one.memory_mb:.0f}",
        )
    out.print(table)
    costs = Table("engine", "what", "value", "x the paper's", title="Cost of a window")
    for more in growth:
        costs.add_row(more.engine, more.what, str(more.value), f"{more.cost:.2f}")
    out.print(costs)
