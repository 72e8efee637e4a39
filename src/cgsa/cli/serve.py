"""``cgsa serve``, ``cgsa token``, ``cgsa report``, ``cgsa sign``: live monitoring of machines."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json, print_table, talk
from cgsa.cli.explain import KinematicsFile
from cgsa.cli.serve_model import prepare_model, print_sender
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.service.config import ServiceConfig

Folder = Annotated[Path, typer.Argument(help="Folder of the service, as named in its configuration.")]


def serve_command(
    config: Annotated[
        Path | None, typer.Argument(help="A model written by [b]cgsa train[/b], or a configuration file (TOML).")
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
) -> None:
    """Monitor machines live: receive blocks of samples, diagnose, adapt, raise alarms, and show all of it in a browser.

    [b]cgsa serve model/ --machine press-1[/b] writes the configuration plant.toml,
    or adds the machine to the one that is there, and prints a login link. It also
    writes a program that sends recordings, or samples from another program, with a
    token of its own.

    All data are kept in one folder. After a kill at any time, the service resumes with bit-identical results.
    """
    if demo == (config is not None):
        raise ConfigError(
            "nothing to serve; expected a model, a configuration file or --demo, such as: cgsa serve --demo"
        )
    sent: tuple[str, Path] | None = None
    if config is None:
        settings = _demo_settings(folder or Path("demo-service"))
    elif config.is_dir():
        place = folder or Path()
        settings, name = prepare_model(config, machine, place, host, port)
        sent = name, place
    elif machine is not None:
        raise ConfigError(f"--machine {machine} goes with a model; {config} names its machines itself")
    else:
        settings = _file_settings(config)
    settings = replace(
        settings, host=settings.host if host is None else host, port=settings.port if port is None else port
    )
    _require("fastapi")
    from cgsa.service.service import FIRST, create_service

    service = create_service(settings)
    if not settings.is_local and settings.tls_certificate is None:
        talk.print("[yellow]note:[/] others can reach this address, and tokens are sent unencrypted; configure TLS")
    if demo:
        talk.print(f"log in: {service.login_link(time.strftime('demo-%m%d-%H%M%S'))}", soft_wrap=True)
    elif service.is_new:
        talk.print(f"first login, shown only once: {service.login_link(FIRST)}", soft_wrap=True)
    if sent is not None:
        print_sender(service, *sent)
    talk.print(f"serving {len(settings.machines)} machines at {settings.url}; press Ctrl-C to stop")
    service.run()


def _demo_settings(folder: Path) -> ServiceConfig:
    from cgsa.service.demo import prepare_demo

    return prepare_demo(folder, lambda text: talk.print(f"{text} ..."), workers=os.cpu_count() or 1)


def _file_settings(path: Path) -> ServiceConfig:
    from cgsa.service.config import ServiceConfig

    return ServiceConfig.load(path)


def token_command(
    folder: Folder,
    name: Annotated[str | None, typer.Argument(help="Name of the token; omit it to list all.")] = None,
    role: Annotated[str, typer.Option(help="[b]viewer[/b], [b]operator[/b] or [b]admin[/b].")] = "viewer",
    *,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the token instead.")] = False,
    json: AsJson = False,
) -> None:
    """Create, revoke or list tokens; while the service runs, use its API instead."""
    _require("fastapi")
    from cgsa.live.store import Store
    from cgsa.service.auth import ROLES, Authenticator

    with Store(_store(folder)) as store:
        authenticator = Authenticator(store)
        if name is None:
            rows = [(one.name, one.role, "revoked" if one.revoked else "good") for one in authenticator.tokens()]
            header = ("name", "role", "state")
            if json:
                print_json([dict(zip(header, row, strict=True)) for row in rows])
            else:
                print_table(header, rows)
        elif revoke:
            authenticator.revoke(name)
            talk.print(f"token {name} is revoked")
        else:
            found = next((known for known in ROLES if known == role), None)
            if found is None:
                raise ConfigError(f"role {role!r}; expected one of {', '.join(ROLES)}")
            secret = authenticator.create_token(name, found)
            if json:
                print_json({"name": name, "role": found, "token": secret})
            else:
                talk.print("shown only once:")
                out.print(secret, soft_wrap=True)


def report_command(
    folder: Folder,
    machine: Annotated[str, typer.Argument(help="Name of the machine.")],
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
    with read_store(_store(folder)) as snapshot:
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
    bundle: Annotated[Path, typer.Argument(help="A model written by [b]cgsa train[/b].")],
    key: Annotated[Path, typer.Argument(help="Private key; created with its public key if it does not exist.")],
) -> None:
    """Sign a model for services that load only models signed with a trusted key."""
    _require("cryptography")
    from cgsa.service.signing import create_keys, sign_bundle

    if not key.exists():
        talk.print(f"new key {key}; its public key, for trusted_keys, is {create_keys(key)}", soft_wrap=True)
    out.print(f"signature: {sign_bundle(bundle, key)}", soft_wrap=True)


def _store(folder: Path) -> Path:
    path = folder / "store.sqlite"
    if not path.exists():
        raise ConfigError(f"{folder}: there is no store here; expected the folder of a service")
    return path


def _timestamp(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}; expected a date and time such as 2026-11-16T08:00") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise ConfigError(f"this needs {package}; install it with pip install 'cgsa[serve]'")
