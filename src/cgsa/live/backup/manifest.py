"""What a backup holds: its files with their sizes and hashes, in ``backup.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from cgsa.config import as_table, bind
from cgsa.errors import ConfigError, DataError

MANIFEST = "backup.json"
FORMAT, VERSION = "cgsa-backup", 1
CHUNK = 2**20


@dataclass(frozen=True)
class BackupFile:
    """One file of a backup."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class BackupManifest:
    """Description of a backup."""

    created: float
    """When it was complete, in seconds since 1970."""
    cgsa: str
    """Version of cgsa that made it."""
    store_version: int
    """Version of the tables in its store."""
    machines: tuple[str, ...] = ()
    files: Mapping[str, BackupFile] = field(default_factory=dict)
    """By paths relative to the folder of the service."""
    format: str = FORMAT
    version: int = VERSION

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files.values())


def write_manifest(folder: Path, manifest: BackupManifest) -> None:
    """Write the description of a backup into its folder."""
    (folder / MANIFEST).write_text(json.dumps(as_table(manifest), indent=1), encoding="utf-8")


def read_manifest(folder: Path) -> BackupManifest:
    """Return the description of a backup, or say why it is none that this version reads."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: no backup here (no {MANIFEST}); expected a folder that cgsa backup wrote") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(f"{path}: not the description of a backup")
    if found.get("version") != VERSION:
        raise DataError(
            f"{path}: backup of version {found.get('version')!r}, made by cgsa {found.get('cgsa')}; this cgsa reads "
            f"version {VERSION}"
        )
    files = found.pop("files", None)
    if not isinstance(files, dict):
        raise DataError(f"{path}: 'files' is no table; the file was damaged")
    try:
        described = {name: bind(BackupFile, table, f"{path}: {name}") for name, table in files.items()}
        manifest = bind(BackupManifest, found, str(path))
    except ConfigError as error:
        raise DataError(str(error)) from error
    for name in described:
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise DataError(f"{path}: {name!r} is outside of the backup; it was changed")
    return BackupManifest(**{**vars(manifest), "files": described})


def copy_hashed(source: BinaryIO, target: Path) -> BackupFile:
    """Copy a file; return size and hash of what was written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, written = hashlib.sha256(), 0
    with target.open("wb") as file:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
            written += len(chunk)
    return BackupFile(written, digest.hexdigest())


def describe_file(path: Path) -> BackupFile:
    """Return size and hash of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return BackupFile(size, digest.hexdigest())


def check_files(folder: Path, manifest: BackupManifest) -> None:
    """Fail with all files that are missing or differ from the description."""
    wrong = []
    for name, wanted in manifest.files.items():
        try:
            found = describe_file(folder / name)
        except OSError as error:
            wrong.append(f"{name} ({error.strerror})")
            continue
        if found != wanted:
            wrong.append(f"{name} (its hash differs)")
    if wrong:
        raise DataError(f"{folder}: this backup is damaged: {', '.join(wrong)}")
