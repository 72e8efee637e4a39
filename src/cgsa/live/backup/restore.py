"""Restores the folder of a service from a backup."""

from __future__ import annotations

from pathlib import Path

from cgsa.errors import DataError
from cgsa.files import replacing
from cgsa.live.backup.manifest import BackupManifest, check_files, copy_hashed, read_manifest
from cgsa.live.store.schema import MIGRATIONS


def restore(source: Path, plant: Path) -> BackupManifest:
    """Copy a verified backup to the folder of a service, which must be absent or empty."""
    manifest = read_manifest(source)
    if manifest.store_version > len(MIGRATIONS):
        raise DataError(
            f"{source}: made by cgsa {manifest.cgsa}, with a store of version {manifest.store_version}; this cgsa "
            f"reads versions up to {len(MIGRATIONS)}; install cgsa {manifest.cgsa} or newer"
        )
    if plant.exists() and (not plant.is_dir() or any(plant.iterdir())):
        raise DataError(f"{plant}: exists already; move it away first, since nothing is overwritten")
    check_files(source, manifest)
    with replacing(plant, DataError) as fresh:
        fresh.mkdir(mode=0o700)
        for name, wanted in manifest.files.items():
            with (source / name).open("rb") as file:
                found = copy_hashed(file, fresh / name)
            if found != wanted:
                raise DataError(f"{source}: {name} has changed while it was restored; nothing is restored")
            (fresh / name).chmod(0o600)
    return manifest
