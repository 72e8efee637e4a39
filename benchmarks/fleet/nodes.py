"""Another node of a Ray cluster on this computer, which can be killed with everything that runs on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import ray

START_SECONDS = 240.0


class SecondNode:
    """A node that joins a cluster; Ray of this process must be connected to that."""

    def __init__(self, workspace: Path, address: str, *, cores: int) -> None:
        self._log, self._address, self._cores = workspace / "node.log", address, cores
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until the cluster has its cores."""
        before = ray.cluster_resources().get("CPU", 0.0)
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        command += [f"--address={self._address}", "--node-ip-address=127.0.0.1", f"--num-cpus={self._cores}"]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - no input from outside
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        limit = time.monotonic() + START_SECONDS
        while ray.cluster_resources().get("CPU", 0.0) < before + self._cores:
            if self._process.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"the node did not start: {self._log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill all of its processes."""
        if self._process is None:
            return
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(path.name)) == self._process.pid:
                    os.kill(int(path.name), signal.SIGKILL)
        self._process.wait()
