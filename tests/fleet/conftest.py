from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from cgsa.fleet.log.nats_server import NatsServer


def install_server() -> None:
    """Install the server where that is allowed, as on a fresh container."""
    if shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None and os.geteuid() == 0:
        command = ["apt-get", "install", "-y", "--no-install-recommends", "nats-server"]
        subprocess.run(command, capture_output=True, check=False)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    install_server()
    if shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        pytest.skip("no nats-server; install the package nats-server of Debian")
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server
