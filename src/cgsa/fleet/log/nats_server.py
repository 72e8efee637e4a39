"""A nats-server of one's own on loopback, for the demo, tests and benchmarks; a plant runs its server by itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cgsa.errors import ConfigError, UnavailableError

START_SECONDS = 20.0
MAX_PAYLOAD_BYTES = 8 * 2**20
"""Largest record; the server's own default of 1 MiB is less than a block may have."""


class NatsServer:
    """A server with JetStream in a folder; a context manager that starts and stops it.

    ``settings`` are further entries of its configuration, such as a section ``tls``.
    """

    def __init__(self, folder: Path, *, port: int | None = None, settings: Mapping[str, object] | None = None) -> None:
        found = shutil.which("nats-server", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))
        if found is None:
            raise ConfigError("no nats-server; install it, such as the package nats-server of Debian")
        self._program, self.folder, self.port = found, folder, port or free_port()
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "nats.conf"
        jetstream = {"store_dir": str(self.folder / "jetstream"), "max_memory_store": 2**28, "max_file_store": 2**40}
        own = {"listen": f"127.0.0.1:{self.port}", "max_payload": MAX_PAYLOAD_BYTES, "jetstream": jetstream}
        # Its configuration language includes JSON.
        config.write_text(json.dumps(own | self._settings), encoding="utf-8")
        with (self.folder / "nats.log").open("ab") as log:
            # In a session of its own, so that Ctrl-C on a terminal leaves it to whoever started it.
            self._process = subprocess.Popen(  # noqa: S603 - no input from outside
                [self._program, "-c", str(config)], stdout=log, stderr=log, start_new_session=True
            )
        limit = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise UnavailableError(f"nats-server did not start; {self.folder / 'nats.log'} says why")
            time.sleep(0.02)

    @property
    def cpu_seconds(self) -> float:
        """Processor time that the server has used since it started."""
        if self._process is None:
            raise ConfigError("the server does not run")
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """Kill the server, as a fault would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server."""
        self._end(signal.SIGTERM)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
                return True
        except OSError:
            return False


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
