"""``cgsa reload``: a running service takes over its changed configuration."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cgsa.cli.console import AsJson, out, print_json
from cgsa.cli.service_folder import Folder, require_package, store_place
from cgsa.errors import ConfigError

POLL_SECONDS = 0.1


def reload_command(
    folder: Folder,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the result.", min=1)] = 120.0,
    *,
    json: AsJson = False,
) -> None:
    """Have a running service read its configuration again, and say what has changed.

    Machines, sources, sinks and certificates are taken over without losing a block. A configuration in which anything
    is wrong is refused, and the former one stays; the status is 1 then. The same happens on SIGHUP.
    """
    require_package("fastapi")
    from cgsa.live.store.opening import STORE_FILE
    from cgsa.service.configuration_check import is_in_use
    from cgsa.service.reload import RESULT_FILE

    store_place(folder)
    if not is_in_use(folder):
        raise ConfigError(f"{folder}: no service runs on it; it reads its configuration when it starts")
    path = folder / RESULT_FILE
    before = _modified(path)
    os.kill(process_of(folder / f"{STORE_FILE}.lock"), signal.SIGHUP)
    result = _wait_for(path, before, wait)
    if json:
        print_json(result)
    else:
        out.print(result["text"], soft_wrap=True, markup=False)
    if result["refused"]:
        raise typer.Exit(1)


def process_of(lock: Path) -> int:
    """Return the process that holds a lock; its number alone could be that of another program in another container."""
    process = int(lock.read_text(encoding="ascii"))
    try:
        handles = list(Path(f"/proc/{process}/fd").iterdir())
    except OSError as error:
        why = "run this as the user of the service, and where it runs" if Path("/proc").is_dir() else str(error)
        raise ConfigError(f"{lock}: process {process} cannot be examined ({error.strerror}); {why}") from error
    if lock.resolve() not in map(_target, handles):
        raise ConfigError(f"{lock}: process {process} is not the service; run this where it runs, or send it SIGHUP")
    return process


def _target(handle: Path) -> Path | None:
    """Return the file of an open handle; None if it was closed meanwhile."""
    try:
        return handle.readlink()
    except OSError:
        return None


def _wait_for(path: Path, before: int, seconds: float) -> dict[str, Any]:
    limit = time.monotonic() + seconds
    while _modified(path) == before:
        if time.monotonic() > limit:
            raise ConfigError(f"{path}: no result after {seconds:g} s; see the log of the service")
        time.sleep(POLL_SECONDS)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _modified(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
