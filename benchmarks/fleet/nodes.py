"""A Ray cluster of two nodes on this computer, the second of which comes and goes."""

from __future__ import annotations

from typing import Any, Self

from ray.cluster_utils import Cluster

ADDRESS = "127.0.0.1"


class TwoNodes:
    """A cluster that starts with one node; a context manager that ends it."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": cores, "node_ip_address": ADDRESS, "include_dashboard": False},
        )
        self._second: Any = None

    @property
    def address(self) -> str:
        """Where programs reach it."""
        return str(self._cluster.address)

    def add(self) -> None:
        """Start the second node."""
        self._second = self._cluster.add_node(num_cpus=self._cores, node_ip_address=ADDRESS)

    def kill(self) -> None:
        """Kill all processes of the second node."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()
