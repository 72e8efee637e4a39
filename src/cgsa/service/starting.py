"""The page of a service that is still being prepared: what is done, and how long the rest will take.

It listens where the service will, and answers every path with the same page. Once the service has taken over, the page
loads itself again. So a login link can be opened at once.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Literal, TypeAlias

import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from cgsa.service.connections import ConnectionTable, limited_protocol
from cgsa.service.limits import RequestLimits
from cgsa.service.traffic import TrafficCounts

PROGRESS = "/starting"
"""Path of the progress as JSON; the service itself has no such path, which is how the page notices it."""
MIN_SHARE = 0.05
"""Share of a step after which its time left is estimated."""

_PAGE = (resources.files("cgsa.service") / "starting.html").read_text(encoding="utf-8")
StepState: TypeAlias = Literal["waiting", "running", "done"]


@dataclass
class Step:
    """A step of the preparation."""

    name: str
    done: int = 0
    total: int = 0
    """0 if it is not known yet."""
    begun: float | None = None
    ended: float | None = None

    @property
    def state(self) -> StepState:
        """Whether it waits, runs or is done."""
        return "waiting" if self.begun is None else "running" if self.ended is None else "done"

    def seconds_left(self, now: float) -> float | None:
        """Return how long it will take at its mean speed so far; None if that is not known yet."""
        if self.begun is None or self.ended is not None or not MIN_SHARE * self.total <= self.done < self.total:
            return None
        return (now - self.begun) / self.done * (self.total - self.done)


class StartProgress:
    """The steps of a preparation, in their order; usable from any thread."""

    def __init__(self, *steps: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = [Step(name) for name in steps]
        self._clock = clock
        self._lock = threading.Lock()

    def update(self, name: str, done: int, total: int) -> None:
        """Report how much of a step is done.

        It is over once a later one begins. A step that was not named before precedes those that wait.
        """
        with self._lock:
            now, step = self._clock(), self._find(name)
            step.done, step.total = done, total
            step.begun = now if step.begun is None else step.begun
            for before in self._steps[: self._steps.index(step)]:
                _end(before, now)

    def steps(self) -> list[dict[str, str | int | float | None]]:
        """Return the present state of all steps as JSON values."""
        with self._lock:
            now = self._clock()
            return [
                {
                    "name": step.name,
                    "state": step.state,
                    "done": step.done,
                    "total": step.total,
                    "seconds_left": step.seconds_left(now),
                }
                for step in self._steps
            ]

    def _find(self, name: str) -> Step:
        found = next((step for step in self._steps if step.name == name), None)
        if found is None:
            found = Step(name)
            running = sum(step.state != "waiting" for step in self._steps)
            self._steps.insert(running, found)
        return found


@contextmanager
def starting_page(listening: socket.socket, progress: StartProgress) -> Iterator[None]:
    """Serve the page for the duration of the context; the socket stays open for the service."""
    config = uvicorn.Config(
        starting_app(progress),
        # Nobody needs a token here, so connections are bounded as those of the service are.
        http=limited_protocol(ConnectionTable(RequestLimits(), TrafficCounts())),
        ws="none",
        lifespan="off",
        server_header=False,
        access_log=False,
        log_config=None,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # The server closes what it is given.
    sockets = [listening.dup()]
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, name="cgsa-starting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def starting_app(progress: StartProgress) -> FastAPI:
    """Return the app of the page."""
    app = FastAPI(openapi_url=None)

    @app.get(PROGRESS)
    async def show_progress() -> Response:
        return JSONResponse({"steps": progress.steps()}, headers={"Cache-Control": "no-store"})

    @app.get("/health")
    async def show_health() -> Response:
        return JSONResponse({"status": "starting"})

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    async def show_page(request: Request) -> Response:
        headers = {"Retry-After": "5", "Cache-Control": "no-store"}
        if request.method != "GET" or request.url.path.startswith(("/api", "/metrics", "/ready")):
            return JSONResponse({"ready": False, "reasons": ["the service is being prepared"]}, 503, headers)
        return HTMLResponse(_PAGE, headers=headers | {"Content-Security-Policy": POLICY})

    return app


def _end(step: Step, now: float) -> None:
    step.begun = now if step.begun is None else step.begun
    step.ended = now if step.ended is None else step.ended


def _hashed(tag: str) -> str:
    content = _PAGE.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {_hashed('script')}; style-src {_hashed('style')}; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Allows nothing but the script and style of the page itself."""
