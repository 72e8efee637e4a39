from __future__ import annotations

import numpy as np

from cgsa.check.siblings import expected_values, far_above


def test_a_sum_of_two_factors_is_predicted_in_spite_of_an_outlier() -> None:
    classes, points = np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)
    values = (3.0 * classes + 0.7 * points)[:, None]
    spoilt = values.copy()
    spoilt[7] += 50
    expected = expected_values(spoilt, [[str(one) for one in classes], [str(one) for one in points]])
    np.testing.assert_allclose(expected, values, atol=1e-6)


def test_few_values_have_no_fence() -> None:
    assert not far_above(np.array([1.0, 1.0, 100.0]), least=0.0).any()


def test_what_does_not_matter_is_not_far_above() -> None:
    values = np.array([0.0] * 20 + [0.01])
    assert far_above(values, least=0.001)[-1]
    assert not far_above(values, least=0.1).any()
