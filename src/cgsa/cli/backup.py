"""``cgsa backup`` and ``cgsa restore``: the folder of a service as one verified copy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json
from cgsa.cli.service_folder import Folder

if TYPE_CHECKING:
    from cgsa.live.backup import BackupManifest

MEGABYTE = 10**6


def backup_command(
    folder: Folder,
    target: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder to create; it must not exist yet.")],
    *,
    json: AsJson = False,
) -> None:
    """Back up the data of a service, also while it runs.

    The backup has everything in the folder of the service: journals, states, store, outbox and tokens. Its hashes are
    in backup.json. It is complete and verified when the folder exists; an interrupted backup leaves none. The
    configuration and the models are files of your own: keep them with it.

    [b]cgsa backup plant /backup/plant-monday[/b]
    """
    from cgsa.live.backup import back_up
    from cgsa.service.permissions import private_files

    with private_files():
        manifest = back_up(folder, target)
    _show("backup", target, manifest, as_json=json)


def restore_command(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup that [b]cgsa backup[/b] wrote.")],
    folder: Annotated[
        Path, typer.Argument(metavar="SERVICE", help="Folder of the service to create; it must be absent or empty.")
    ],
    *,
    json: AsJson = False,
) -> None:
    """Restore the data of a service from a backup whose hashes are right; nothing is overwritten.

    A service that starts on the folder resumes with the same verdicts as one that was killed when the backup was made.

    [b]cgsa restore /backup/plant-monday plant[/b]
    """
    from cgsa.live.backup import restore
    from cgsa.service.permissions import private_files

    with private_files():
        manifest = restore(source, folder)
    _show("restored", folder, manifest, as_json=json)


def _show(what: str, folder: Path, manifest: BackupManifest, *, as_json: bool) -> None:
    about = {
        "folder": str(folder),
        "created": manifest.created,
        "cgsa": manifest.cgsa,
        "machines": list(manifest.machines),
        "files": len(manifest.files),
        "bytes": manifest.bytes,
    }
    if as_json:
        print_json(about)
        return
    when = f"{datetime.fromtimestamp(manifest.created, UTC):%Y-%m-%d %H:%M:%S} UTC"
    out.print(
        f"{what}: {folder}, {len(manifest.machines)} machines, {len(manifest.files)} files, "
        f"{manifest.bytes / MEGABYTE:.1f} MB, of {when}",
        soft_wrap=True,
        markup=False,
    )
