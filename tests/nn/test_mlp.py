from __future__ import annotations

import pytest
import torch
from torch import nn

from cgsa.errors import ConfigError
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig, DomainDiscriminator
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded, count_parameters


@pytest.mark.parametrize(("tap", "branch"), [(64, 41_473), (256, 41_217)])
def test_the_papers_parameter_counts(tap: int, branch: int) -> None:
    network = DiagnosisNet(NetworkConfig(tap=tap), channels=6, length=1024, classes=4)
    assert count_parameters(network) == 6_965_316
    discriminator = ConditionDiscriminator(network.feature_width, DiscriminatorConfig())
    assert count_parameters(discriminator.mean) == branch
    assert count_parameters(discriminator.log_variance) == branch


@pytest.mark.parametrize("tap", [24, 12, 8])
def test_the_tap_does_not_change_the_function(tap: int) -> None:
    """G(F(x)) is one chain of layers, wherever it is divided."""
    built = build_seeded(0, lambda: DiagnosisNet(NetworkConfig(hidden=(24, 12, 8), tap=tap), 2, 16, 3))
    layers = [module for module in built.modules() if isinstance(module, nn.Linear)]
    x = torch.randn(5, 2, 16, generator=torch.Generator().manual_seed(1))
    expected = x.flatten(1)
    for number, layer in enumerate(layers):
        expected = layer(expected)
        if number < len(layers) - 2:
            expected = expected.relu()
    torch.testing.assert_close(built(x), expected)
    assert built.features(x).shape == (5, tap)


def test_seeds_determine_the_weights_and_leave_the_global_state_unchanged() -> None:
    before = torch.get_rng_state()

    def build(seed: int) -> DiagnosisNet:
        return build_seeded(seed, lambda: DiagnosisNet(NetworkConfig(hidden=(8, 4), tap=4), 1, 8, 2))

    first, same, other = build(1), build(1), build(2)
    assert torch.equal(next(first.parameters()), next(same.parameters()))
    assert not torch.equal(next(first.parameters()), next(other.parameters()))
    assert torch.equal(before, torch.get_rng_state())


def test_domain_discriminator_scores_every_domain() -> None:
    assert DomainDiscriminator(64, 3, DiscriminatorConfig())(torch.zeros(5, 64)).shape == (5, 3)


def test_invalid_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match="tap 100 is none of the hidden widths"):
        NetworkConfig(tap=100)
    with pytest.raises(ConfigError, match="positive"):
        NetworkConfig(hidden=(0, 8), tap=8)
    with pytest.raises(ConfigError, match="positive"):
        DiscriminatorConfig(hidden=(0,))
