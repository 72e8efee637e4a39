"""Checkpoints of training: one file, written in one step, that training goes on from with the same bits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor

from cgsa.errors import BundleError
from cgsa.files import replacing

FILE = "training.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Where training stands at the end of an epoch."""

    phase: int
    epoch: int
    """Epochs finished in this phase."""
    history: list[dict[str, float | str]]
    signature: Mapping[str, object]
    """Settings, seed and data of the training; another training must not go on from here."""
    tensors: Mapping[str, Tensor]

    def save(self, folder: Path) -> None:
        """Write the checkpoint; the one before stays until this one is whole."""
        text = {"phase": self.phase, "epoch": self.epoch, "history": self.history, "signature": dict(self.signature)}
        data = save_tensors(
            {name: tensor.contiguous().cpu() for name, tensor in self.tensors.items()}, {"cgsa": json.dumps(text)}
        )
        with replacing(folder / FILE, BundleError) as fresh:
            fresh.write_bytes(data)

    @classmethod
    def load(cls, folder: Path, signature: Mapping[str, object]) -> Checkpoint | None:
        """Read the checkpoint in ``folder``; none where there is none."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            with safe_open(str(path), framework="pt") as file:
                text = json.loads(cast(dict[str, str], file.metadata() or {})["cgsa"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise BundleError(f"{path}: no training checkpoint ({error}); remove it to train from the start") from error
        plain = json.loads(json.dumps(dict(signature)))
        different = sorted(key for key in plain if text["signature"].get(key) != plain[key])
        if different:
            raise BundleError(
                f"{path}: made by another training: {', '.join(different)} differ; "
                f"remove it, or train into another folder"
            )
        return cls(text["phase"], text["epoch"], text["history"], text["signature"], tensors)


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoints in ``folder`` and below, and every folder in which nothing else is."""
    for path in sorted(folder.rglob(FILE), reverse=True):
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
