"""``cgsa serve --demo``: a page from the first second, which shows what is being prepared."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgsa.cli.serve_run import announce, run_service, show_link
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.service.config import ServiceConfig


def run_demo(folder: Path, changes: Mapping[str, Any]) -> None:
    """Prepare the demo in a folder and run it until it is stopped; ``changes`` are settings that differ."""
    from cgsa.service.demo import SIMULATING, TRAINING, WRITING, demo_config, prepare_demo
    from cgsa.service.logs import configure_logging
    from cgsa.service.starting import StartProgress, starting_page

    settings = replace(demo_config(folder), **changes)
    configure_logging(style=settings.log_format)
    progress = StartProgress(SIMULATING, TRAINING, WRITING)
    named: set[str] = set()

    def report(step: str, done: int, total: int) -> None:
        if step not in named:
            named.add(step)
            announce(settings, f"{step} ...", note=False)
        progress.update(step, done, total)

    with listening_socket(settings) as listening:
        show_link(settings, "log in", _login_link(settings))
        with starting_page(listening, progress):
            prepare_demo(folder, report, workers=os.cpu_count() or 1)
        run_service(settings, listening=listening)


def listening_socket(settings: ServiceConfig) -> socket.socket:
    """Return a socket that listens where the service will, or say that the port is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {settings.host}, port {settings.port} ({error.strerror}); choose another with --port"
        ) from error


def _login_link(settings: ServiceConfig) -> str:
    """Return a login link for an admin with a new token."""
    from cgsa.live.store import Store
    from cgsa.service.auth import Authenticator
    from cgsa.service.login import login_link
    from cgsa.service.permissions import create_private_folder

    folder = Path(settings.folder)
    create_private_folder(folder)
    store = Store(folder / "store.sqlite")
    try:
        token = Authenticator(store).create_token(time.strftime("demo-%m%d-%H%M%S"), "admin")
    finally:
        store.close()
    return login_link(settings.url, token)
