"""What ``cgsa serve MODEL --machine NAME`` prepares: configuration, tokens and a sender."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from cgsa.cli.console import talk
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.service.auth import Authenticator
    from cgsa.service.service import Service

PLACEHOLDER = "TOKEN"
"""Shown for the token of a sender where others may read it."""
DONE = {"written": "written, watches", "added": "exists; added", "unchanged": "exists; it already watches"}
"""What was done to a configuration, in words."""


def prepare_model(
    model: Path, machine: str | None, folder: Path, host: str | None, port: int | None
) -> tuple[Path, str]:
    """Return the configuration file of a service that watches a machine with a model, and the name of the machine."""
    from cgsa.data.dataset_file import is_data_set
    from cgsa.nn.bundle import MANIFEST, ModelBundle
    from cgsa.service.plant_file import PLANT_FILE, prepare_plant_file

    if not (model / MANIFEST).is_file():
        hint = f"; it is a data set: cgsa train {model} MODEL" if is_data_set(model) else ""
        raise ConfigError(f"{model}: expected a model that cgsa train wrote, or a configuration file{hint}")
    if machine is None:
        raise ConfigError(f"which machine? pass its name, such as: cgsa serve {model} --machine press-1")
    # A model that cannot be loaded is reported before any file is written.
    ModelBundle.load(model)
    path = folder / PLANT_FILE
    change = prepare_plant_file(path, model, machine, host=host, port=port)
    talk.print(f"{path}: {DONE[change]} {machine} with {model}", soft_wrap=True, markup=False)
    return path, machine


def print_sender(service: Service, machine: str, folder: Path) -> None:
    """Write the sender of a machine, and print how to send."""
    from cgsa.service.sender.program import SenderSettings, sender_token, write_sender

    path = folder / f"send-{machine}.py"
    token = sender_token(path)
    person = service.authenticator.by_token(token)
    config = service.config
    if person is None or not (person.may("sender") and person.covers(machine)):
        token = _new_token(service.authenticator, machine)
        if talk.is_terminal:
            talk.print(f"token of the sender, shown only once: {token}", soft_wrap=True, markup=False)
    settings = SenderSettings(
        config.url,
        token,
        machine,
        service.plant.worker(machine).watch.bundle.manifest,
        None if config.tls_certificate is None else str(Path(config.tls_certificate).resolve()),
    )
    write_sender(path, settings)
    python = Path(sys.executable).name
    talk.print(f"send recordings with: {python} {path} RECORDING.csv ...", soft_wrap=True, markup=False)
    # What is no terminal may be a log, which others read.
    shown = settings if talk.is_terminal else replace(settings, token=PLACEHOLDER)
    talk.print(f"or blocks of your own: {escape(shown.curl_example(time.time()))}", soft_wrap=True)


def _new_token(authenticator: Authenticator, machine: str) -> str:
    """Return a new token for the sender of a machine; names are never used twice."""
    used = {token.name for token in authenticator.tokens()}
    stem, number = f"sender-{machine}"[:60], 1
    name = stem
    while name in used:
        number += 1
        name = f"{stem}-{number}"
    return authenticator.create_token(name, "sender", machines=[machine])
