"""Parameter volumes a batch on the paper's network: its efficiency table, to the last digit it prints."""

from __future__ import annotations

import pytest
import torch

from cgsa.data.recording import Recording
from cgsa.data.scenario import Condition
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.nn.volume import count_volume
from cgsa.online import METHODS

TABLE = {
    "tent_full": (6.965, 6.965),
    "adacontrast": (27.861, 6.965),
    "dplot": (34.827, 13.931),
    "surgeon": (20.896, 13.931),
    "oafd": (13.931, 6.965),
    "cgsa": (13.972, 6.965),
}
"""Millions of parameters a batch, forward and backward: table V of the paper."""

# Untrained models are uncertain of everything: thresholds are relaxed so that a step learns, as it does in the paper.
SETTINGS: dict[str, dict[str, object]] = {
    "cgsa": {"min_confidence": 0.0, "tau": 1e9, "queue": 1},
    "surgeon": {"margin": 1.0},
    "dplot": {"selection_windows": 8, "batch_size": 8},
}
CHANNELS = tuple("abcdef")


@pytest.fixture(scope="module")
def paper_bundle() -> ModelBundle:
    manifest = Manifest(
        classes=("health", "f1", "f2", "f3"),
        channels=CHANNELS,
        units=("g",) * 6,
        sample_rate=12_800.0,
        window=WindowSpec(),
        conditions=(Condition("torque", "Nm", 0.0, 15.0, 0.5),),
        network=NetworkConfig(),
        discriminator=DiscriminatorConfig(),
        objective="cal",
    )
    network = build_seeded(0, lambda: DiagnosisNet(manifest.network, 6, 1024, 4))
    discriminator = build_seeded(0, lambda: ConditionDiscriminator(64, DiscriminatorConfig()))
    return ModelBundle(manifest, network.eval(), discriminator.eval())


@pytest.fixture(scope="module")
def source() -> Windows:
    signal = torch.randn(4, 6, 2048, generator=torch.Generator().manual_seed(1)).numpy()
    pieces = [Recording(one, 12_800.0, CHANNELS, ("g",) * 6, source=str(n)) for n, one in enumerate(signal)]
    return Windows([Segment(piece, label, 0) for label, piece in enumerate(pieces)], WindowSpec(1024, 512))


@pytest.mark.parametrize("name", list(TABLE))
def test_volumes_equal_the_papers_table(name: str, paper_bundle: ModelBundle, source: Windows) -> None:
    method = METHODS[name](paper_bundle, SETTINGS.get(name), source=source)
    x = torch.randn(12, 6, 1024, generator=torch.Generator().manual_seed(2))
    with count_volume() as volume:
        method.step(x)
    assert (round(volume.forward / 1e6, 3), round(volume.backward / 1e6, 3)) == TABLE[name]
