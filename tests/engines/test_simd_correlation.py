from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cgsa.engines.simd_correlation import adam_step, transform_gradients
from cgsa.engines.simd_fft import BLOCKS, LENGTH, transform_samples, twiddle_workspace
from cgsa.engines.simd_registers import LANES

Floats = npt.NDArray[np.float32]


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("tiles", [4, 8])
@pytest.mark.parametrize("rows", [(0, 2), (2, 6)])
def test_adam_updates_the_given_rows_and_no_others(tiles: int, rows: tuple[int, int]) -> None:
    count, channels, windows = 6, 2, tiles * BLOCKS
    begin, end = rows
    samples = normal(0, channels, (tiles + 1) * LENGTH)
    by_frequency = np.zeros((tiles // 4, BLOCKS, channels, 4, 2, LANES), dtype=np.float32)
    by_channel = np.zeros((2, tiles, channels, LENGTH), dtype=np.float32)
    space = twiddle_workspace()
    transform_samples(samples, space, by_frequency, by_channel)
    given = normal(1, windows, 16)
    gradients = np.zeros((16, tiles, BLOCKS, 2), dtype=np.float32)
    transform_gradients(0, 16, given, space, gradients)

    weight, mean = normal(2, count, channels, LENGTH), 0.1 * normal(3, count, channels, LENGTH)
    square = np.square(normal(4, count, channels, LENGTH))
    before = [one.astype(np.float64) for one in (weight, mean, square)]
    settings = np.array([0.1, 0.999, 0.001, 1e-3, 1.5, 1e-8], dtype=np.float32)
    adam_step(begin, end, weight, mean, square, by_channel, gradients, settings, space)

    # Every window on its own, in double precision.
    each = np.stack([samples[:, 16 * window : 16 * window + LENGTH] for window in range(windows)]).astype(np.float64)
    gradient = np.einsum("nr,ncl->rcl", given[:, :count].astype(np.float64), each)
    w, m, s = before
    m_new = m + (gradient - m) * 0.1
    s_new = s * 0.999 + gradient**2 * 0.001
    w_new = w - 1e-3 * m_new / (np.sqrt(s_new) * 1.5 + 1e-8)
    updated = np.zeros(count, dtype=bool)
    updated[begin:end] = True
    for found, old, new in ((weight, w, w_new), (mean, m, m_new), (square, s, s_new)):
        np.testing.assert_allclose(found[updated], new[updated], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found[~updated], old[~updated].astype(np.float32))
