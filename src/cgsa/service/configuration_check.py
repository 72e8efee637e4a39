"""Checks a configuration without starting a service, and lists everything that is wrong at once."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import os
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cryptography import x509

from cgsa.config import read_toml
from cgsa.data.dataset_file import is_data_set
from cgsa.errors import CgsaError, ConfigError
from cgsa.explain.kinematics import load_kinematics
from cgsa.live.checkpoint import StateRetention
from cgsa.live.plant import MachineConfig
from cgsa.live.store.opening import STORE_FILE, postgres_module
from cgsa.live.store.schema import MIGRATIONS
from cgsa.live.store.store import read_store
from cgsa.live.watch import Watch
from cgsa.nn.bundle import ModelBundle
from cgsa.registry import Registry
from cgsa.service.config import ServiceConfig
from cgsa.service.links.broker import Tls
from cgsa.service.links.secret import Secret
from cgsa.service.links.settings import bind_link
from cgsa.service.permissions import open_to_others
from cgsa.service.signing import verify_bundle
from cgsa.service.sinks import SINKS
from cgsa.service.sources import SOURCES

MEGABYTE = 10**6
LEAST_FREE = 500 * MEGABYTE
"""Free space below which a service would soon stand still."""
JOURNAL_MEGABYTES = 300
"""What the journal of a machine takes, with some margin."""
EXPIRY_DAYS = 30
"""Days before its end from which on a certificate is named."""

Severity: TypeAlias = Literal["problem", "note"]


@dataclass(frozen=True)
class ConfigFinding:
    """Something about a configuration that somebody should know."""

    severity: Severity
    """A ``problem`` keeps the service, or a part of it, from working."""
    where: str
    """The setting, or what it names."""
    text: str


def check_configuration(path: Path) -> list[ConfigFinding]:
    """Return what is wrong with a configuration, problems first."""
    try:
        table = read_toml(path)
    except CgsaError as error:
        return [ConfigFinding("problem", str(path), str(error))]
    config, found = _bind_whole_parts(table, path)
    for check in (
        _check_folder,
        _check_database,
        _check_address,
        _check_certificate,
        _check_machines,
        check_links,
        _check_disk,
    ):
        found += check(config)
    return sorted(found, key=lambda one: one.severity != "problem")


def is_in_use(folder: Path) -> bool:
    """Return whether a service runs on a folder."""
    try:
        handle = os.open(folder / f"{STORE_FILE}.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _bind_whole_parts(table: Mapping[str, object], path: Path) -> tuple[ServiceConfig, list[ConfigFinding]]:
    """Return a configuration of the parts that are right, and what is wrong with the others."""
    try:
        return ServiceConfig.from_table(table, path), []
    except ConfigError as error:
        found = [ConfigFinding("problem", str(path), _without(line, path)) for line in str(error).splitlines()]
    usable: dict[str, object] = {}
    for name, value in table.items():
        parts = [one for one in value if _binds({name: [one]}, path)] if isinstance(value, list) else value
        if _binds({**usable, name: parts}, path):
            usable[name] = parts
    return ServiceConfig.from_table(usable, path), found


def _binds(table: Mapping[str, object], path: Path) -> bool:
    try:
        ServiceConfig.from_table(table, path)
    except ConfigError:
        return False
    return True


def _without(line: str, path: Path) -> str:
    return line.removeprefix(f"{path}: ")


def _attempt(where: str, action: Callable[[], object]) -> Iterator[ConfigFinding]:
    """Yield what keeps an action from success."""
    try:
        action()
    except CgsaError as error:
        yield ConfigFinding("problem", where, str(error))
    except (OSError, ValueError, RuntimeError) as error:
        # Of a device that PyTorch does not know, it says so with a RuntimeError.
        yield ConfigFinding("problem", where, f"cannot be used ({error})")


def _check_folder(config: ServiceConfig) -> Iterator[ConfigFinding]:
    folder = Path(config.folder)
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield ConfigFinding("problem", "folder", f"{folder}: cannot be written")
    if is_in_use(folder):
        yield ConfigFinding("note", "folder", f"{folder}: a service runs on it")
    store = folder / STORE_FILE
    if store.is_file() and config.store is None:
        yield from _attempt("folder", partial(_check_store, store))
    for text in open_to_others((folder, store, *([Path(config.tls_key)] if config.tls_key else []))):
        yield ConfigFinding("note", "folder", text)


def _check_store(store: Path) -> None:
    with read_store(store) as snapshot:
        version = snapshot.version()
    if version > len(MIGRATIONS):
        raise ConfigError(f"{store}: store of version {version}; this cgsa reads versions up to {len(MIGRATIONS)}")


def _check_database(config: ServiceConfig) -> Iterator[ConfigFinding]:
    """Yield what is wrong with a store in PostgreSQL, its secret and its certificates."""
    if config.store is None:
        return
    found = list(_check_files("store", config.store))
    store = Path(config.folder) / STORE_FILE
    if store.exists():
        text = f"{store}: this folder has a store of its own, whose history the database would lack; move it away"
        found.append(ConfigFinding("problem", "store", text))
    try:
        problems, notes = postgres_module("examination").examine_postgres(config.store.address())
    except CgsaError as error:
        problems, notes = [str(error)], []
    yield from found
    known = [one.text for one in found]
    # A secret that cannot be read was named already.
    yield from (ConfigFinding("problem", "store", text) for text in problems if not any(one in text for one in known))
    yield from (ConfigFinding("note", "store", text) for text in notes)


def _check_address(config: ServiceConfig) -> Iterator[ConfigFinding]:
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and is_in_use(Path(config.folder)):
            yield ConfigFinding(
                "note", "port", f"{config.port} is taken, by the service that runs or by another program"
            )
            return
        yield ConfigFinding("problem", "host, port", f"{config.host}:{config.port}: {error.strerror or error}")
    if not config.is_local and config.tls_certificate is None:
        text = "others can reach this address, and tokens are sent unencrypted; configure TLS"
        yield ConfigFinding("note", "tls_certificate", text)


def _check_certificate(config: ServiceConfig) -> Iterator[ConfigFinding]:
    if config.tls_certificate is None or config.tls_key is None:
        return
    certificate, key = config.tls_certificate, config.tls_key
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found = list(_attempt("tls_certificate", partial(context.load_cert_chain, certificate, key, password="")))
    yield from found
    if not found:
        yield from _check_expiry(Path(certificate))


def _check_expiry(certificate: Path) -> Iterator[ConfigFinding]:
    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    begin, end = loaded.not_valid_before_utc, loaded.not_valid_after_utc
    now = datetime.now(UTC)
    if not begin <= now <= end:
        yield ConfigFinding(
            "problem", "tls_certificate", f"{certificate}: valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
        )
    elif (end - now).days < EXPIRY_DAYS:
        yield ConfigFinding("note", "tls_certificate", f"{certificate}: ends on {end:%Y-%m-%d}")


def _check_machines(config: ServiceConfig) -> Iterator[ConfigFinding]:
    def verify(folder: Path, manifest: bytes) -> None:
        if config.trusted_keys:
            verify_bundle(folder, config.trusted_keys, manifest=manifest)

    models: dict[str, ModelBundle] = {}
    for machine in config.machines:
        yield from _attempt(f"machine {machine.name}", partial(_check_machine, machine, config, models, verify))
        for path in machine.explain.healthy:
            if not (Path(path).is_file() or is_data_set(Path(path))):
                text = f"{path}: no recording and no data set"
                yield ConfigFinding("problem", f"machine {machine.name}: explain.healthy", text)
        if machine.explain.kinematics is not None:
            where = f"machine {machine.name}: explain.kinematics"
            yield from _attempt(where, partial(load_kinematics, machine.explain.kinematics))


def _check_machine(
    machine: MachineConfig,
    config: ServiceConfig,
    models: dict[str, ModelBundle],
    verify: Callable[[Path, bytes], None],
) -> None:
    """Do what a start does with a machine, but for its files."""
    name = str(Path(machine.bundle).resolve())
    if name not in models:
        models[name] = ModelBundle.load(Path(machine.bundle), config.device, verify=verify)
    Watch(machine.name, models[name], machine.watch_config(models[name]), device=config.device)


def check_links(config: ServiceConfig) -> Iterator[ConfigFinding]:
    """Yield what is wrong with sources and sinks, their secrets and their certificates."""
    machines = {machine.name for machine in config.machines}
    yield from _check_tables("source", SOURCES, config.sources, machines)
    yield from _check_tables("sink", SINKS, config.sink_tables, machines)
    sinks = [str(table.get("name", table.get("kind"))) for table in config.sink_tables]
    for step in config.escalation.steps:
        if step not in sinks:
            text = f"no sink {step!r} is configured; there are {', '.join(sinks) or 'none'}"
            yield ConfigFinding("problem", "escalation.steps", text)
    if config.oidc is not None:
        yield from _check_files("oidc", config.oidc)


def _check_tables(
    what: str, registry: Registry[Any], tables: Sequence[Mapping[str, object]], machines: set[str]
) -> Iterator[ConfigFinding]:
    names: list[str] = []
    for number, table in enumerate(tables, 1):
        where = f"{what} {table.get('name', table.get('kind', number))}"
        try:
            name, _, settings = bind_link(registry, table)
        except CgsaError as error:
            yield ConfigFinding("problem", where, str(error))
            continue
        if name in names:
            yield ConfigFinding("problem", where, "there are two of this name; expected different names")
        names.append(name)
        machine = getattr(settings, "machine", None)
        if machine is not None and machine not in machines:
            known = ", ".join(sorted(machines)) or "none"
            yield ConfigFinding("problem", where, f"no machine {machine!r} is configured; there are {known}")
        yield from _check_files(where, settings)


def _check_files(where: str, settings: object) -> Iterator[ConfigFinding]:
    """Read the secrets and certificates of a link, and look for its recordings and folders."""
    if isinstance(settings, Secret):
        yield from _attempt(where, settings.read)
        if settings.file is not None:
            yield from (ConfigFinding("note", where, text) for text in open_to_others([Path(settings.file)]))
    elif isinstance(settings, Tls):
        yield from _attempt(where, settings.context)
    elif isinstance(settings, tuple):
        for one in settings:
            yield from _check_files(where, one)
    elif dataclasses.is_dataclass(settings):
        values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
        yield from _check_named_files(where, values)
        for value in values.values():
            yield from _check_files(where, value)


def _check_named_files(where: str, values: Mapping[str, Any]) -> Iterator[ConfigFinding]:
    """Look for what the settings of a link name by paths."""
    if values.get("ca") is not None:
        yield from _attempt(where, partial(ssl.create_default_context, cafile=values["ca"]))
    if isinstance(values.get("files"), tuple):
        missing = [name for name in values["files"] if not Path(name).is_file()]
        yield from (ConfigFinding("problem", where, f"{name}: there is no such file") for name in missing)
    if values.get("folder") and not Path(values["folder"]).is_dir():
        yield ConfigFinding("problem", where, f"{values['folder']}: there is no such folder")


def _check_disk(config: ServiceConfig) -> Iterator[ConfigFinding]:
    folder = Path(config.folder).absolute()
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(existing).free
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
    machine = config.worker.keep.megabytes + config.ledger.megabytes + JOURNAL_MEGABYTES
    machine += StateRetention().max_bytes / MEGABYTE
    needed = len(config.machines) * machine * MEGABYTE
    if free < LEAST_FREE:
        yield ConfigFinding("problem", "folder", f"{folder}: {free / MEGABYTE:.0f} MB are free on its disk")
    elif free + used < needed:
        text = f"{free / MEGABYTE:.0f} MB are free on its disk; {len(config.machines)} machines may take up to"
        yield ConfigFinding("note", "folder", f"{folder}: {text} {needed / MEGABYTE:.0f} MB in the long run")
