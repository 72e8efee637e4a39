from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cgsa.service.systemd import ADDRESS, WATCHDOG, WATCHDOG_PROCESS, notify, watchdog_seconds
from tests.service.running_service import running_service


@contextmanager
def manager(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What listens to services, as systemd does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        listening.settimeout(20)
        monkeypatch.setenv(ADDRESS, address)
        yield listening


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_state_is_one_datagram(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@cgsa-test-{os.getpid()}"
    with manager(address, monkeypatch) as listening:
        assert notify("READY=1", "STATUS=listening")
        assert listening.recv(1000) == b"READY=1\nSTATUS=listening"


def test_without_systemd_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv(ADDRESS, str(tmp_path / "nobody"))
    assert not notify("READY=1")


@pytest.mark.parametrize(
    ("interval", "process", "expected"),
    [
        (None, None, None),
        ("60000000", None, 60.0),
        ("600000", "own", 0.6),
        ("1", "1", None),
        ("x", None, None),
    ],
)
def test_the_interval_of_the_watchdog(
    interval: str | None, process: str | None, expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ((WATCHDOG, interval), (WATCHDOG_PROCESS, process)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            # Not as a parameter: the processes of a parallel run must collect tests of the same names.
            monkeypatch.setenv(name, str(os.getpid()) if value == "own" else value)
    assert watchdog_seconds() == expected


def test_a_service_says_that_it_is_ready_alive_and_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WATCHDOG, "300000")
    with manager(str(tmp_path / "notify"), monkeypatch) as listening:
        with running_service(tmp_path) as service:
            assert listening.recv(1000) == b"READY=1\nSTATUS=listening"
            with service.client(None) as client:
                assert client.get("/health").status_code == 200, "it listens when it says so"
            begin = time.monotonic()
            assert [listening.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            assert time.monotonic() - begin >= 0.1, "not with every turn of the loop"
        last = listening.recv(1000)
        while last == b"WATCHDOG=1":
            last = listening.recv(1000)
        assert last == b"STOPPING=1"
