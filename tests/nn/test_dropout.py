from __future__ import annotations

from copy import deepcopy

import torch

from cgsa.nn.dropout import Dropout, set_dropout_generator
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded

X = torch.ones(2000, 10)


def test_dropout_zeroes_a_share_and_keeps_the_mean() -> None:
    dropout = Dropout(0.25)
    set_dropout_generator(dropout, torch.Generator().manual_seed(0))
    out = dropout(X)
    assert set(out.unique().tolist()) == {0.0, float(torch.tensor(1.0) / 0.75)}
    assert abs(float((out == 0).float().mean()) - 0.25) < 0.01
    assert abs(float(out.mean()) - 1) < 0.02


def test_dropout_uses_only_its_generator() -> None:
    dropout = Dropout(0.5)
    outs = []
    for disturbed in (False, True):
        set_dropout_generator(dropout, torch.Generator().manual_seed(3))
        if disturbed:
            torch.rand(100)
        outs.append(dropout(X))
    assert torch.equal(*outs)


def test_a_model_in_use_has_no_dropout() -> None:
    config = NetworkConfig(hidden=(16, 8), tap=8, dropout=0.5)
    network = build_seeded(0, lambda: DiagnosisNet(config, 2, 32, 3))
    plain = build_seeded(0, lambda: DiagnosisNet(NetworkConfig(hidden=(16, 8), tap=8), 2, 32, 3))
    x = torch.randn(5, 2, 32)
    set_dropout_generator(network, torch.Generator())
    assert not torch.equal(network(x), plain(x))
    assert torch.equal(network.eval()(x), plain(x))
    set_dropout_generator(network, None)
    assert torch.equal(deepcopy(network).train()(x), plain(x))
