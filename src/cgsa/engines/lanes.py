"""Fourier transforms of 64 blocks of samples, in sixteen lanes at once, for windows that overlap.

A window of 1024 samples at step 16 is 64 blocks of 16 samples, and its neighbour
the same blocks but one. What a layer makes of all windows, and the gradient of
its weights, are correlations along the blocks, and so products of transforms.

Every sample of a block has a lane of its own: the lanes of a register take the
same operations, and none needs what is in another. Before it is transformed a
sequence is twisted, so that what leaves it at one end comes back a quarter of a
turn ahead, as an imaginary part beside the real one. Half of the zeros that
correlations are padded with are saved so, and a real sequence takes one complex
transform of its own length.

Rows of weights are apart from each other in all of it: kernels take those from
``begin`` to ``end``, and threads share them out, whoever started these. Weights
are many and come from far away: what is wanted next is asked for bit by bit, all
along the computation, since few such wishes are open at a time and the next one
would wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit

from cgsa.engines.registers import LANES, Memory, Register, added_up, formula, intrinsic, sums_over

Floats = npt.NDArray[np.float32]

Complex = tuple[Register, Register]

BLOCKS = 64
LENGTH = BLOCKS * LANES
TILES = 4
"""Stretches of 64 windows that gradients are made from at once; their number is a multiple of it."""
_QUARTER, _SIXTEENTH = LENGTH // 4, LENGTH // 16
# Places in the array: real and imaginary parts, factors of the first two stages, and the twist.
_I = LENGTH
_FIRST = 2 * LENGTH
_SECOND = _FIRST + 6 * _QUARTER
_TWIST = _SECOND + 6 * _SIXTEENTH
_SIZE = _TWIST + 2 * LENGTH


@cache
def workspace() -> Floats:
    """Return the array that transforms work on copies of, with their factors in place."""
    space = np.zeros(_SIZE, dtype=np.float32)
    for place, size in ((_FIRST, BLOCKS), (_SECOND, BLOCKS // 4)):
        turn = np.exp(-2j * np.pi * np.arange(size // 4) / size)
        factors = np.concatenate([part for power in (1, 2, 3) for part in _parts(np.repeat(turn**power, LANES))])
        space[place : place + len(factors)] = factors
    twist = np.repeat(np.exp(-0.5j * np.pi * np.arange(BLOCKS) / BLOCKS), LANES)
    space[_TWIST:] = np.concatenate(_parts(twist))
    return space


def _parts(values: npt.NDArray[np.complex128]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    return values.real, values.imag


def _ahead(a: Complex, b: Complex, c: Complex, d: Complex) -> tuple[Complex, Complex, Complex, Complex]:
    """Return the transform of four complex numbers."""
    e, f = (a[0] + c[0], a[1] + c[1]), (a[0] - c[0], a[1] - c[1])
    g, h = (b[0] + d[0], b[1] + d[1]), (b[1] - d[1], d[0] - b[0])
    return (
        (e[0] + g[0], e[1] + g[1]),
        (f[0] + h[0], f[1] + h[1]),
        (e[0] - g[0], e[1] - g[1]),
        (f[0] - h[0], f[1] - h[1]),
    )


def _back(a: Complex, b: Complex, c: Complex, d: Complex) -> tuple[Complex, Complex, Complex, Complex]:
    """Return four times what four complex numbers are the transform of."""
    one, two, three, four = _ahead(a, b, c, d)
    return one, four, three, two


def _turned(value: Complex, factor: Complex) -> Complex:
    return value[0] * factor[0] - value[1] * factor[1], value[0] * factor[1] + value[1] * factor[0]


def _turned_back(value: Complex, factor: Complex) -> Complex:
    return value[0] * factor[0] + value[1] * factor[1], value[1] * factor[0] - value[0] * factor[1]


def _four(x: Memory, gap: int) -> list[Complex]:
    return [(x[number * gap], x[_I + number * gap]) for number in range(4)]


def _put(x: Memory, gap: int, values: Sequence[Complex]) -> None:
    for number, value in enumerate(values):
        x[number * gap], x[_I + number * gap] = value


def _factors(table: Memory, gap: int) -> list[Complex]:
    return [(table[2 * power * gap], table[(2 * power + 1) * gap]) for power in range(3)]


@intrinsic
def _first_stage(_: Any, samples: Any, at: Any, x: Any, i: Any, twist: Any, j: Any, table: Any, k: Any) -> Any:  # noqa: PLR0917
    """Twist sixteen samples of each quarter and take the first stage with them."""

    def write(samples: Memory, x: Memory, twist: Memory, table: Memory) -> None:
        places = [number * _QUARTER for number in range(4)]
        given = [(samples[place] * twist[place], samples[place] * twist[_I + place]) for place in places]
        first, *others = _ahead(*given)
        _put(x, _QUARTER, [first, *map(_turned, others, _factors(table, _QUARTER))])

    return formula((samples, at, x, i, twist, j, table, k), write)


@intrinsic
def _second_stage(_: Any, x: Any, i: Any, table: Any, k: Any) -> Any:
    def write(x: Memory, table: Memory) -> None:
        first, *others = _ahead(*_four(x, _SIXTEENTH))
        _put(x, _SIXTEENTH, [first, *map(_turned, others, _factors(table, _SIXTEENTH))])

    return formula((x, i, table, k), write)


@intrinsic
def _last_stage(_: Any, x: Any, i: Any, y: Any, j: Any, step: Any, imaginary: Any) -> Any:  # noqa: PLR0917
    """Take the last stage from x to y, where frequencies are a step apart, and imaginary parts so far away."""

    def write(x: Memory, y: Memory, step: Any, imaginary: Any) -> None:
        builder, place = x.builder, ir.Constant(ir.IntType(64), 0)
        for value in _ahead(*_four(x, LANES)):
            y[place], y[builder.add(place, imaginary)] = value
            place = builder.add(place, step)

    return formula((x, i, y, j, step, imaginary), write)


@intrinsic
def _last_stage_back(_: Any, x: Any, i: Any) -> Any:
    def write(x: Memory) -> None:
        _put(x, LANES, _back(*_four(x, LANES)))

    return formula((x, i), write)


@intrinsic
def _second_stage_back(_: Any, x: Any, i: Any, table: Any, k: Any) -> Any:
    def write(x: Memory, table: Memory) -> None:
        first, *others = _four(x, _SIXTEENTH)
        _put(x, _SIXTEENTH, _back(first, *map(_turned_back, others, _factors(table, _SIXTEENTH))))

    return formula((x, i, table, k), write)


@intrinsic
def _first_stage_back(_: Any, x: Any, i: Any, twist: Any, j: Any, table: Any, k: Any) -> Any:  # noqa: PLR0917
    """Take the first stage back and undo the twist, of which the real part is wanted."""

    def write(x: Memory, twist: Memory, table: Memory) -> None:
        first, *others = _four(x, _QUARTER)
        found = _back(first, *map(_turned_back, others, _factors(table, _QUARTER)))
        for number, value in enumerate(found):
            place = number * _QUARTER
            x[place] = value[0] * twist[place] + value[1] * twist[_I + place]

    return formula((x, i, twist, j, table, k), write)


@intrinsic
def _fetch(_: Any, array: Any, i: Any) -> Any:
    """Ask for sixteen numbers that will be wanted soon."""
    return formula((array, i), Memory.fetch)


@njit(fastmath=True, error_model="numpy", cache=True)
def _transform(  # noqa: PLR0917, a compiled function takes arrays
    samples: Floats, x: Floats, y: Floats, begin: int, step: int, imaginary: int, later: Floats
) -> None:
    """Write the transform of 1024 samples, twisted, from a place in y on, by way of x.

    Frequencies are a step apart, in the order of their reversed digits, and imaginary parts lie so far behind.
    Meanwhile 1024 samples that are wanted later are fetched.
    """
    for i in range(0, _QUARTER, LANES):
        _fetch(later, i)
        _fetch(later, _QUARTER + i)
        _first_stage(samples, i, x, i, x, _TWIST + i, x, _FIRST + i)
    for group in range(4):
        for i in range(0, _SIXTEENTH, LANES):
            _fetch(later, 2 * _QUARTER + group * _SIXTEENTH + i)
            _second_stage(x, group * _QUARTER + i, x, _SECOND + i)
    for group in range(16):
        _fetch(later, 3 * _QUARTER + group * LANES)
        _last_stage(x, group * _SIXTEENTH, y, begin + 4 * group * step, step, imaginary)


@njit(fastmath=True, error_model="numpy", cache=True)
def _transform_back(x: Floats, later: Floats) -> None:
    """Replace a transform in x by 64 times the real part of what it is of, without its twist; fetch as above."""
    for group in range(16):
        _fetch(later, group * LANES)
        _last_stage_back(x, group * _SIXTEENTH)
    for group in range(4):
        for i in range(0, _SIXTEENTH, LANES):
            _fetch(later, _QUARTER + group * _SIXTEENTH + i)
            _second_stage_back(x, group * _QUARTER + i, x, _SECOND + i)
    for i in range(0, _QUARTER, LANES):
        _fetch(later, 2 * _QUARTER + i)
        _fetch(later, 3 * _QUARTER + i)
        _first_stage_back(x, i, x, _TWIST + i, x, _FIRST + i)


@njit(fastmath=True, error_model="numpy", cache=True)
def transform_samples(samples: Floats, space: Floats, by_frequency: Floats, by_channel: Floats) -> None:
    """Transform samples, (channels, 1024 * (tiles + 1)), as windows correlate with them.

    The windows of a tile begin in one stretch of 1024 samples and reach into the next, whose part comes back a quarter
    of a turn behind. It is written twice, as kernels like it: by frequency,
    (tiles / 4, frequencies, channels, 4, 2, lanes), and by channel, (2, tiles, channels, frequencies * lanes).
    """
    x = space.copy()
    channels, tiles = len(samples), by_channel.shape[1]
    before = np.empty(2 * LENGTH, dtype=np.float32)
    for channel in range(channels):
        for stretch in range(tiles + 1):
            here = samples[channel, stretch * LENGTH : (stretch + 1) * LENGTH]
            _transform(here, x, x, 0, LANES, _I, here)
            if stretch:
                tile = stretch - 1
                real, imaginary = by_channel[0, tile, channel], by_channel[1, tile, channel]
                for i in range(LENGTH):
                    real[i] = before[i] + x[_I + i]
                    imaginary[i] = before[_I + i] - x[i]
                for frequency in range(BLOCKS):
                    both = by_frequency[tile // TILES, frequency, channel, tile % TILES]
                    for lane in range(LANES):
                        both[0, lane] = real[frequency * LANES + lane]
                        both[1, lane] = imaginary[frequency * LANES + lane]
            before[:] = x[: 2 * LENGTH]


@njit(fastmath=True, error_model="numpy", cache=True)
def _transform_row(weight: Floats, row: int, x: Floats, turned: Floats) -> None:
    """Write the transforms of a row of weights, (rows, channels, 1024): (frequencies, 2, channels, lanes)."""
    width = weight.shape[1] * LANES
    for channel in range(weight.shape[1]):
        later = weight[min(row + 1, len(weight) - 1), channel]
        _transform(weight[row, channel], x, turned, channel * LANES, 2 * width, width, later)


@njit(nogil=True, error_model="numpy", cache=True)
def transform_weights(begin: int, end: int, weight: Floats, space: Floats, turned: Floats) -> None:
    """Write the transforms of weights that will not change, row by row."""
    x = space.copy()
    for row in range(begin, end):
        _transform_row(weight, row, x, turned[row])


def _products(weights: Sequence[Memory], samples: Memory, channels: Any) -> list[Register]:
    """Return the products of some rows' transforms with four tiles at a frequency, in eight numbers each."""
    builder = samples.builder
    lanes, both = ir.Constant(channels.type, LANES), ir.Constant(channels.type, 2 * TILES * LANES)
    width = builder.mul(channels, lanes)

    def terms(channel: Any) -> list[Register]:
        place = builder.mul(channel, lanes)
        behind = builder.add(place, width)
        parts = [(weight[place], weight[behind]) for weight in weights]
        here = Memory(builder, builder.gep(samples.pointer, [builder.mul(channel, both)]))
        tiles = [(here[2 * tile * LANES], here[(2 * tile + 1) * LANES]) for tile in range(TILES)]
        return [part for wr, wi in parts for sr, si in tiles for part in (sr * wr + si * wi, si * wr - sr * wi)]

    sums = sums_over(builder, channels, terms, 2 * TILES * len(weights))
    return [added_up(sums[place : place + 2 * TILES]) for place in range(0, len(sums), 2 * TILES)]


