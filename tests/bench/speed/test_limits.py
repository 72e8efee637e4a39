from __future__ import annotations

import pytest

from cgsa.bench.speed.limits import MatmulRates, measure_matmul_rates
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig


def test_products_of_a_batch_are_counted_once_each() -> None:
    network = DiagnosisNet(NetworkConfig(hidden=(5, 3), tap=3), 2, 10, 2)
    first, rest = 20 * 5, 5 * 3 + 3 * 2
    limits = MatmulRates(single=1e3, bfloat16=2e3)
    assert limits.seconds(network, 7, mixed=False) == pytest.approx(2 * 7 * (3 * first + 4 * rest) / 1e3)
    expected = 2 * 7 * ((3 * first + 3 * rest) / 1e3 + rest / 2e3)
    assert limits.seconds(network, 7, mixed=True) == pytest.approx(expected)
    single = MatmulRates(single=1e3)
    assert single.seconds(network, 7, mixed=True) == single.seconds(network, 7, mixed=False)


def test_rates_of_this_machine_are_plausible() -> None:
    limits = measure_matmul_rates()
    assert limits.bfloat16 is not None
    assert min(limits.single, limits.bfloat16) > 1e8
