"""Saved states of a machine: in a folder, or as bytes of a pickled object; nothing is ever unpickled of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from cgsa.errors import BundleError
from cgsa.live.checkpoint import Checkpoints
from cgsa.live.signal_diagnoser import SignalDiagnoser
from cgsa.nn import container

COUNTERS = ("batches", "windows")
PACKED = Path("packed state")
"""Stands for a file name in messages."""


def save_state(signal: SignalDiagnoser, folder: Path) -> Path:
    """Save the state of a diagnoser in a folder."""
    Checkpoints(folder).save(signal.windows, signal.state_dict(), _about(signal), time=signal.now)
    return folder


def load_state(signal: SignalDiagnoser, folder: Path) -> None:
    """Load the newest undamaged state of a folder; one of another model or other settings is refused."""
    saved = Checkpoints(folder)
    newest = saved.newest()
    if newest is None:
        why = "; ".join(saved.notes) or "it holds no saved state"
        raise BundleError(f"{folder}: {why}; expected what save_state wrote")
    _restore(signal, newest.tensors, newest.saved.about, folder)


def pack_state(signal: SignalDiagnoser) -> dict[str, bytes]:
    """Return the state as bytes."""
    tensors = b"".join(container.encode_tensors(signal.state_dict()))
    return {"about": container.encode_object(_about(signal), "the state"), "tensors": tensors}


def unpack_state(signal: SignalDiagnoser, packed: Mapping[str, bytes]) -> None:
    """Load the state of :func:`pack_state`."""
    tensors = container.decode_tensors(packed["tensors"], PACKED)
    _restore(signal, tensors, container.parse_object(packed["about"], PACKED), PACKED)


def _about(signal: SignalDiagnoser) -> dict[str, object]:
    model = container.sha256_of(container.encode_tensors(signal.bundle.model.state_dict()))
    counters = {name: getattr(signal, name) for name in COUNTERS}
    return {"identity": json.loads(json.dumps({**signal.identity, "model": model})), **counters}


def _restore(signal: SignalDiagnoser, tensors: Mapping[str, Tensor], about: Mapping[str, Any], where: Path) -> None:
    own, found = _about(signal)["identity"], about.get("identity")
    if not isinstance(own, dict) or not isinstance(found, dict):
        raise BundleError(f"{where}: it does not say which machine it belongs to; expected what save_state wrote")
    other = [name for name in own if found.get(name) != own[name]]
    if other:
        raise BundleError(
            f"{where}: the state of a machine with another {', '.join(other)}; load the model and the settings that it "
            f"was saved with"
        )
    signal.load_state_dict(tensors)
    for name in COUNTERS:
        setattr(signal, name, int(about[name]))
