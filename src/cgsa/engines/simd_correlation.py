"""Correlations of weights with overlapping windows: products of the transforms of :mod:`cgsa.engines.simd_fft`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import njit

from cgsa.engines.simd_fft import (
    BLOCKS,
    IMAGINARY,
    LENGTH,
    TILES,
    Floats,
    inverse_transform,
    prefetch,
    transform,
    transform_row,
)
from cgsa.engines.simd_registers import (
    LANES,
    Kind,
    Memory,
    Register,
    Value,
    horizontal_sums,
    intrinsic,
    make_intrinsic,
    sum_registers,
)


def _products(weights: Sequence[Memory], samples: Memory, channels: Value) -> list[Register]:
    """Return the products of the transforms of some rows with four tiles at one frequency, eight numbers each."""
    builder = samples.builder
    lanes, both = ir.Constant(channels.type, LANES), ir.Constant(channels.type, 2 * TILES * LANES)
    width = builder.mul(channels, lanes)

    def terms(channel: Value) -> list[Register]:
        place = builder.mul(channel, lanes)
        behind = builder.add(place, width)
        parts = [(weight[place], weight[behind]) for weight in weights]
        here = Memory(builder, builder.gep(samples.pointer, [builder.mul(channel, both)]))
        tiles = [(here[2 * tile * LANES], here[(2 * tile + 1) * LANES]) for tile in range(TILES)]
        return [part for wr, wi in parts for sr, si in tiles for part in (sr * wr + si * wi, si * wr - sr * wi)]

    sums = sum_registers(builder, channels, terms, 2 * TILES * len(weights))
    return [horizontal_sums(sums[place : place + 2 * TILES]) for place in range(0, len(sums), 2 * TILES)]


@intrinsic
def _multiply(_: Kind, weights: Kind, i: Kind, samples: Kind, j: Kind, found: Kind, k: Kind, channels: Kind) -> Kind:  # noqa: PLR0917
    """Write the products of the transform of a row with four tiles at one frequency."""

    def emit(weights: Memory, samples: Memory, found: Memory, channels: Value) -> None:
        (found[0],) = _products([weights], samples, channels)

    return make_intrinsic((weights, i, samples, j, found, k, channels), emit)


@intrinsic
def _multiply_both(  # noqa: PLR0917
    _: Kind, one: Kind, i: Kind, other: Kind, j: Kind, samples: Kind, k: Kind, found: Kind, m: Kind, others: Kind,
    n: Kind, channels: Kind,
) -> Kind:  # fmt: skip
    """Write the products of two rows, reading the samples once."""

    def emit(one: Memory, other: Memory, samples: Memory, found: Memory, others: Memory, channels: Value) -> None:  # noqa: PLR0917
        found[0], others[0] = _products([one, other], samples, channels)

    return make_intrinsic((one, i, other, j, samples, k, found, m, others, n, channels), emit)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def correlate(begin: int, end: int, weight: Floats, samples: Floats, space: Floats, found: Floats) -> None:  # noqa: PLR0917
    """Write the transforms of the outputs of weights, (rows, channels, 1024): (rows, tiles * frequencies * 2).

    Samples come by frequency from :func:`~cgsa.engines.simd_fft.transform_samples`, as one row. In the result, the four
    tiles at a frequency are adjacent.
    """
    channels = weight.shape[1]
    width = channels * LANES
    x, transforms = space.copy(), np.empty(BLOCKS * 2 * width, dtype=np.float32)
    for row in range(begin, end):
        transform_row(weight, row, x, transforms)
        for place in range(found.shape[1] // (2 * TILES)):
            at, to = place % BLOCKS * 2 * width, place * 2 * TILES
            _multiply(transforms, at, samples, to * width, found[row], to, channels)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def correlate_both(  # noqa: PLR0917, a compiled function takes arrays
    begin: int, end: int, frozen: Floats, weight: Floats, samples: Floats, space: Floats, found_frozen: Floats,
    found: Floats
) -> None:  # fmt: skip
    """Do the same for frozen weights, given as transforms, and for other weights at once."""
    channels = weight.shape[1]
    width = channels * LANES
    x, transforms = space.copy(), np.empty(BLOCKS * 2 * width, dtype=np.float32)
    for row in range(begin, end):
        transform_row(weight, row, x, transforms)
        later = frozen[min(row + 1, len(frozen) - 1)]
        for place in range(found.shape[1] // (2 * TILES)):
            at, to = place % BLOCKS * 2 * width, place * 2 * TILES
            for i in range(at, at + 2 * width, LANES):
                prefetch(later, i)
            _multiply_both(
                frozen[row], at, transforms, at, samples, to * width, found_frozen[row], to, found[row], to, channels
            )


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def invert_outputs(begin: int, end: int, found: Floats, bias: Floats, space: Floats, values: Floats) -> None:  # noqa: PLR0917
    """Write outputs, (64 * tiles, rows), from the transforms of :func:`correlate`, and add the bias of each row."""
    part = np.float32(1 / BLOCKS)
    x = space.copy()
    for first in range(begin, end, LANES):
        for tile in range(len(values) // BLOCKS):
            for frequency in range(BLOCKS):
                place = 2 * ((tile // TILES * BLOCKS + frequency) * TILES + tile % TILES)
                for lane in range(LANES):
                    x[frequency * LANES + lane] = found[first + lane, place]
                    x[IMAGINARY + frequency * LANES + lane] = found[first + lane, place + 1]
            inverse_transform(x, x)
            for block in range(BLOCKS):
                for lane in range(LANES):
                    values[tile * BLOCKS + block, first + lane] = x[block * LANES + lane] * part + bias[first + lane]


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def transform_gradients(begin: int, end: int, gradients: Floats, space: Floats, found: Floats) -> None:
    """Write 1/64 of the transforms of output gradients, (windows, rows): (rows, tiles, frequencies, 2)."""
    part = np.float32(1 / BLOCKS)
    x, given = space.copy(), np.zeros(LENGTH, dtype=np.float32)
    for first in range(begin, end, LANES):
        for tile in range(found.shape[1]):
            for block in range(BLOCKS):
                window = tile * BLOCKS + block
                for lane in range(LANES):
                    given[block * LANES + lane] = gradients[window, first + lane] if window < len(gradients) else 0
            transform(given, x, x, 0, LANES, IMAGINARY, given)
            for lane in range(LANES):
                for frequency in range(BLOCKS):
                    found[first + lane, tile, frequency, 0] = x[frequency * LANES + lane] * part
                    found[first + lane, tile, frequency, 1] = x[IMAGINARY + frequency * LANES + lane] * part


@intrinsic
def _weight_gradients(  # noqa: PLR0917
    _: Kind, samples: Kind, i: Kind, one: Kind, j: Kind, other: Kind, k: Kind, x: Kind, m: Kind, y: Kind, n: Kind,
    fours: Kind, gap: Kind, imaginary: Kind,
) -> Kind:  # fmt: skip
    """Write the transforms of the weight gradients of two rows, to x and y, from output gradients at one frequency.

    Sums run over ``fours`` groups of four tiles. Samples of tiles are ``gap`` apart, imaginary parts ``imaginary``
    behind.
    """

    def emit(  # noqa: PLR0917
        samples: Memory, one: Memory, other: Memory, x: Memory, y: Memory, fours: Value, gap: Value, imaginary: Value
    ) -> None:
        builder = samples.builder

        def terms(four: Value) -> list[Register]:
            first = builder.mul(four, ir.Constant(fours.type, TILES))
            at, place = builder.mul(first, gap), builder.mul(first, ir.Constant(fours.type, 2 * BLOCKS))
            found: list[Register] = []
            for _ in range(TILES):
                sr, si = samples[at], samples[builder.add(at, imaginary)]
                behind = builder.add(place, ir.Constant(fours.type, 1))
                parts = [(gradients.broadcast(place), gradients.broadcast(behind)) for gradients in (one, other)]
                new = [part for er, ei in parts for part in (sr * er + si * ei, si * er - sr * ei)]
                found = [old + part for old, part in zip(found, new, strict=True)] if found else new
                at = builder.add(at, gap)
                place = builder.add(place, ir.Constant(fours.type, 2 * BLOCKS))
            return found

        x[0], x[IMAGINARY], y[0], y[IMAGINARY] = sum_registers(builder, fours, terms, 4)

    return make_intrinsic((samples, i, one, j, other, k, x, m, y, n, fours, gap, imaginary), emit)


@intrinsic
def _adam_update(  # noqa: PLR0917
    _: Kind, slope: Kind, i: Kind, weight: Kind, j: Kind, mean: Kind, k: Kind, square: Kind, m: Kind, settings: Kind,
    n: Kind,
) -> Kind:  # fmt: skip
    """Update sixteen weights and their moments."""

    def emit(slope: Memory, weight: Memory, mean: Memory, square: Memory, settings: Memory) -> None:
        new_mean, old_square, new_square, rate, correction, least = map(settings.broadcast, range(6))
        g, m = slope[0], mean[0]
        m += (g - m) * new_mean
        s = square[0] * old_square + g * g * new_square
        mean[0], square[0] = m, s
        weight[0] -= rate * m / (s.sqrt() * correction + least)

    return make_intrinsic((slope, i, weight, j, mean, k, square, m, settings, n), emit)


@njit(fastmath=True, error_model="numpy", cache=True)
def _adam_step_channel(  # noqa: PLR0917, a compiled function takes arrays
    x: Floats, weight: Floats, mean: Floats, square: Floats, settings: Floats, later_mean: Floats, later_square: Floats
) -> None:
    """Take Adam's step for the weights of a row and channel; x holds the transform of their gradient."""
    inverse_transform(x, later_mean)
    for i in range(0, LENGTH, LANES):
        prefetch(later_square, i)
        _adam_update(x, i, weight, i, mean, i, square, i, settings, 0)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def adam_step(  # noqa: PLR0917, a compiled function takes arrays
    begin: int, end: int, weight: Floats, mean: Floats, square: Floats, samples: Floats, gradients: Floats,
    settings: Floats, space: Floats
) -> None:  # fmt: skip
    """Find the gradient of weights, (rows, channels, 1024), and take Adam's step with it, two rows at a time.

    Samples come by channel from :func:`~cgsa.engines.simd_fft.transform_samples`, output gradients from
    :func:`transform_gradients`.
    """
    rows, channels, _ = weight.shape
    tiles, gap = gradients.shape[1], channels * LENGTH
    x, y, flat = space.copy(), space.copy(), samples.reshape(-1)
    both = (x, y)
    for row in range(begin, end, 2):
        one, other = gradients[row].reshape(-1), gradients[row + 1].reshape(-1)
        for channel in range(channels):
            later = min(row // 2 * channels + channel + 1, rows // 2 * channels - 1)
            r, c = 2 * (later // channels), later % channels
            for i in range(0, LENGTH, LANES):
                prefetch(weight[r, c], i)
                prefetch(weight[r + 1, c], i)
                at = 2 * (i // LANES)
                _weight_gradients(
                    flat, channel * LENGTH + i, one, at, other, at, x, i, y, i, tiles // TILES, gap, tiles * gap
                )
            for own in range(2):
                w, m, s = weight[row + own, channel], mean[row + own, channel], square[row + own, channel]
                _adam_step_channel(both[own], w, m, s, settings, mean[r + own, c], square[r + own, c])
