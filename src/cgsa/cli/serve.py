"""``cgsa serve``, ``cgsa report``, ``cgsa sign``: live monitoring of machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from cgsa.cli.console import AsJson, Model, out, print_json, talk
from cgsa.cli.explain import KinematicsFile
from cgsa.cli.serve_check import show_check
from cgsa.cli.serve_demo import run_demo
from cgsa.cli.serve_model import prepare_model
from cgsa.cli.serve_run import run_service
from cgsa.cli.service_folder import Folder, require_package, store_place
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.service.config import ServiceConfig

LogFormat: TypeAlias = Literal["text", "json"]


def serve_command(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="MODEL|CONFIG", help="A model written by [b]cgsa train[/b], or a configuration file (TOML)."
        ),
    ] = None,
    machine: Annotated[str | None, typer.Option(help="Name of the machine to watch with a model.")] = None,
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Monitor three simulated gearboxes.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="With a model: folder of plant.toml and the sender, by default the current one. With [b]--demo[/b]: "
            "folder of everything, by default demo-service.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of the configuration's.")] = None,
    port: Annotated[int | None, typer.Option(help="Port, instead of the configuration's.", min=0, max=65535)] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Form of the log on standard error, instead of the configuration's.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check a configuration file and all it names, and start nothing.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Monitor machines live: receive blocks of samples, diagnose, adapt, raise alarms, and show all of it in a browser.

    [b]cgsa serve model/ --machine press-1[/b] writes the configuration plant.toml,
    or adds the machine to the one that is there, and prints a login link. It also
    writes a program that sends recordings, or samples from another program, with a
    token of its own.

    [b]cgsa serve --check plant.toml[/b] lists all that is wrong with a configuration,
    and ends with status 1 if the service would not work.

    All data are kept in one folder. After a kill at any time, the service resumes with bit-identical results.
    """
    if demo == (config is not None):
        raise ConfigError(
            "nothing to serve; expected a model, a configuration file or --demo, such as: cgsa serve --demo"
        )
    if check or json:
        if not check or config is None or machine is not None or config.is_dir():
            raise ConfigError("--check takes a configuration file: cgsa serve --check plant.toml; --json goes with it")
        require_package("fastapi")
        show_check(config, as_json=json)
        return
    from cgsa.service.logs import configure_logging
    from cgsa.service.permissions import private_files

    own = {"host": host, "port": port, "log_format": log_format}
    changes: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    with private_files():
        require_package("fastapi")
        if config is None:
            run_demo(folder or Path("demo-service"), changes)
            return
        path, sent = _prepare(config, machine, folder, host, port)
        load = partial(_settings_of, path, changes)
        settings = load()
        configure_logging(style=settings.log_format)
        run_service(settings, sent, load=load)


def _prepare(
    config: Path, machine: str | None, folder: Path | None, host: str | None, port: int | None
) -> tuple[Path, tuple[str, Path] | None]:
    """Return the configuration file of a service; with a model also its machine, and the folder of its sender."""
    if not config.exists():
        raise ConfigError(
            f"{config}: no such file or folder; expected a model that cgsa train wrote, or a configuration such as "
            "plant.toml"
        )
    if config.is_dir():
        place = folder or Path()
        path, name = prepare_model(config, machine, place, host, port)
        return path, (name, place)
    if machine is not None:
        raise ConfigError(f"--machine {machine} goes with a model; {config} names its machines itself")
    return config, None


def _settings_of(path: Path, changes: Mapping[str, Any]) -> ServiceConfig:
    """Return the settings in a file as they are now, but for those that the command names."""
    from cgsa.service.config import ServiceConfig

    return replace(ServiceConfig.load(path), **changes)


def report_command(
    folder: Folder,
    machine: Annotated[str, typer.Argument(metavar="NAME", help="Name of the machine.")],
    begin: Annotated[
        str | None, typer.Option("--from", help="Start, such as 2026-11-16T08:00 (UTC); default: a day before the end.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="End; default: the newest diagnosis.")] = None,
    into: Annotated[Path, typer.Option("--into", help="HTML file to write.")] = Path("report.html"),
    kinematics: KinematicsFile = None,
    speed: Annotated[
        float | None, typer.Option(metavar="RPM", help="Speed of the first shaft, to name the lines at alarms.")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Write a self-contained HTML report of a machine over any period.

    With [b]--kinematics[/b] and [b]--speed[/b] it names the lines that stand out around each alarm.
    """
    from cgsa.live.plant import ExplainConfig
    from cgsa.live.store import RowSelection
    from cgsa.live.store.store import read_store
    from cgsa.report.period import period_page

    known = None if kinematics is None else ExplainConfig(kinematics, speed=speed)
    with read_store(store_place(folder)) as snapshot:
        last = _timestamp(end, "--to")
        if last is None:
            newest = snapshot.diagnoses(machine, RowSelection(limit=1)).rows
            if not newest:
                raise ConfigError(f"{folder}: there are no diagnoses of machine {machine!r}")
            last = math.nextafter(newest[0].diagnosis.end, math.inf)
        first = _timestamp(begin, "--from")
        page = period_page(snapshot, machine, last - 86_400.0 if first is None else first, last, explain=known)
    path = page.write(into)
    if json:
        print_json({"report": str(path)})
    else:
        out.print(f"report: {path}", soft_wrap=True)


def sign_command(
    bundle: Model,
    key: Annotated[
        Path, typer.Argument(metavar="KEY", help="Private key; created with its public key if it does not exist.")
    ],
) -> None:
    """Sign a model for services that load only models signed with a trusted key."""
    require_package("cryptography")
    from cgsa.service.signing import create_keys, read_signed_manifest, sign_bundle

    read_signed_manifest(bundle)  # before a key is created for nothing
    if not key.exists():
        talk.print(f"new key {key}; its public key, for trusted_keys, is {create_keys(key)}", soft_wrap=True)
    out.print(f"signature: {sign_bundle(bundle, key)}", soft_wrap=True)


def _timestamp(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}; expected a date and time such as 2026-11-16T08:00") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
