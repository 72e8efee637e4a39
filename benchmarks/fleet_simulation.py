"""What becomes of 100,000 machines when nodes fail? The real controller and placement, in simulated time.

    python -m benchmarks.fleet_simulation --output runs/fleet_simulation
    python -m benchmarks.publish measurements runs

For each number of machines a fleet starts on as many nodes as the capacity model (``benchmarks/capacity.py``) wants,
spreads by measured load, and loses nodes: one beside a spare node, one without, and one in twenty at once. The script
notes how late verdicts are and until when, how much is processed again, and what is not learnt from. In the end every
machine must have one owner and nothing that waits.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from benchmarks.capacity import CHECKPOINT_SECONDS, EXAMPLES, fitted_model
from benchmarks.fleet.capacity_model import CapacityModel
from benchmarks.fleet.simulated_cluster import ClusterTimes, MachineCost, SimulatedCluster
from benchmarks.result_files import Result, read_folder, read_lines, write_result
from matplotlib.figure import Figure

from cgsa.bench.tables import Table
from cgsa.fleet.controller import ControllerConfig

RESULTS = Path(__file__).parent / "results"
CAPACITY = RESULTS / "measurements" / "capacity.jsonl"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
CORES = 32
UTILISATION = 0.6
"""Share of a core that its machines need with adaptation; the rest is for what waits after a failure."""
CHECK_SECONDS = 10.0
SPREAD_TIME, FAILURE_TIME, END_TIME, STEP = 60.0, 120.0, 420.0, 1.0
LATE = 5.0
"""Seconds of signal that wait, above which a machine counts as late."""
SPARE, NO_SPARE, MANY = "one node, a spare one", "one node, no spare", "one node in twenty, no spare"


@dataclass(frozen=True)
class SimulatedRun:
    """What happened to one fleet."""

    machines: int
    failure: str
    nodes: int
    failed_nodes: int
    shards: int
    affected: int
    """Machines on the nodes that failed."""
    longest_lag: float
    """Most seconds of signal that waited for any machine."""
    affected_lag: float
    """The same, median over the affected machines."""
    late_others: int
    """Machines on other nodes that were late."""
    recovery: float
    """Seconds from the failure until no machine was late."""
    replayed: float
    """Seconds of signal that were processed again, per affected machine."""
    not_learnt: float
    """Seconds for which learning was shed, per affected machine."""
    moved: int
    """Machines that are on another shard than before."""
    table_bytes: int
    cores: float
    """Cores per 1,000 machines, spare ones included."""
    log_rate: float
    """Bytes per second that gateways publish."""
    read_rate: float
    """Most bytes per second that shards read."""


def simulate(machines: int, failure: str, model: CapacityModel, seed: int = 0) -> SimulatedRun:
    """Run one fleet through a failure."""
    costs, log_bytes = machine_costs(model, machines, seed)
    wanted = sum(one.learning for one in costs) / UTILISATION
    nodes = math.ceil(wanted / CORES)
    failed = max(1, nodes // 20) if failure == MANY else 1
    spares = 1 if failure == SPARE or nodes == 1 else 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = SimulatedCluster(
            Path(folder),
            costs,
            nodes=nodes,
            spares=spares,
            cores=CORES,
            config=ControllerConfig(check_seconds=CHECK_SECONDS),
            times=ClusterTimes(),
        )
        cluster.start()
        run_until(cluster, SPREAD_TIME)
        cluster.controller.rebalance()
        run_until(cluster, FAILURE_TIME)
        before = cluster.owner.copy()
        cluster.fail(range(failed))
        affected = np.flatnonzero(cluster.owner < 0)
        longest, shed = cluster.lag, np.zeros(machines)
        last_late = read_rate = 0.0
        while cluster.now < END_TIME:
            processed = cluster.processed.copy()
            cluster.step(STEP)
            longest, shed = np.maximum(longest, cluster.lag), shed + STEP * cluster.shedding
            last_late = cluster.now - FAILURE_TIME if (cluster.lag > LATE).any() else last_late
            read_rate = max(read_rate, float(((cluster.processed - processed) * log_bytes).sum()) / STEP)
        assert_complete(cluster)
        table_bytes = max(file.stat().st_size for file in Path(folder).glob("*.json"))
        cluster.controller.close()
    return SimulatedRun(
        machines=machines,
        failure=failure,
        nodes=nodes,
        failed_nodes=failed,
        shards=nodes * CORES,
        affected=len(affected),
        longest_lag=float(longest.max()),
        affected_lag=float(np.median(longest[affected])),
        late_others=int((np.delete(longest, affected) > LATE).sum()),
        recovery=last_late,
        replayed=cluster.replayed / len(affected),
        not_learnt=float(shed[affected].mean()),
        moved=int((cluster.owner != before).sum()),
        table_bytes=table_bytes,
        cores=(nodes + spares) * CORES / machines * 1000,
        log_rate=float(log_bytes.sum()),
        read_rate=read_rate,
    )


def run_until(cluster: SimulatedCluster, end: float) -> None:
    """Let time pass up to a moment."""
    while cluster.now < end:
        cluster.step(STEP)


def assert_complete(cluster: SimulatedCluster) -> None:
    """Fail if a machine has no owner, or another one than the table says, or if something of it still waits."""
    shards = {name: shard.number for name, shard in cluster.shards.items()}
    table = cluster.controller.table.by_machine
    wrong = [name for name, number in cluster.numbers.items() if shards[table[name].shard] != cluster.owner[number]]
    if wrong or (cluster.lag > LATE).any():
        late = int((cluster.lag > LATE).sum())
        raise RuntimeError(f"{len(wrong)} machines are not where the table says, {late} are late at the end")


def machine_costs(model: CapacityModel, count: int, seed: int) -> tuple[list[MachineCost], np.ndarray]:
    """Return the costs of machines of the four kinds, each up to a fifth off, and their bytes of log per second."""
    rng, costs, log_bytes = np.random.default_rng(seed), [], []
    for setup in EXAMPLES.values():
        save = model.predict("state_cpu", setup)
        learning = model.load(replace(setup, learns=True), CHECKPOINT_SECONDS)
        diagnosis = model.load(replace(setup, learns=False), CHECKPOINT_SECONDS)
        costs.append((learning if setup.learns else diagnosis, diagnosis, save))
        log_bytes.append(model.predict("log", setup))
    kinds, factors = rng.integers(len(costs), size=count), rng.uniform(0.8, 1.2, count)
    found = [
        MachineCost(factor * costs[kind][0], factor * costs[kind][1], costs[kind][2])
        for kind, factor in zip(kinds, factors, strict=True)
    ]
    return found, np.array(log_bytes)[kinds]


def table_of(results: Sequence[Result]) -> Table:
    """Return the table of all runs."""
    rows = tuple(
        (
            f"{one['machines']:,}",
            f"{one['failure']}",
            f"{one['nodes']}",
            f"{one['affected']:,}",
            f"{one['affected_lag']:.0f}",
            f"{one['longest_lag']:.0f}",
            f"{one['recovery']:.0f}",
            f"{one['late_others']:,}",
            f"{one['replayed']:.1f}",
            f"{one['not_learnt']:.0f}",
            f"{one['moved']:,}",
        )
        for one in ordered(results)
    )
    head = (
        "machines",
        "what fails",
        f"nodes of {CORES} cores",
        "machines there",
        "their lag, s (median)",
        "longest lag, s",
        "recovery, s",
        "others late",
        "processed again, s",
        "not learnt from, s",
        "moved",
    )
    return Table("fleet_simulation", head, rows)


def costs_table(results: Sequence[Result]) -> Table:
    """Return what fleets cost, without a failure."""
    rows = tuple(
        (
            f"{one['machines']:,}",
            f"{one['nodes']}",
            f"{one['cores']:.1f}",
            f"{one['log_rate'] / 1e6:,.0f}",
            f"{one['read_rate'] / 1e6:,.0f}",
            f"{one['table_bytes'] / 1e6:.2f}",
        )
        for one in ordered(results)
        if one["failure"] == SPARE
    )
    head = (
        "machines",
        f"nodes of {CORES} cores",
        "cores per 1,000 machines, with the spare",
        "log, MB/s",
        "read after a failure, MB/s",
        "table, MB",
    )
    return Table("fleet_simulation_costs", head, rows)


def ordered(results: Sequence[Result]) -> list[Result]:
    """Return results by failure and size."""
    return sorted(results, key=lambda one: ((SPARE, NO_SPARE, MANY).index(one["failure"]), one["machines"]))


def draw(results: Sequence[Result]) -> Figure:
    """Return lag, recovery and cost against the number of machines."""
    panels = (
        ("affected_lag", "lag of machines of lost nodes, s"),
        ("recovery", "recovery, s"),
        ("cores", "cores per 1,000 machines"),
    )
    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    for axis, (name, text) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for failure in (SPARE, NO_SPARE, MANY):
            runs = [one for one in ordered(results) if one["failure"] == failure]
            axis.plot([one["machines"] for one in runs], [one[name] for one in runs], marker="o", label=failure)
        axis.set(xscale="log", xlabel="machines", ylabel=text)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.axes[-1].legend(frameon=False, fontsize="small")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/fleet_simulation"))
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    options = parser.parse_args()
    model = fitted_model(read_lines(CAPACITY))
    for size in options.sizes:
        for number, failure in enumerate((SPARE, NO_SPARE, MANY)):
            file = options.output / f"{size:06d}-{number}.json"
            if not file.exists():
                begun = time.perf_counter()
                write_result(file, asdict(simulate(size, failure, model)))
                print(f"{size} machines, {failure}: {time.perf_counter() - begun:.0f} s", flush=True)
    found = read_folder(options.output)
    print(table_of(found).markdown())
    print(costs_table(found).markdown())


if __name__ == "__main__":
    main()
