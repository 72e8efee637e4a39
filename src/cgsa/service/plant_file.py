"""Writes the configuration of a service for a model, or adds a machine to one that exists."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal, TypeAlias

from cgsa.errors import CgsaError, ConfigError
from cgsa.files import replacing
from cgsa.live.plant import MachineConfig
from cgsa.service.config import ServiceConfig

PLANT_FILE = "plant.toml"
PlantChange: TypeAlias = Literal["written", "added", "unchanged"]

_HEADER = """\
# A service of cgsa; edit it freely, and start it with: cgsa serve {name}
folder = "plant"            # all data of the service, relative to this file
host = {host}
port = {port}
"""
_MACHINE = """
[[machines]]
name = {name}
bundle = {bundle}           # the model; another one takes its place at the next start
"""


def prepare_plant_file(
    path: Path, model: Path, machine: str, *, host: str | None = None, port: int | None = None
) -> PlantChange:
    """Make sure that a configuration watches a machine with a model; return what was done to the file.

    A file that exists is only added to. If it watches the machine with another model, that is an error: a model is
    exchanged deliberately, by its line in the file.
    """
    usual = ServiceConfig()
    MachineConfig(machine, model)
    begin: str
    change: PlantChange
    if path.exists():
        known = {one.name: Path(one.bundle) for one in ServiceConfig.load(path).machines}
        if machine in known:
            if known[machine].resolve() == model.resolve():
                return "unchanged"
            raise ConfigError(
                f"{path}: machine {machine!r} is watched with the model {known[machine]}; to exchange it, set its "
                f"bundle to {_relative(model, path.parent)!r} there"
            )
        begin, change = path.read_text(encoding="utf-8").rstrip("\n") + "\n", "added"
    else:
        address = {"host": json.dumps(host or usual.host), "port": usual.port if port is None else port}
        begin, change = _HEADER.format(name=path.name, **address), "written"
    entry = _MACHINE.format(name=json.dumps(machine), bundle=json.dumps(_relative(model, path.parent)))
    with replacing(path, ConfigError) as fresh:
        fresh.write_text(begin + entry, encoding="utf-8")
        try:
            ServiceConfig.load(fresh)
        except CgsaError as error:
            raise ConfigError(
                f"{path}: machine {machine!r} cannot be added ({error}); add it by hand:{entry}"
            ) from error
    return change


def _relative(model: Path, folder: Path) -> str:
    """Return the path of a model as the file states it: relative, so that both can be moved together."""
    target, start = model.resolve(), folder.resolve()
    try:
        return Path(os.path.relpath(target, start)).as_posix()
    except ValueError:
        # On another drive.
        return str(target)
