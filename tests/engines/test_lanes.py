from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cgsa.engines import lanes
from cgsa.engines.registers import LANES

Floats = npt.NDArray[np.float32]
BLOCKS, LENGTH = lanes.BLOCKS, lanes.LENGTH


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def digits_reversed(frequency: int) -> int:
    """Where a transform puts a frequency: its three digits of base four, read from behind."""
    first, second, third = frequency // 16, frequency // 4 % 4, frequency % 4
    return third * 16 + second * 4 + first


def twisted(blocks: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
    """The transform of (64, lanes), in double precision, in the order of frequencies."""
    turn = np.exp(-0.5j * np.pi * np.arange(BLOCKS) / BLOCKS)
    return np.fft.fft(blocks * turn[:, None], axis=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_row_of_weights_is_transformed_lane_by_lane(channels: int) -> None:
    weight = normal(0, 2, channels, LENGTH)
    turned = np.zeros((2, 2 * channels * LENGTH), dtype=np.float32)
    lanes.transform_weights(0, 2, weight, lanes.workspace(), turned)
    for row in range(2):
        found = turned[row].reshape(BLOCKS, 2, channels, LANES)
        for channel in range(channels):
            expected = twisted(weight[row, channel].reshape(BLOCKS, LANES).astype(np.float64))
            for frequency in range(BLOCKS):
                real, imaginary = found[digits_reversed(frequency), :, channel]
                np.testing.assert_allclose(real, expected[frequency].real, atol=2e-5)
                np.testing.assert_allclose(imaginary, expected[frequency].imag, atol=2e-5)


def test_the_workspace_is_copied_and_never_written() -> None:
    before = lanes.workspace().copy()
    weight, turned = normal(0, 1, 1, LENGTH), np.zeros((1, 2 * LENGTH), dtype=np.float32)
    lanes.transform_weights(0, 1, weight, lanes.workspace(), turned)
    np.testing.assert_array_equal(lanes.workspace(), before)


@pytest.mark.parametrize("tiles", [4, 8])
@pytest.mark.parametrize("rows", [(0, 2), (2, 6)])
def test_rows_learn_as_adam_says_and_others_do_not(tiles: int, rows: tuple[int, int]) -> None:
    count, channels, windows = 6, 2, tiles * BLOCKS
    begin, end = rows
    samples = normal(0, channels, (tiles + 1) * LENGTH)
    by_frequency = np.zeros((tiles // 4, BLOCKS, channels, 4, 2, LANES), dtype=np.float32)
    by_channel = np.zeros((2, tiles, channels, LENGTH), dtype=np.float32)
    space = lanes.workspace()
    lanes.transform_samples(samples, space, by_frequency, by_channel)
    given = normal(1, windows, 16)
    slopes = np.zeros((16, tiles, BLOCKS, 2), dtype=np.float32)
    lanes.transform_slopes(0, 16, given, space, slopes)

    weight, mean = normal(2, count, channels, LENGTH), 0.1 * normal(3, count, channels, LENGTH)
    square = np.square(normal(4, count, channels, LENGTH))
    before = [one.astype(np.float64) for one in (weight, mean, square)]
    settings = np.array([0.1, 0.999, 0.001, 1e-3, 1.5, 1e-8], dtype=np.float32)
    lanes.learn(begin, end, weight, mean, square, by_channel, slopes, settings, space)

    # Every window laid out by itself, in double precision.
    seen = np.stack([samples[:, 16 * window : 16 * window + LENGTH] for window in range(windows)]).astype(np.float64)
    gradient = np.einsum("nr,ncl->rcl", given[:, :count].astype(np.float64), seen)
    w, m, s = before
    m_new = m + (gradient - m) * 0.1
    s_new = s * 0.999 + gradient**2 * 0.001
    w_new = w - 1e-3 * m_new / (np.sqrt(s_new) * 1.5 + 1e-8)
    learnt = np.zeros(count, dtype=bool)
    learnt[begin:end] = True
    for found, old, new in ((weight, w, w_new), (mean, m, m_new), (square, s, s_new)):
        np.testing.assert_allclose(found[learnt], new[learnt], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found[~learnt], old[~learnt].astype(np.float32))
