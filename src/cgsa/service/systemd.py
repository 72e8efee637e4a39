"""Tells systemd how the service is: ready, alive, stopping (sd_notify, without its library)."""

from __future__ import annotations

import os
import socket

ADDRESS, WATCHDOG, WATCHDOG_PROCESS = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
"""Variables that systemd sets."""


def notify(*state: str) -> bool:
    """Send a state, such as ``READY=1``; return whether anybody listens."""
    address = os.environ.get(ADDRESS, "")
    if not address:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # An address that begins with @ is in the abstract namespace.
            sender.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            sender.send("\n".join(state).encode())
    except OSError:
        return False  # the service works without
    return True


def watchdog_seconds() -> float | None:
    """Return how often systemd expects a sign of life; None if it does not."""
    process = os.environ.get(WATCHDOG_PROCESS)
    try:
        seconds = int(os.environ.get(WATCHDOG, "")) / 1e6
    except ValueError:
        return None
    return seconds if seconds > 0 and process in {None, str(os.getpid())} else None
