"""Backups of the folder of a service: consistent while it runs, verified by hashes, whole or absent."""

from __future__ import annotations

from cgsa.live.backup.create import back_up
from cgsa.live.backup.manifest import BackupManifest, read_manifest
from cgsa.live.backup.restore import restore

__all__ = ["BackupManifest", "back_up", "read_manifest", "restore"]
