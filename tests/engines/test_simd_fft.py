from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cgsa.engines.simd_fft import BLOCKS, LENGTH, transform_weights, twiddle_workspace
from cgsa.engines.simd_registers import LANES

Floats = npt.NDArray[np.float32]


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def digits_reversed(frequency: int) -> int:
    """The position of a frequency in a transform: its three digits of base four, reversed."""
    first, second, third = frequency // 16, frequency // 4 % 4, frequency % 4
    return third * 16 + second * 4 + first


def twisted_transform(blocks: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
    """The transform of (64, lanes), in double precision, in the order of frequencies."""
    twist = np.exp(-0.5j * np.pi * np.arange(BLOCKS) / BLOCKS)
    return np.fft.fft(blocks * twist[:, None], axis=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_row_of_weights_is_transformed_lane_by_lane(channels: int) -> None:
    weight = normal(0, 2, channels, LENGTH)
    transforms = np.zeros((2, 2 * channels * LENGTH), dtype=np.float32)
    transform_weights(0, 2, weight, twiddle_workspace(), transforms)
    for row in range(2):
        found = transforms[row].reshape(BLOCKS, 2, channels, LANES)
        for channel in range(channels):
            expected = twisted_transform(weight[row, channel].reshape(BLOCKS, LANES).astype(np.float64))
            for frequency in range(BLOCKS):
                real, imaginary = found[digits_reversed(frequency), :, channel]
                np.testing.assert_allclose(real, expected[frequency].real, atol=2e-5)
                np.testing.assert_allclose(imaginary, expected[frequency].imag, atol=2e-5)


def test_the_workspace_is_copied_and_never_written() -> None:
    before = twiddle_workspace().copy()
    weight, transforms = normal(0, 1, 1, LENGTH), np.zeros((1, 2 * LENGTH), dtype=np.float32)
    transform_weights(0, 1, weight, twiddle_workspace(), transforms)
    np.testing.assert_array_equal(twiddle_workspace(), before)
