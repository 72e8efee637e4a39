from __future__ import annotations

import pytest
import torch
from torch import nn

from cgsa.errors import ConfigError
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig, DomainDiscriminator
from cgsa.nn.losses import gaussian_nll
from cgsa.nn.mlp import build_seeded, count_parameters
from cgsa.nn.optim import make_adam

FEATURES = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))


def make(**settings: object) -> ConditionDiscriminator:
    config = DiscriminatorConfig(hidden=(16, 16), **settings)  # type: ignore[arg-type]
    return build_seeded(0, lambda: ConditionDiscriminator(8, config))


def test_the_norm_has_no_parameters() -> None:
    assert count_parameters(make()) == count_parameters(make(norm="none"))


def test_a_response_does_not_depend_on_the_other_windows() -> None:
    """In training the normalisation depends on the batch; in use it must not."""
    discriminator = make()
    discriminator(FEATURES)
    discriminator.eval()
    whole = discriminator.response(FEATURES)
    for part in (slice(0, 1), slice(10, 13)):
        torch.testing.assert_close(discriminator.response(FEATURES[part]), whole[part], rtol=1e-5, atol=1e-6)


def test_larger_features_do_not_change_a_normalised_discriminator() -> None:
    """This is the way out that F would take: with the norm it leads nowhere."""
    with torch.no_grad():
        for norm, moves in (("batch", False), ("none", True)):
            discriminator = make(norm=norm)
            for branch in (discriminator.mean, discriminator.log_variance):
                first = branch[0]
                assert isinstance(first, nn.Linear)
                first.bias.zero_()
            mean, log_variance = discriminator(FEATURES)
            larger_mean, larger_variance = discriminator(100 * FEATURES)
            condition = torch.rand(64, 1, generator=torch.Generator().manual_seed(1))
            change = gaussian_nll(larger_mean, larger_variance, condition) - gaussian_nll(mean, log_variance, condition)
            assert (abs(float(change)) > 1) == moves


@pytest.mark.parametrize("conditions", [1, 3])
def test_a_further_condition_costs_one_row_of_the_last_layer(conditions: int) -> None:
    config = DiscriminatorConfig(hidden=(16, 16))
    discriminator = ConditionDiscriminator(8, config, conditions)
    assert [output.shape for output in discriminator(FEATURES)] == [(64, conditions)] * 2
    assert count_parameters(discriminator) == count_parameters(make()) + 2 * 17 * (conditions - 1)


def test_every_condition_has_its_own_column() -> None:
    conditions = torch.sigmoid(FEATURES[:, :2])
    discriminator = build_seeded(0, lambda: ConditionDiscriminator(8, DiscriminatorConfig(hidden=(16, 16)), 2))
    optimizer = make_adam(discriminator.parameters(), 1e-2)
    for _ in range(100):
        mean, log_variance = discriminator(FEATURES)
        optimizer.zero_grad()
        torch.autograd.backward(gaussian_nll(mean, log_variance, conditions))
        optimizer.step()
    response = discriminator.eval().response(FEATURES)
    left = (conditions - response).square().mean(dim=0) / conditions.var(dim=0)
    assert (left < 0.1).all()


def test_the_domain_discriminator_has_the_same_layers() -> None:
    domains = DomainDiscriminator(8, 3, DiscriminatorConfig(hidden=(16, 16)))
    assert domains(FEATURES).shape == (64, 3)
    assert [type(layer) for layer in domains.body] == [type(layer) for layer in make().mean]


def test_invalid_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match="hidden widths"):
        DiscriminatorConfig(hidden=(0,))


@pytest.mark.parametrize("norm", ["batch", "none", "affine"])
def test_a_folded_response_has_its_norms_folded_in(norm: str) -> None:
    discriminator = make(norm=norm)
    for _ in range(5):
        discriminator(FEATURES * 3 + 1)  # norms learn what is usual
    with torch.no_grad():
        for module in discriminator.modules():
            if isinstance(module, nn.BatchNorm1d) and module.affine:
                module.weight.uniform_(0.5, 2.0)
                module.bias.normal_()
    discriminator.eval()
    settled = discriminator.folded_response()
    assert not [module for module in settled if isinstance(module, nn.BatchNorm1d)]
    assert not any(parameter.requires_grad for parameter in settled.parameters())
    torch.testing.assert_close(settled(FEATURES), discriminator.response(FEATURES).detach())


def test_only_some_shapes_have_the_papers_parameter_count() -> None:
    """Its table V leaves 40,868 to 41,867 parameters for the mean branch."""
    counts = {
        (tap, norm): count_parameters(ConditionDiscriminator(tap, DiscriminatorConfig(norm=norm)).mean)
        for tap in (64, 256)
        for norm in ("batch", "none", "affine")
    }
    assert counts[64, "batch"] == counts[64, "none"] == 41_473
    assert counts[256, "batch"] == counts[256, "none"] == 41_217
    assert counts[256, "affine"] == 41_601
    assert counts[64, "affine"] == 42_241
