"""The exported package: its description, and the model as functions of arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

FORMAT, VERSION, DESCRIPTION = "cgsa-edge", 1, "package.json"
FRONTEND, MODEL, OWN_START = "frontend.onnx", "model.onnx", "own_start.onnx"


class EdgeError(Exception):
    """Something is wrong with a package or with a recording; the message says what, where, and what is expected."""


class EdgePackage:
    """A model with everything that is needed to use it."""

    def __init__(self, folder: Path) -> None:
        path = folder / DESCRIPTION
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise EdgeError(f"{path}: cannot read it: {error}; expected what cgsa export wrote") from error
        if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (FORMAT, VERSION):
            raise EdgeError(f"{path}: not of format {FORMAT}, version {VERSION}; export the model again")
        self.description: Mapping[str, Any] = found
        self.kind: str = found["kind"]
        self.classes: list[str] = found["classes"]
        self.channels: list[str] = found["channels"]
        self.sample_rate: float = found["sample_rate"]
        self.length, self.step = int(found["window"]["length"]), int(found["window"]["step"])
        self._sessions = {name: _session(folder, name, found["sha256"]) for name in found["sha256"]}

    def features(self, samples: Singles) -> dict[str, Doubles]:
        """Return ``features``, and ``means`` if the model needs them, of the windows of samples (channels, samples)."""
        return _run(self._sessions[FRONTEND], {"samples": samples.astype(np.float64)})

    def outputs(self, **inputs: Doubles) -> dict[str, npt.NDArray[Any]]:
        """Return what the model says about features."""
        return _run(self._sessions[MODEL], inputs)

    def log_distances(self, rows: Doubles, starts: Doubles) -> Doubles:
        """Return the logarithm of the distance of windows from healthy starts of the machine, (windows, starts)."""
        return np.asarray(_run(self._sessions[OWN_START], {"rows": rows, "starts": starts})["log_distance"])


def _session(folder: Path, name: str, sha256: Mapping[str, str]) -> onnxruntime.InferenceSession:
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise EdgeError(f"{folder / name}: cannot read it: {error}; export the model again") from error
    if hashlib.sha256(content).hexdigest() != sha256[name]:
        raise EdgeError(f"{folder / name}: hash differs from {DESCRIPTION}; the file was damaged or exchanged")
    options = onnxruntime.SessionOptions()
    # Batches are small: further threads would wait for each other most of the time.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _run(session: onnxruntime.InferenceSession, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
