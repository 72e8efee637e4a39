from __future__ import annotations

import pytest
import torch

from cgsa.nn.known import NEVER, imitation_shares
from cgsa.nn.trees import TreeHead
from cgsa.offline.known_trees import fit_check_trees, held_out_shares, tree_limits


def rings(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Genuine windows on two sides of one imitation, which no direction separates, and a second one far away."""
    generator = torch.Generator().manual_seed(seed)
    genuine = torch.randn(60, 2, generator=generator) * 0.2 + torch.tensor([2.0, 0.0])
    genuine[::2, 0] *= -1
    between, away = 0.2 * torch.randn(30, 2, generator=generator), 0.2 * torch.randn(30, 2, generator=generator) + 9
    return genuine, torch.stack([between, away], dim=1)


def test_trees_separate_what_no_direction_does() -> None:
    genuine, imitated = rings(0)
    head = TreeHead(classes=3)
    fit_check_trees(head, genuine, imitated)
    elsewhere, others = rings(1)
    assert float(imitation_shares(head(elsewhere)).max()) < 0.5
    for number in range(2):
        shares = imitation_shares(head(others[:, number]))
        assert float(shares[:, number].min()) > 0.5


def test_held_out_shares_are_those_of_trees_fitted_to_the_rest() -> None:
    genuine, imitated = rings(0)
    genuine_out, imitated_out = rings(1)
    found, own = held_out_shares(genuine, imitated, genuine_out, imitated_out, [1])
    assert found.shape == (60, 1)
    assert own.shape == (30, 2, 1)
    head = TreeHead(classes=2)
    fit_check_trees(head, genuine, imitated[:, [1]])
    torch.testing.assert_close(found, imitation_shares(head(genuine_out)).double())
    for number in range(2):
        torch.testing.assert_close(own[:, number], imitation_shares(head(imitated_out[:, number])).double())


def test_a_limit_is_halfway_where_imitations_are_apart() -> None:
    genuine, own = torch.full((100, 1), 0.2).double(), torch.full((50, 1), 0.9).double()
    assert tree_limits(genuine, own).tolist() == [pytest.approx(0.55)]


def test_a_limit_is_above_genuine_windows_where_imitations_overlap() -> None:
    genuine = torch.linspace(0, 0.6, 1001).double()[:, None]
    own = torch.linspace(0.5, 1, 101).double()[:, None]
    (limit,) = tree_limits(genuine, own).tolist()
    assert 0.599 < limit < 0.601
    assert float((genuine > limit).double().mean()) <= 0.001


def test_a_check_that_finds_less_than_half_never_decides() -> None:
    genuine = torch.linspace(0, 0.6, 1001).double()[:, None]
    own = torch.linspace(0.3, 0.8, 101).double()[:, None]
    assert tree_limits(genuine, own).tolist() == [NEVER]


def test_several_checks_together_call_no_more_genuine_windows_unknown_than_one() -> None:
    """Each check has its own rare windows; single limits would add up to ten times the share."""
    generator = torch.Generator().manual_seed(0)
    genuine = 0.3 * torch.rand(20_000, 10, generator=generator, dtype=torch.double)
    rare = torch.rand(20_000, 10, generator=generator) < 0.002
    genuine[rare] += 0.4 * torch.rand(int(rare.sum()), generator=generator, dtype=torch.double)
    limits = tree_limits(genuine, torch.full((50, 10), 0.9).double())
    assert float((genuine > limits).any(dim=1).double().mean()) <= 0.001
