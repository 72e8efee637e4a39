"""cgsa: fault diagnosis that adapts itself to operating conditions nobody trained for.

The public names are loaded when they are first used, so ``import cgsa`` and
``cgsa --help`` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from cgsa.data.library import FolderLibrary, RigLibrary, open_library
    from cgsa.data.readers import read_recording
    from cgsa.data.recording import Recording
    from cgsa.data.scenario import Scenario
    from cgsa.data.windows import Segment, Windows, WindowSpec
    from cgsa.errors import CgsaError
    from cgsa.live.engine import diagnose, record
    from cgsa.metrics.stream import StreamScore, StreamTrace, score
    from cgsa.nn.bundle import ModelBundle
    from cgsa.offline import OBJECTIVES
    from cgsa.offline.trainer import train_source
    from cgsa.online import METHODS
    from cgsa.online.base import OnlineMethod, StepOutput
    from cgsa.profiles import Profile
    from cgsa.workflow import meet, stream_windows, train, training_windows

_HOMES = {
    "FolderLibrary": "cgsa.data.library",
    "RigLibrary": "cgsa.data.library",
    "open_library": "cgsa.data.library",
    "read_recording": "cgsa.data.readers",
    "Recording": "cgsa.data.recording",
    "Scenario": "cgsa.data.scenario",
    "Segment": "cgsa.data.windows",
    "WindowSpec": "cgsa.data.windows",
    "Windows": "cgsa.data.windows",
    "CgsaError": "cgsa.errors",
    "diagnose": "cgsa.live.engine",
    "record": "cgsa.live.engine",
    "StreamScore": "cgsa.metrics.stream",
    "StreamTrace": "cgsa.metrics.stream",
    "score": "cgsa.metrics.stream",
    "ModelBundle": "cgsa.nn.bundle",
    "OBJECTIVES": "cgsa.offline",
    "train_source": "cgsa.offline.trainer",
    "METHODS": "cgsa.online",
    "OnlineMethod": "cgsa.online.base",
    "StepOutput": "cgsa.online.base",
    "Profile": "cgsa.profiles",
    "meet": "cgsa.workflow",
    "stream_windows": "cgsa.workflow",
    "train": "cgsa.workflow",
    "training_windows": "cgsa.workflow",
}

__all__ = [
    "METHODS",
    "OBJECTIVES",
    "CgsaError",
    "FolderLibrary",
    "ModelBundle",
    "OnlineMethod",
    "Profile",
    "Recording",
    "RigLibrary",
    "Scenario",
    "Segment",
    "StepOutput",
    "StreamScore",
    "StreamTrace",
    "WindowSpec",
    "Windows",
    "__version__",
    "diagnose",
    "meet",
    "open_library",
    "read_recording",
    "record",
    "score",
    "stream_windows",
    "train",
    "train_source",
    "training_windows",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cgsa' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
