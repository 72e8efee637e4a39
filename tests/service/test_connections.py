from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cgsa.service.limits import RequestLimits
from tests.service.running_service import RunningService, running_service

FEW = RequestLimits(
    address_connections=4,
    connections=6,
    held_connections=8,
    header_seconds=0.3,
    body_seconds=0.3,
    send_seconds=0.3,
    hold_seconds=0.6,
)
HEAD = b"GET /health HTTP/1.1\r\nHost: pump\r\n"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(tmp_path_factory.mktemp("strict"), limits=FEW) as found:
        yield found


@contextmanager
def connected(service: RunningService, address: str = "127.0.0.1") -> Iterator[socket.socket]:
    """A connection that sends what a test wants, from an address of this machine."""
    port = urlsplit(service.url).port
    with socket.create_connection(("127.0.0.1", port), timeout=5, source_address=(address, 0)) as found:
        yield found


def seconds_until_closed(connection: socket.socket, drip: bytes = b"") -> float:
    """How long the service keeps a connection, while something may trickle in."""
    begun = time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() - begun < 4:
        try:
            if drip:
                connection.sendall(drip)
            if not connection.recv(65_536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - begun


@pytest.mark.parametrize(
    ("sent", "drip"),
    [
        (b"", b""),  # half-open
        (HEAD, b"X"),  # slow headers
        (HEAD + b"\r\n", b"G"),  # slow headers of the second request
        (b"POST /api/tokens HTTP/1.1\r\nHost: pump\r\nContent-Length: 1000000\r\n\r\n", b"x"),  # after its refusal
        (b"POST /login HTTP/1.1\r\nHost: pump\r\nContent-Length: 60000\r\n\r\n", b"x"),  # slow body
    ],
    ids=["nothing", "headers", "second headers", "refused body", "body"],
)
def test_whoever_is_slow_is_disconnected(strict: RunningService, sent: bytes, drip: bytes) -> None:
    with connected(strict) as connection:
        connection.sendall(sent)
        assert seconds_until_closed(connection, drip) < 3


def test_a_client_that_does_not_read_is_disconnected(strict: RunningService) -> None:
    token = strict.tokens["viewer"].encode()
    request = b"GET /api/openapi.json HTTP/1.1\r\nHost: pump\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
    with connected(strict) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.1)
        end = time.monotonic() + 5
        with pytest.raises((ConnectionError, OSError)):
            while time.monotonic() < end:
                try:
                    connection.sendall(request)
                except TimeoutError:
                    time.sleep(0.05)


def test_one_address_makes_room_for_its_own_connections(strict: RunningService) -> None:
    with ExitStack() as stack, strict.client("viewer") as known:
        assert known.get("/api/me").status_code == 200
        others = [stack.enter_context(connected(strict, "127.0.0.2")) for _ in range(2)]
        opened = [stack.enter_context(connected(strict)) for _ in range(8)]
        for one in (*others, opened[-1]):
            one.sendall(HEAD + b"\r\n")
            assert one.recv(1000).startswith(b"HTTP/1.1 200")
        opened[0].settimeout(2)
        with suppress(ConnectionError):
            assert opened[0].recv(1) == b"", "the oldest was closed"
        assert known.get("/api/me").status_code == 200, "a connection with a token stays"


def test_half_open_connections_do_not_shut_out_others(strict: RunningService) -> None:
    with ExitStack() as stack:
        for number in range(40):
            stack.enter_context(connected(strict, f"127.0.1.{number % 5}"))
        with strict.client("admin") as client, strict.client(None) as nobody:
            for _ in range(5):
                assert nobody.get("/health").status_code == 200
                assert client.get("/api/machines").status_code == 200
            metrics = client.get("/metrics").text
        counts = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("cgsa_"))
        assert 1 <= float(counts["cgsa_connections"]) <= FEW.connections
        assert float(counts["cgsa_closed_connections_total"]) >= 20, "beyond eight, the oldest held one is closed"
        assert 1 <= float(counts["cgsa_held_connections"]) <= FEW.held_connections


def test_a_connection_that_made_room_is_neither_read_nor_closed_at_once(strict: RunningService) -> None:
    with ExitStack() as stack:
        oldest = stack.enter_context(connected(strict, "127.0.0.3"))
        begun = time.monotonic()
        newest = [stack.enter_context(connected(strict, "127.0.0.3")) for _ in range(FEW.address_connections)][-1]
        newest.sendall(HEAD + b"\r\n")
        assert newest.recv(1000).startswith(b"HTTP/1.1 200")
        oldest.sendall(HEAD + b"\r\n")
        oldest.settimeout(FEW.hold_seconds / 3)
        with pytest.raises(TimeoutError):
            oldest.recv(1)
        assert seconds_until_closed(oldest) < 2
        assert time.monotonic() - begun >= FEW.hold_seconds / 2


def test_a_proxy_has_as_many_connections_as_there_are(tmp_path: Path) -> None:
    with running_service(tmp_path, limits=FEW, server={"proxies": ("127.0.0.1",)}) as service, ExitStack() as stack:
        opened = [stack.enter_context(connected(service)) for _ in range(6)]
        for one in opened:
            one.sendall(HEAD + b"\r\n")
            assert one.recv(1000).startswith(b"HTTP/1.1 200")
