"""Fourier transforms of 64 blocks of samples, in sixteen SIMD lanes at once, for overlapping windows.

A window of 1024 samples at step 16 is 64 blocks of 16 samples; the next window has the same blocks except one. The
outputs of a layer for all windows, and the gradient of its weights, are correlations along the blocks, and so products
of transforms (:mod:`cgsa.engines.simd_correlation`).

Every sample of a block has its own lane: all lanes of a register take the same operations, and none needs a value of
another. Before the transform, a sequence is multiplied by a twist, so that what wraps around returns rotated by a
quarter turn, as an imaginary part next to the real one. This saves half of the zero padding of a correlation, and a
real sequence takes one complex transform of its own length.

Rows of weights are independent of each other: functions process those from ``begin`` to ``end``, and threads share
them out. Weights are many and come from main memory: the next ones are prefetched a little at a time, all along the
computation, because only few prefetches can be pending and a further one would wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit

from cgsa.engines.simd_registers import LANES, Kind, Memory, Register, Value, intrinsic, make_intrinsic

Floats = npt.NDArray[np.float32]

Complex = tuple[Register, Register]

BLOCKS = 64
LENGTH = BLOCKS * LANES
TILES = 4
"""Tiles, groups of 64 windows, that are processed at once; a batch is padded to a multiple of this."""
_QUARTER, _SIXTEENTH = LENGTH // 4, LENGTH // 16
# Positions in the workspace: real and imaginary parts, factors of the first two stages, and the twist.
IMAGINARY = LENGTH
_FIRST = 2 * LENGTH
_SECOND = _FIRST + 6 * _QUARTER
_TWIST = _SECOND + 6 * _SIXTEENTH
_SIZE = _TWIST + 2 * LENGTH


@cache
def twiddle_workspace() -> Floats:
    """Return an array with the twiddle factors in place; every transform works on a copy of it."""
    space = np.zeros(_SIZE, dtype=np.float32)
    for place, size in ((_FIRST, BLOCKS), (_SECOND, BLOCKS // 4)):
        turn = np.exp(-2j * np.pi * np.arange(size // 4) / size)
        powers = [np.repeat(turn**power, LANES) for power in (1, 2, 3)]
        factors = np.concatenate([part for power in powers for part in (power.real, power.imag)])
        space[place : place + len(factors)] = factors
    twist = np.repeat(np.exp(-0.5j * np.pi * np.arange(BLOCKS) / BLOCKS), LANES)
    space[_TWIST:] = np.concatenate([twist.real, twist.imag])
    return space


def _dft4(a: Complex, b: Complex, c: Complex, d: Complex) -> tuple[Complex, Complex, Complex, Complex]:
    """Return the discrete Fourier transform of four complex numbers."""
    e, f = (a[0] + c[0], a[1] + c[1]), (a[0] - c[0], a[1] - c[1])
    g, h = (b[0] + d[0], b[1] + d[1]), (b[1] - d[1], d[0] - b[0])
    return (
        (e[0] + g[0], e[1] + g[1]),
        (f[0] + h[0], f[1] + h[1]),
        (e[0] - g[0], e[1] - g[1]),
        (f[0] - h[0], f[1] - h[1]),
    )


def _inverse_dft4(a: Complex, b: Complex, c: Complex, d: Complex) -> tuple[Complex, Complex, Complex, Complex]:
    """Return four times the inverse transform of four complex numbers."""
    one, two, three, four = _dft4(a, b, c, d)
    return one, four, three, two


def _rotate(value: Complex, factor: Complex) -> Complex:
    return value[0] * factor[0] - value[1] * factor[1], value[0] * factor[1] + value[1] * factor[0]


def _rotate_back(value: Complex, factor: Complex) -> Complex:
    return value[0] * factor[0] + value[1] * factor[1], value[1] * factor[0] - value[0] * factor[1]


def _four(x: Memory, gap: int) -> list[Complex]:
    return [(x[number * gap], x[IMAGINARY + number * gap]) for number in range(4)]


def _put(x: Memory, gap: int, values: Sequence[Complex]) -> None:
    for number, value in enumerate(values):
        x[number * gap], x[IMAGINARY + number * gap] = value


def _factors(table: Memory, gap: int) -> list[Complex]:
    return [(table[2 * power * gap], table[(2 * power + 1) * gap]) for power in range(3)]


@intrinsic
def _first_stage(  # noqa: PLR0917
    _: Kind, samples: Kind, at: Kind, x: Kind, i: Kind, twist: Kind, j: Kind, table: Kind, k: Kind
) -> Kind:
    """Multiply sixteen samples of each quarter by the twist and take the first stage with them."""

    def emit(samples: Memory, x: Memory, twist: Memory, table: Memory) -> None:
        places = [number * _QUARTER for number in range(4)]
        given = [(samples[place] * twist[place], samples[place] * twist[IMAGINARY + place]) for place in places]
        first, *others = _dft4(*given)
        _put(x, _QUARTER, [first, *map(_rotate, others, _factors(table, _QUARTER))])

    return make_intrinsic((samples, at, x, i, twist, j, table, k), emit)


@intrinsic
def _second_stage(_: Kind, x: Kind, i: Kind, table: Kind, k: Kind) -> Kind:
    def emit(x: Memory, table: Memory) -> None:
        first, *others = _dft4(*_four(x, _SIXTEENTH))
        _put(x, _SIXTEENTH, [first, *map(_rotate, others, _factors(table, _SIXTEENTH))])

    return make_intrinsic((x, i, table, k), emit)


@intrinsic
def _last_stage(_: Kind, x: Kind, i: Kind, y: Kind, j: Kind, step: Kind, imaginary: Kind) -> Kind:  # noqa: PLR0917
    """Take the last stage from x to y, with frequencies ``step`` apart and imaginary parts ``imaginary`` behind."""

    def emit(x: Memory, y: Memory, step: Value, imaginary: Value) -> None:
        builder, place = x.builder, ir.Constant(ir.IntType(64), 0)
        for value in _dft4(*_four(x, LANES)):
            y[place], y[builder.add(place, imaginary)] = value
            place = builder.add(place, step)

    return make_intrinsic((x, i, y, j, step, imaginary), emit)


@intrinsic
def _inverse_last_stage(_: Kind, x: Kind, i: Kind) -> Kind:
    def emit(x: Memory) -> None:
        _put(x, LANES, _inverse_dft4(*_four(x, LANES)))

    return make_intrinsic((x, i), emit)


@intrinsic
def _inverse_second_stage(_: Kind, x: Kind, i: Kind, table: Kind, k: Kind) -> Kind:
    def emit(x: Memory, table: Memory) -> None:
        first, *others = _four(x, _SIXTEENTH)
        _put(x, _SIXTEENTH, _inverse_dft4(first, *map(_rotate_back, others, _factors(table, _SIXTEENTH))))

    return make_intrinsic((x, i, table, k), emit)


@intrinsic
def _inverse_first_stage(_: Kind, x: Kind, i: Kind, twist: Kind, j: Kind, table: Kind, k: Kind) -> Kind:  # noqa: PLR0917
    """Invert the first stage and the twist, and keep the real part."""

    def emit(x: Memory, twist: Memory, table: Memory) -> None:
        first, *others = _four(x, _QUARTER)
        found = _inverse_dft4(first, *map(_rotate_back, others, _factors(table, _QUARTER)))
        for number, value in enumerate(found):
            place = number * _QUARTER
            x[place] = value[0] * twist[place] + value[1] * twist[IMAGINARY + place]

    return make_intrinsic((x, i, twist, j, table, k), emit)


@intrinsic
def prefetch(_: Kind, array: Kind, i: Kind) -> Kind:
    """Start loading sixteen numbers that are needed soon."""
    return make_intrinsic((array, i), Memory.prefetch)


@njit(fastmath=True, error_model="numpy", cache=True)
def transform(  # noqa: PLR0917, a compiled function takes arrays
    samples: Floats, x: Floats, y: Floats, begin: int, step: int, imaginary: int, later: Floats
) -> None:
    """Write the transform of 1024 samples, with the twist, from position ``begin`` of y on; x is scratch space.

    Frequencies are ``step`` apart, in digit-reversed order, and imaginary parts ``imaginary`` behind. Meanwhile the
    1024 samples in ``later`` are prefetched.
    """
    for i in range(0, _QUARTER, LANES):
        prefetch(later, i)
        prefetch(later, _QUARTER + i)
        _first_stage(samples, i, x, i, x, _TWIST + i, x, _FIRST + i)
    for group in range(4):
        for i in range(0, _SIXTEENTH, LANES):
            prefetch(later, 2 * _QUARTER + group * _SIXTEENTH + i)
            _second_stage(x, group * _QUARTER + i, x, _SECOND + i)
    for group in range(16):
        prefetch(later, 3 * _QUARTER + group * LANES)
        _last_stage(x, group * _SIXTEENTH, y, begin + 4 * group * step, step, imaginary)


@njit(fastmath=True, error_model="numpy", cache=True)
def inverse_transform(x: Floats, later: Floats) -> None:
    """Replace a transform in x by 64 times the real part of its inverse, without the twist; prefetch as above."""
    for group in range(16):
        prefetch(later, group * LANES)
        _inverse_last_stage(x, group * _SIXTEENTH)
    for group in range(4):
        for i in range(0, _SIXTEENTH, LANES):
            prefetch(later, _QUARTER + group * _SIXTEENTH + i)
            _inverse_second_stage(x, group * _QUARTER + i, x, _SECOND + i)
    for i in range(0, _QUARTER, LANES):
        prefetch(later, 2 * _QUARTER + i)
        prefetch(later, 3 * _QUARTER + i)
        _inverse_first_stage(x, i, x, _TWIST + i, x, _FIRST + i)


@njit(fastmath=True, error_model="numpy", cache=True)
def transform_samples(samples: Floats, space: Floats, by_frequency: Floats, by_channel: Floats) -> None:
    """Transform samples, (channels, 1024 * (tiles + 1)), for correlation with windows.

    The windows of a tile begin in one section of 1024 samples and reach into the next, whose part is rotated by a
    quarter turn. The result is written twice, in the orders that its readers need: by frequency,
    (tiles / 4, frequencies, channels, 4, 2, lanes), and by channel, (2, tiles, channels, frequencies * lanes).
    """
    x = space.copy()
    channels, tiles = len(samples), by_channel.shape[1]
    before = np.empty(2 * LENGTH, dtype=np.float32)
    for channel in range(channels):
        for section in range(tiles + 1):
            here = samples[channel, section * LENGTH : (section + 1) * LENGTH]
            transform(here, x, x, 0, LANES, IMAGINARY, here)
            if section:
                tile = section - 1
                real, imaginary = by_channel[0, tile, channel], by_channel[1, tile, channel]
                for i in range(LENGTH):
                    real[i] = before[i] + x[IMAGINARY + i]
                    imaginary[i] = before[IMAGINARY + i] - x[i]
                for frequency in range(BLOCKS):
                    both = by_frequency[tile // TILES, frequency, channel, tile % TILES]
                    for lane in range(LANES):
                        both[0, lane] = real[frequency * LANES + lane]
                        both[1, lane] = imaginary[frequency * LANES + lane]
            before[:] = x[: 2 * LENGTH]


@njit(fastmath=True, error_model="numpy", cache=True)
def transform_row(weight: Floats, row: int, x: Floats, transforms: Floats) -> None:
    """Write the transforms of a row of weights, (rows, channels, 1024): (frequencies, 2, channels, lanes)."""
    width = weight.shape[1] * LANES
    for channel in range(weight.shape[1]):
        later = weight[min(row + 1, len(weight) - 1), channel]
        transform(weight[row, channel], x, transforms, channel * LANES, 2 * width, width, later)


@njit(nogil=True, error_model="numpy", cache=True)
def transform_weights(begin: int, end: int, weight: Floats, space: Floats, transforms: Floats) -> None:
    """Write the transforms of frozen weights, row by row."""
    x = space.copy()
    for row in range(begin, end):
        transform_row(weight, row, x, transforms[row])
