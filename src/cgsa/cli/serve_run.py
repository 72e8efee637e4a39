"""What ``cgsa serve`` does once its settings are known: it says where the service is, and runs it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from cgsa.cli.console import talk
from cgsa.cli.serve_model import print_sender
from cgsa.errors import ConfigError
from cgsa.files import replacing

if TYPE_CHECKING:
    from cgsa.service.config import ServiceConfig
    from cgsa.service.service import Service

LINK_FILE = "login-link"
"""File in the folder of a service for the login link of a start without a terminal."""
LOG = logging.getLogger(__name__)


def run_service(
    settings: ServiceConfig,
    sent: tuple[str, Path] | None = None,
    *,
    listening: socket.socket | None = None,
    load: Callable[[], ServiceConfig] | None = None,
) -> None:
    """Run a service until it is stopped.

    ``sent`` is the machine of a sender to write, and its folder; ``load`` reads the configuration again for a reload.
    """
    from cgsa.service.reload_signal import ignoring_hangups
    from cgsa.service.service import create_service

    # Until the service can reload, the signal must not end it.
    with nullcontext() if load is None else ignoring_hangups():
        service = create_service(settings)
        _describe(service, sent)
        service.run(listening, load)


def _describe(service: Service, sent: tuple[str, Path] | None) -> None:
    """Say where a service is, who may use its files, and how to log in and send."""
    from cgsa.service.service import FIRST

    settings = service.config
    for message in service.open_files():
        announce(settings, message)
    announce_exposure(settings)
    if service.is_new:
        show_link(settings, "first login, shown only once", service.login_link(FIRST))
    if sent is not None:
        print_sender(service, *sent)
    count = len(settings.machines)
    machines = f"{count} {'machine' if count == 1 else 'machines'}"
    announce(settings, f"serving {machines} at {settings.url}; press Ctrl-C to stop", note=False)


def announce(settings: ServiceConfig, text: str, *, note: bool = True) -> None:
    """Tell whoever started the service something: in the log if that is JSON, since nothing else may be in it."""
    if settings.log_format == "json":
        LOG.log(logging.WARNING if note else logging.INFO, "%s", text)
        return
    talk.print(f"{'[yellow]note:[/] ' if note else ''}{escape(text)}", soft_wrap=True)


def announce_exposure(settings: ServiceConfig) -> None:
    """Say it if others could read the tokens that are sent."""
    if not settings.is_local and settings.tls_certificate is None:
        announce(settings, "others can reach this address, and tokens are sent unencrypted; configure TLS")


def show_link(settings: ServiceConfig, what: str, link: str) -> None:
    """Show a login link on a terminal; else leave it in a file, since what is no terminal may be a log."""
    if talk.is_terminal and settings.log_format == "text":
        talk.print(f"{what}: {link}", soft_wrap=True)
        return
    path = Path(settings.folder) / LINK_FILE
    with replacing(path, ConfigError) as fresh:
        fresh.touch(mode=0o600)
        fresh.write_text(f"{link}\n", encoding="ascii")
    announce(settings, f"{what}: the link is in {path}; delete the file after use", note=False)
