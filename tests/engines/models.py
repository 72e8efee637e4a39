"""Models for tests of engines."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cgsa.data.windows import WindowSpec, overlapping_windows
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from tests.machines import bundle

PAPER = WindowSpec()


def raw_bundle() -> ModelBundle:
    """The test machine's model without its healthy reference: a network over raw windows."""
    source = bundle()
    about = replace(source.manifest, network=replace(source.manifest.network, reference=False))
    network = DiagnosisNet(about.network, 2, about.window.length, len(about.classes))
    network.load_state_dict({name: value for name, value in source.network.state_dict().items() if name != "reference"})
    return replace(source, manifest=about, model=network.eval().requires_grad_(requires_grad=False))


def large_bundle() -> ModelBundle:
    """A model over the paper's windows, whose first layer is large enough for Fourier transforms."""
    config = DiscriminatorConfig(hidden=(8, 8))
    about = replace(
        raw_bundle().manifest,
        channels=("x",),
        units=("g",),
        window=PAPER,
        network=NetworkConfig(hidden=(1024, 32, 16), tap=16),
        discriminator=config,
    )
    network = build_seeded(0, lambda: DiagnosisNet(about.network, 1, PAPER.length, len(about.classes)))
    discriminator = build_seeded(0, lambda: ConditionDiscriminator(16, config))
    return ModelBundle(about, network.eval(), discriminator.eval())


def noise_windows(count: int, *, seed: int = 0) -> Tensor:
    """Overlapping windows over one channel of noise, as the paper cuts them."""
    generator = torch.Generator().manual_seed(seed)
    return overlapping_windows(
        torch.randn(1, (count - 1) * PAPER.step + PAPER.length, generator=generator), PAPER.length, PAPER.step
    )
