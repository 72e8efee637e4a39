"""``cgsa bench speed``: the speed of the online stage on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table

from cgsa.cli.console import out, print_json, progress_bar


def speed_command(device: str, machines: Sequence[int], *, json: bool) -> None:
    """Time all engines and the literal loop, fleets of machines, and the cost of a window for other streams."""
    from cgsa.bench.speed.fleet import FLEETS, measure_fleet
    from cgsa.bench.speed.measure import ENGINES, Setting, grow, measure

    kind = device.split(":", maxsplit=1)[0]
    # A GPU is timed over the paper's stream of 93 batches, a CPU over a few batches at a time.
    setting, turn = (Setting(batches=2 + 5 * 93), 93) if kind == "cuda" else (Setting(batches=42), 5)
    with progress_bar() as bar:
        task = bar.add_task("engines in turn", total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        speeds = measure(setting, turn=turn, device=device, report=report)
        fleets = []
        for count in machines or FLEETS[kind]:
            bar.update(task, description=f"{count} machines at once", completed=0, total=None)
            fleets.append(measure_fleet(count, device=device, report=report))
        growth = []
        for engine in ENGINES[kind]:
            bar.update(task, description=f"cost of a window with {engine}", completed=0, total=None)
            growth += grow(engine, device=device)
    if json:
        engines, many, costs = ([asdict(one) for one in found] for found in (speeds, fleets, growth))
        print_json({"engines": engines, "fleets": many, "growth": costs})
        return
    columns = "engine", "windows/s", "x literal", "share of limit", "p50, ms", "p99, ms", "memory, MB"
    table = Table(*columns, title="One stream, the paper's network and batch")
    for one in speeds:
        rates = f"{one.windows_per_second:.0f}", f"{one.ratio:.2f}", f"{one.share:.0%}"
        table.add_row(one.engine, *rates, f"{one.p50_ms:.1f}", f"{one.p99_ms:.1f}", f"{one.memory_mb:.0f}")
    out.print(table)
    of_fleets = "machines", "windows/s", "x real time", "ms per step", "MB per machine"
    table = Table(*of_fleets, title="Fleets of machines, one student each")
    for fleet in fleets:
        rates = f"{fleet.windows_per_second:.0f}", f"{fleet.times_real_time:.2f}", f"{fleet.step_ms:.1f}"
        table.add_row(str(fleet.machines), *rates, f"{fleet.memory_mb:.0f}")
    out.print(table)
    table = Table("engine", "what", "value", "x paper's setting", title="Cost of a window")
    for more in growth:
        table.add_row(more.engine, more.what, str(more.value), f"{more.cost:.2f}")
    out.print(table)