@intrinsic
def _multiply(_: Any, weights: Any, i: Any, samples: Any, j: Any, found: Any, k: Any, channels: Any) -> Any:  # noqa: PLR0917
    """Write the products of a row's transform with four tiles at a frequency."""

    def write(weights: Memory, samples: Memory, found: Memory, channels: Any) -> None:
        (found[0],) = _products([weights], samples, channels)

    return formula((weights, i, samples, j, found, k, channels), write)


@intrinsic
def _multiply_both(  # noqa: PLR0917
    _: Any, one: Any, i: Any, other: Any, j: Any, samples: Any, k: Any, found: Any, m: Any, others: Any, n: Any,
    channels: Any,
) -> Any:  # fmt: skip
    """Write those of two rows, the samples read once for both."""

    def write(one: Memory, other: Memory, samples: Memory, found: Memory, others: Memory, channels: Any) -> None:  # noqa: PLR0917
        found[0], others[0] = _products([one, other], samples, channels)

    return formula((one, i, other, j, samples, k, found, m, others, n, channels), write)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def correlate(begin: int, end: int, weight: Floats, samples: Floats, space: Floats, found: Floats) -> None:  # noqa: PLR0917
    """Write the transforms of what weights, (rows, channels, 1024), make of windows: (rows, tiles * frequencies * 2).

    Samples come by frequency from :func:`transform_samples`, laid out as one row. In what is found, four tiles at a
    frequency stand beside each other.
    """
    channels = weight.shape[1]
    width = channels * LANES
    x, turned = space.copy(), np.empty(BLOCKS * 2 * width, dtype=np.float32)
    for row in range(begin, end):
        _transform_row(weight, row, x, turned)
        for place in range(found.shape[1] // (2 * TILES)):
            at, to = place % BLOCKS * 2 * width, place * 2 * TILES
            _multiply(turned, at, samples, to * width, found[row], to, channels)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def correlate_both(  # noqa: PLR0917, a compiled function takes arrays
    begin: int,
    end: int,
    frozen: Floats,
    weight: Floats,
    samples: Floats,
    space: Floats,
    found_frozen: Floats,
    found: Floats,
) -> None:
    """Do it for weights that :func:`transform_weights` has transformed, and for others that it has not, at once."""
    channels = weight.shape[1]
    width = channels * LANES
    x, turned = space.copy(), np.empty(BLOCKS * 2 * width, dtype=np.float32)
    for row in range(begin, end):
        _transform_row(weight, row, x, turned)
        later = frozen[min(row + 1, len(frozen) - 1)]
        for place in range(found.shape[1] // (2 * TILES)):
            at, to = place % BLOCKS * 2 * width, place * 2 * TILES
            for i in range(at, at + 2 * width, LANES):
                _fetch(later, i)
            _multiply_both(
                frozen[row], at, turned, at, samples, to * width, found_frozen[row], to, found[row], to, channels
            )


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def values_of(begin: int, end: int, found: Floats, bias: Floats, space: Floats, values: Floats) -> None:  # noqa: PLR0917
    """Write the values, (64 * tiles, rows), whose transforms :func:`correlate` found, with a bias for each row."""
    part = np.float32(1 / BLOCKS)
    x = space.copy()
    for first in range(begin, end, LANES):
        for tile in range(len(values) // BLOCKS):
            for frequency in range(BLOCKS):
                place = 2 * ((tile // TILES * BLOCKS + frequency) * TILES + tile % TILES)
                for lane in range(LANES):
                    x[frequency * LANES + lane] = found[first + lane, place]
                    x[_I + frequency * LANES + lane] = found[first + lane, place + 1]
            _transform_back(x, x)
            for block in range(BLOCKS):
                for lane in range(LANES):
                    values[tile * BLOCKS + block, first + lane] = x[block * LANES + lane] * part + bias[first + lane]


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def transform_slopes(begin: int, end: int, slopes: Floats, space: Floats, found: Floats) -> None:
    """Transform gradients of values, (windows, rows), along the windows: (rows, tiles, frequencies, 2), 64th parts."""
    part = np.float32(1 / BLOCKS)
    x, given = space.copy(), np.zeros(LENGTH, dtype=np.float32)
    for first in range(begin, end, LANES):
        for tile in range(found.shape[1]):
            for block in range(BLOCKS):
                window = tile * BLOCKS + block
                for lane in range(LANES):
                    given[block * LANES + lane] = slopes[window, first + lane] if window < len(slopes) else 0
            _transform(given, x, x, 0, LANES, _I, given)
            for lane in range(LANES):
                for frequency in range(BLOCKS):
                    found[first + lane, tile, frequency, 0] = x[frequency * LANES + lane] * part
                    found[first + lane, tile, frequency, 1] = x[_I + frequency * LANES + lane] * part


@intrinsic
def _gradients(  # noqa: PLR0917
    _: Any, samples: Any, i: Any, one: Any, j: Any, other: Any, k: Any, x: Any, m: Any, y: Any, n: Any, fours: Any,
    gap: Any, imaginary: Any,
) -> Any:  # fmt: skip
    """Write the transforms of the gradients of two rows, to x and y, from slopes at a frequency of so many four tiles.

    Samples of tiles lie a gap apart, and their imaginary parts so far behind.
    """

    def write(  # noqa: PLR0917
        samples: Memory, one: Memory, other: Memory, x: Memory, y: Memory, fours: Any, gap: Any, imaginary: Any
    ) -> None:
        builder = samples.builder

        def terms(four: Any) -> list[Register]:
            first = builder.mul(four, ir.Constant(fours.type, TILES))
            at, place = builder.mul(first, gap), builder.mul(first, ir.Constant(fours.type, 2 * BLOCKS))
            found: list[Register] = []
            for _ in range(TILES):
                sr, si = samples[at], samples[builder.add(at, imaginary)]
                behind = builder.add(place, ir.Constant(fours.type, 1))
                parts = [(slopes.alone(place), slopes.alone(behind)) for slopes in (one, other)]
                new = [part for er, ei in parts for part in (sr * er + si * ei, si * er - sr * ei)]
                found = [old + part for old, part in zip(found, new, strict=True)] if found else new
                at = builder.add(at, gap)
                place = builder.add(place, ir.Constant(fours.type, 2 * BLOCKS))
            return found

        x[0], x[_I], y[0], y[_I] = sums_over(builder, fours, terms, 4)

    return formula((samples, i, one, j, other, k, x, m, y, n, fours, gap, imaginary), write)


@intrinsic
def _adam(  # noqa: PLR0917
    _: Any, slope: Any, i: Any, weight: Any, j: Any, mean: Any, k: Any, square: Any, m: Any, settings: Any, n: Any
) -> Any:
    """Take Adam's step with sixteen weights."""

    def write(slope: Memory, weight: Memory, mean: Memory, square: Memory, settings: Memory) -> None:
        new_mean, old_square, new_square, rate, correction, least = map(settings.alone, range(6))
        g, m = slope[0], mean[0]
        m += (g - m) * new_mean
        s = square[0] * old_square + g * g * new_square
        mean[0], square[0] = m, s
        weight[0] -= rate * m / (s.root() * correction + least)

    return formula((slope, i, weight, j, mean, k, square, m, settings, n), write)


@njit(fastmath=True, error_model="numpy", cache=True)
def _learn_channel(  # noqa: PLR0917, a compiled function takes arrays
    x: Floats, weight: Floats, mean: Floats, square: Floats, settings: Floats, later_mean: Floats, later_square: Floats
) -> None:
    """Take Adam's step with a row's weights of a channel, the transform of whose gradient is in x."""
    _transform_back(x, later_mean)
    for i in range(0, LENGTH, LANES):
        _fetch(later_square, i)
        _adam(x, i, weight, i, mean, i, square, i, settings, 0)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def learn(  # noqa: PLR0917, a compiled function takes arrays
    begin: int,
    end: int,
    weight: Floats,
    mean: Floats,
    square: Floats,
    samples: Floats,
    slopes: Floats,
    settings: Floats,
    space: Floats,
) -> None:
    """Find the gradient of weights, (rows, channels, 1024), and take Adam's step with it, two rows at a time.

    Samples come by channel from :func:`transform_samples`, slopes from :func:`transform_slopes`.
    """
    rows, channels, _ = weight.shape
    tiles, gap = slopes.shape[1], channels * LENGTH
    x, y, flat = space.copy(), space.copy(), samples.reshape(-1)
    both = (x, y)
    for row in range(begin, end, 2):
        one, other = slopes[row].reshape(-1), slopes[row + 1].reshape(-1)
        for channel in range(channels):
            later = min(row // 2 * channels + channel + 1, rows // 2 * channels - 1)
            r, c = 2 * (later // channels), later % channels
            for i in range(0, LENGTH, LANES):
                _fetch(weight[r, c], i)
                _fetch(weight[r + 1, c], i)
                at = 2 * (i // LANES)
                _gradients(flat, channel * LENGTH + i, one, at, other, at, x, i, y, i, tiles // TILES, gap, tiles * gap)
            for own in range(2):
                w, m, s = weight[row + own, channel], mean[row + own, channel], square[row + own, channel]
                _learn_channel(both[own], w, m, s, settings, mean[r + own, c], square[r + own, c])
