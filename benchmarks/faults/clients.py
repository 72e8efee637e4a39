"""Clients that take what they can get: connections, guesses and reads."""

from __future__ import annotations

import resource
import socket
import threading
import time
from contextlib import ExitStack, suppress

from benchmarks.faults.registry import Fault

HALF_OPEN = 1000
"""Connections at once that never finish a request."""
READERS = 8
GUESS = "cgsa.guess." + "A" * 43
"""Has the form of a token."""


class HalfOpenConnections(Fault):
    """A thousand connections that send nothing, or half a request, and are opened anew when the service closes them."""

    name = "half-open connections"

    def strike(self) -> None:
        """Hold them for a while."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * HALF_OPEN)), hard))
        end = time.monotonic() + self.rng.uniform(2.0, 5.0) * self.run.patience
        with ExitStack() as stack:
            opened = 0
            while opened < HALF_OPEN or time.monotonic() < end:
                with suppress(OSError):
                    # One that is waiting in the queue of the service must not hold up the others.
                    half = socket.create_connection(("127.0.0.1", self.run.port), timeout=0.2)
                    stack.enter_context(half)
                    if opened % 2:
                        half.sendall(b"GET /health HTTP/1.1\r\nHost: pump\r\n")
                opened += 1
                if opened > HALF_OPEN:
                    time.sleep(0.01)
            counts = [self.run.metric(name) for name in ("cgsa_closed_connections_total", "cgsa_connections")]
        self._counts = [count for count in counts if count is not None]

    def told(self) -> bool:
        """The metrics count connections that were closed to make room, or those that are open."""
        # A service without handles accepts none; one that gives no metrics has other problems at the same time.
        return not self._counts or any(self._counts)


class WrongTokens(Fault):
    """Requests and logins with guessed tokens, as fast as one client can send them."""

    name = "wrong tokens"

    def strike(self) -> None:
        """Guess for a while; no guess may be let in."""
        self._answers: set[int | None] = set()
        end = time.monotonic() + self.rng.uniform(1.0, 3.0) * self.run.patience
        block = self.run.some_block()
        while time.monotonic() < end:
            for path, body in (("/api/machines", None), ("/api/audit", None), ("/api/blocks", block)):
                self._answers.add(self.run.request(path, body, token=GUESS))

    def told(self) -> bool:
        """Every answer was a refusal, and the audit has some of them."""
        # Requests meet a service that is being restarted, or that has run out of handles: those have no answer.
        answers = self._answers - {None}
        return answers <= {401, 429, 503} and (not answers or self.run.was_audited("401"))


class GreedyReaders(Fault):
    """Eight readers with a valid token that read history without a pause."""

    name = "greedy readers"

    def strike(self) -> None:
        """Read for a while."""
        self._answers: list[int | None] = []
        end = time.monotonic() + self.rng.uniform(2.0, 5.0) * self.run.patience
        readers = [threading.Thread(target=self._read, args=(number, end)) for number in range(READERS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()

    def _read(self, number: int, end: float) -> None:
        machine = self.run.names[number % len(self.run.names)]
        paths = (
            "/api/diagnoses?limit=1000",
            f"/api/machines/{machine}/trends?begin=0&end=4e9",
            "/api/notes?limit=1000",
            "/api/cases",
        )
        while time.monotonic() < end:
            for path in paths:
                self._answers.append(self.run.request(path, None, token=self.run.viewer))

    def told(self) -> bool:
        """Every answer has what was asked for, or says that it was too much, or that the service cannot read now."""
        return set(self._answers) <= {200, 429, 503, None}
