from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from cgsa.engines.simd_registers import (
    LANES,
    Memory,
    Register,
    horizontal_sums,
    intrinsic,
    make_intrinsic,
    sum_registers,
)

Floats = npt.NDArray[np.float32]


@intrinsic
def _calculate(_: Any, one: Any, i: Any, other: Any, j: Any, found: Any, k: Any) -> Any:  # noqa: PLR0917
    def emit(one: Memory, other: Memory, found: Memory) -> None:
        a, b = one[0], other[0]
        found[0] = (a + b) * (a - b) / b.sqrt()
        found[LANES] = one.broadcast(3)
        found[2 * LANES] = a.shuffle(b, [*range(8), *range(16, 24)])

    return make_intrinsic((one, i, other, j, found, k), emit)


@njit()
def calculate(one: Floats, i: int, other: Floats, j: int, found: Floats) -> None:
    _calculate(one, i, other, j, found, 0)


@intrinsic
def _add_up(_: Any, given: Any, i: Any, found: Any, j: Any, count: Any) -> Any:
    """The sum of ``count`` registers, twice that sum, and so on up to eight times."""

    def emit(given: Memory, found: Memory, count: Any) -> None:
        def terms(place: Any) -> list[Register]:
            here = given[given.builder.mul(place, place.type(LANES))]
            sums = [here]
            for _ in range(7):
                sums.append(sums[-1] + here)
            return sums

        found[0] = horizontal_sums(sum_registers(given.builder, count, terms, 8))

    return make_intrinsic((given, i, found, j, count), emit)


@njit()
def add_up(given: Floats, found: Floats, count: int) -> None:
    _add_up(given, 0, found, 0, count)


@pytest.mark.parametrize(("i", "j"), [(0, 0), (3, 1), (16, 5)])
def test_formulas_apply_to_sixteen_numbers_from_any_position(i: int, j: int) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=40).astype(np.float32), rng.uniform(0.1, 9, size=40).astype(np.float32)
    found = np.zeros(3 * LANES, dtype=np.float32)
    calculate(one, i, other, j, found)
    a, b = one[i : i + LANES].astype(np.float64), other[j : j + LANES].astype(np.float64)
    np.testing.assert_allclose(found[:LANES], (a + b) * (a - b) / np.sqrt(b), rtol=1e-5, atol=1e-6)
    assert (found[LANES : 2 * LANES] == one[i + 3]).all()
    np.testing.assert_array_equal(found[2 * LANES :], np.concatenate([a[:8], b[:8]]).astype(np.float32))


@given(st.integers(0, 5), st.integers(0, 1000))
def test_sums_include_all_terms_and_lanes(count: int, seed: int) -> None:
    given = np.random.default_rng(seed).normal(size=5 * LANES).astype(np.float32)
    found = np.zeros(8, dtype=np.float32)
    add_up(given, found, count)
    expected = given[: count * LANES].astype(np.float64).sum() * np.arange(1, 9)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
