"""Training of a single model, as most tests need it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cgsa.data.windows import Windows
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.offline.config import TrainConfig
from cgsa.offline.run import ProgressCallback
from cgsa.offline.trainer import train_models


def train_model(
    windows: Windows,
    manifest: Manifest,
    config: TrainConfig,
    *,
    objective_settings: Mapping[str, object] | None = None,
    checkpoint: Path | None = None,
    report: ProgressCallback | None = None,
) -> ModelBundle:
    (bundle,) = train_models(
        windows,
        [manifest],
        config,
        objective_settings=objective_settings,
        checkpoints=[checkpoint],
        report=report,
    )
    return bundle
