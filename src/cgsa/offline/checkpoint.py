"""Checkpoints of training: one file, written atomically, from which training resumes with bit-identical results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from cgsa.errors import BundleError
from cgsa.files import replacing
from cgsa.nn import container

FILE = "training.safetensors"
METADATA_KEY = "cgsa"


@dataclass(frozen=True)
class Checkpoint:
    """Progress of a training at the end of an epoch."""

    phase: int
    epoch: int
    """Epochs finished in this phase."""
    history: list[dict[str, float | str]]
    signature: Mapping[str, object]
    """Settings, seed and data of the training; only the same training may resume from here."""
    tensors: Mapping[str, Tensor]

    def save(self, folder: Path) -> None:
        """Write the checkpoint; the previous one stays until this one is complete."""
        about = {"phase": self.phase, "epoch": self.epoch, "history": self.history, "signature": dict(self.signature)}
        text = container.encode_object(about, "the signature of a training").decode()
        pieces = container.encode_tensors(self.tensors, {METADATA_KEY: text})
        with replacing(folder / FILE, BundleError) as fresh, fresh.open("wb") as file:
            file.writelines(pieces)

    @classmethod
    def load(cls, folder: Path, signature: Mapping[str, object]) -> Checkpoint | None:
        """Read the checkpoint in ``folder``; return None if there is none."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            data = container.read_regular(path, container.MAX_TENSOR_BYTES)
            text = container.parse_object(str(container.decode_metadata(data, path).get(METADATA_KEY)), path)
            found = cls(**{**text, "tensors": container.decode_tensors(data, path)})
        except (BundleError, TypeError) as error:
            raise BundleError(
                f"{path}: holds no training checkpoint ({error}); remove it to train from the start"
            ) from error
        plain = container.parse_object(container.encode_object(signature, "the signature of a training"), path)
        different = sorted(key for key in plain if found.signature.get(key) != plain[key])
        if different:
            raise BundleError(
                f"{path}: made by another training: {', '.join(different)} differ; "
                f"remove it, or train into another folder"
            )
        return found


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoints in ``folder`` and below, and every folder that is empty without them."""
    for path in sorted(folder.rglob(FILE), reverse=True):
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
