"""A Ray cluster on this computer, whose ports nobody else can reach or use.

Whoever can talk to Ray may run programs. So its ports are on loopback, by Ray's switch for computers without a cluster
(the address of the node alone does not do that), and it asks for a token that only this account can read. Both have to
be known before Ray is imported, here and in every program that connects.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from cgsa.errors import ConfigError, UnavailableError
from cgsa.fleet.log.nats_server import free_port

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""The switch that puts Ray's ports on loopback."""
TOKEN, ADDRESS = "token", "address"
"""Files for programs that connect."""
START_SECONDS = 120.0
STOP_SECONDS = 5.0
"""How long processes may take to end by themselves; nothing is lost if they are killed."""


class LocalRay:
    """A cluster that outlives the programs that use it; a context manager that starts and stops it.

    ``cores`` is the number that Ray hands out, and ``environment`` is added to that of its processes.
    """

    def __init__(self, folder: Path, *, cores: int, environment: Mapping[str, str] | None = None) -> None:
        self.folder, self._cores, self._environment = folder, cores, dict(environment or {})
        self.address = f"127.0.0.1:{free_port()}"
        """Where programs on this computer reach it."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the cluster and wait until programs can connect."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        token = self.folder / TOKEN
        token.unlink(missing_ok=True)
        (self.folder / ADDRESS).unlink(missing_ok=True)
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="ascii")
        use_local_ray(self.folder)
        port = self.address.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
            "--node-ip-address=127.0.0.1",
        ]
        command += [f"--port={port}", f"--num-cpus={self._cores}", "--include-dashboard=false", "--disable-usage-stats"]
        log = self.folder / "ray.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - no input from outside
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        limit = time.monotonic() + START_SECONDS
        while b"Ray runtime started" not in log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise UnavailableError(f"Ray did not start; {log} says why")
            time.sleep(0.1)
        (self.folder / ADDRESS).write_text(self.address, encoding="ascii")

    @property
    def process(self) -> int:
        """Number of the process whose children all processes of the cluster are."""
        if self._process is None:
            raise ConfigError("Ray was not started")
        return self._process.pid

    def stop(self) -> None:
        """End all processes of the cluster."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        # Actors outlive the process that started them, and Ray restarts those that end.
        while left := [member for member in _session(process.pid) if _runs(member)]:
            process.poll()
            if time.monotonic() > begun + STOP_SECONDS:
                for member in left:
                    with suppress(ProcessLookupError):
                        os.kill(member, signal.SIGKILL)
            time.sleep(0.1)
        process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def use_local_ray(folder: Path) -> str | None:
    """Let this process, and those that it starts, use the cluster in a folder; return its address if it was started.

    Ray must not be imported before.
    """
    if "ray" in sys.modules and any(os.environ.get(name) != value for name, value in LOOPBACK.items()):
        raise ConfigError("Ray is imported already; expected use_local_ray() before that")
    os.environ.update({**LOOPBACK, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / TOKEN)})
    address = folder / ADDRESS
    return address.read_text(encoding="ascii") if address.exists() else None


def _session(leader: int) -> list[int]:
    """Return the processes of a session, which has a process of the same number and whatever that has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getsid(int(path.name)) == leader:
                found.append(int(path.name))
    return found


def _runs(process: int) -> bool:
    """Return whether any thread of a process runs, which keeps its files open even after the first one has ended."""
    for path in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):
            if path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] not in {"Z", "X"}:
                return True
    return False
