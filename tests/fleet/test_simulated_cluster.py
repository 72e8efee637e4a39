"""The simulation of a large fleet, at a small size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.fleet.simulated_cluster import ClusterTimes, MachineCost, SimulatedCluster
from benchmarks.fleet_simulation import assert_complete

from cgsa.fleet.controller import ControllerConfig

COST = MachineCost(learning=0.05, diagnosis=0.03, take_over=0.01)


def cluster_in(folder: Path, *, nodes: int = 3, spares: int = 0, machines: int = 60) -> SimulatedCluster:
    return SimulatedCluster(
        folder,
        [COST] * machines,
        nodes=nodes,
        spares=spares,
        cores=2,
        config=ControllerConfig(check_seconds=2.0, lost_seconds=30.0),
        times=ClusterTimes(),
    )


def run(cluster: SimulatedCluster, seconds: float) -> float:
    """Let time pass; return the longest lag."""
    end, longest = cluster.now + seconds, 0.0
    while cluster.now < end:
        cluster.step(1.0)
        longest = max(longest, float(cluster.lag.max()))
    return longest


def test_a_fleet_without_failures_is_not_late(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    cluster.start()
    run(cluster, 20)
    assert run(cluster, 60) < 2.0
    assert np.bincount(cluster.owner).tolist() == [10] * 6
    # Each machine needs what it costs.
    assert cluster.seconds.sum() == pytest.approx(60 * 80 * COST.learning, rel=0.1)
    assert_complete(cluster)
    cluster.controller.close()


@pytest.mark.parametrize("spares", [0, 1])
def test_machines_of_a_lost_node_continue_elsewhere(tmp_path: Path, spares: int) -> None:
    cluster = cluster_in(tmp_path, spares=spares)
    cluster.start()
    run(cluster, 30)
    before = cluster.owner.copy()
    cluster.fail([0])
    lost = np.flatnonzero(cluster.owner < 0)
    assert len(lost) == 20
    longest = run(cluster, 30)
    run(cluster, 200)
    assert_complete(cluster)
    # With a spare node Ray restarts the shards; without, the controller moves their machines after lost_seconds.
    assert (cluster.owner != before).sum() == (0 if spares else len(lost))
    assert longest > cluster.times.node_detected
    assert 0 < cluster.replayed <= 10.0 * len(lost)
    cluster.controller.close()


def test_more_shards_take_their_share(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, nodes=2, spares=1)
    cluster.start()
    run(cluster, 20)
    cluster.controller.set_shards(tuple(f"s{number:05d}" for number in range(6)))
    run(cluster, 60)
    assert_complete(cluster)
    assert np.bincount(cluster.owner, minlength=6)[4:].min() >= 5
    cluster.controller.close()
