"""A real PostgreSQL on loopback, which tests start, kill and start again."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cgsa.live.store.postgres.address import PostgresAddress

ADMIN = "cgsa"
"""The role that owns the databases; it logs in without a password."""
STARTED = 30.0
"""Seconds within which a server answers."""


def postgres_programs() -> Path:
    """Return the folder of PostgreSQL's programs; it is installed where that is allowed, else tests are left out."""
    for _ in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        on_path = shutil.which("postgres")
        if found or on_path:
            return (found[-1] if found else Path(str(on_path))).parent
        apt = shutil.which("apt-get")
        if apt is None or os.geteuid() != 0:
            break
        subprocess.run(
            [apt, "-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", "postgresql"],
            check=False,
            capture_output=True,
        )
    pytest.skip("no PostgreSQL here, and none can be installed: tests of the store in PostgreSQL are left out")


class PostgresServer:
    """One PostgreSQL with data in a folder of its own; ``settings`` are of its command line."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._programs = postgres_programs()
        self.folder, self.data = folder, folder / "data"
        self._settings = settings
        self._names = itertools.count()
        self._known: set[str] = set()
        self._free: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        # It refuses to run as root.
        self._user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if _is_root() else {}
        if _is_root():
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        words = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={ADMIN}", "--no-sync"]
        self._run("initdb", *words, f"--pgdata={self.data}")
        self.port = _free_port()

    def own(self, path: Path) -> None:
        """Give a file to the user of the server."""
        if _is_root():
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        limit = time.monotonic() + STARTED
        while True:
            self._launch()
            while self._process is not None and self._process.poll() is None:
                assert time.monotonic() < limit, (self.folder / "log").read_text()
                try:
                    psycopg.connect(self._admin, connect_timeout=2).close()
                except psycopg.OperationalError:
                    time.sleep(0.02)
                else:
                    return
            # Processes of a server that was killed still end.
            assert time.monotonic() < limit, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server without a last checkpoint: nobody needs its data any more."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kill the server, and the processes of its connections, which might answer once more."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        self._process.kill()
        self._process.wait(30)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._process = None

    @contextmanager
    def database(self, **settings: Any) -> Iterator[PostgresAddress]:
        """Yield the address of an empty database; it is used again, since a new one takes many files."""
        name = self._free.pop() if self._free else f"test_{next(self._names)}"
        if name not in self._known:
            self.execute(f"CREATE DATABASE {name}")
            self._known.add(name)
        yield PostgresAddress("127.0.0.1", self.port, ADMIN, name, tls=False, **settings)
        self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
        self.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public", name)
        self._free.append(name)

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run SQL as the administrator."""
        with psycopg.connect(f"{self._admin} dbname={database}", autocommit=True) as connection:
            answer = connection.execute(sql.encode())
            return answer.fetchall() if answer.description else []

    @property
    def _admin(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={ADMIN} dbname=postgres"

    def _launch(self) -> None:
        words = [f"-D{self.data}", f"-p{self.port}", "-h127.0.0.1", "-k", ""]
        words += [word for setting in ("max_connections=60", *self._settings) for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), *words], stdout=log, stderr=log, cwd="/", **self._user
            )

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([str(self._programs / program), *words], check=True, capture_output=True, cwd="/", **self._user)


@contextmanager
def running_postgres(*settings: str) -> Iterator[PostgresServer]:
    """Yield a server that runs."""
    # Not in pytest's folders, which other users cannot enter. It survives the kill of a process without a sync.
    with tempfile.TemporaryDirectory(prefix="cgsa-postgres-") as folder:
        server = PostgresServer(Path(folder), "fsync=off", *settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _is_root() -> bool:
    return os.geteuid() == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
