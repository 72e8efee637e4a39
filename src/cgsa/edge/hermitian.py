"""Logarithms of Hermitian matrices in a graph: ONNX has neither complex numbers nor eigenvalues.

A Jacobi method with real and imaginary parts in separate tensors: every rotation makes one element beside the diagonal
zero. Half as many pairs of rows as there are rows are rotated at once, and the rows are then rearranged as the players
of a round-robin tournament, so that each pair comes once per sweep (R. Brent and F. Luk, "The solution of
singular-value and symmetric eigenvalue problems on multiprocessor arrays", SIAM J. Sci. Stat. Comput. 6, 1985).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cgsa.edge.graph import GraphBuilder, GraphValue

MORE_SWEEPS = 3
"""Sweeps beyond the number of binary digits of the rows; the error squares with each, and this leaves one to spare."""
NEGLIGIBLE = 1e-20
"""Share of the diagonal below which an element beside it is zero."""

Complex = tuple[GraphValue, GraphValue]
"""Real and imaginary part."""


def hermitian_logarithm(
    graph: GraphBuilder, matrix: Complex, rows: int, pairs: Sequence[tuple[int, int]], least: float
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """Return the logarithms of matrices (rows, rows, number): diagonals, and real and imaginary parts of some pairs.

    Eigenvalues below ``least`` count as ``least``.
    """
    even = rows + rows % 2
    real, imaginary = (_padded(graph, one, rows) for one in matrix)
    identity = np.eye(even)[:, :, None]
    number = real.take([0], axis=0).take([0], axis=1)
    vectors = (number * 0.0 + identity, number * 0.0 + np.zeros_like(identity))
    order = _tournament(even)

    def body(state: Sequence[GraphValue]) -> Sequence[GraphValue]:
        return _rotate_all((state[0], state[1]), (state[2], state[3]), even, order)

    found = graph.loop((MORE_SWEEPS + even.bit_length()) * (even - 1), [real, imaginary, *vectors], 3, body)
    diagonal = found[0].reshape(even * even, -1).take([row * even + row for row in range(even)], axis=0)
    logs = diagonal.at_least(least).log().expand(0)
    real, imaginary = found[2], found[3]
    wanted = [*((row, row) for row in range(rows)), *pairs]
    first, second = ((real.take(index, axis=0), imaginary.take(index, axis=0)) for index in zip(*wanted, strict=True))
    real_part = ((first[0] * second[0] + first[1] * second[1]) * logs).reduce("Sum", 1)
    imaginary_part = ((first[1] * second[0] - first[0] * second[1]) * logs).reduce("Sum", 1)
    end = rows + len(pairs)
    return real_part.part(0, 0, rows), real_part.part(0, rows, end), imaginary_part.part(0, rows, end)


def _padded(graph: GraphBuilder, part: GraphValue, rows: int) -> GraphValue:
    """Return matrices with an even number of rows; an added row is zero, so that nothing rotates into it."""
    if rows % 2 == 0:
        return part
    return graph.op("Pad", part, np.array([0, 0, 0, 1, 1, 0]))


def _rotate_all(matrix: Complex, vectors: Complex, rows: int, order: list[int]) -> list[GraphValue]:
    """Return matrix and vectors after one round: row k of the first half is paired with row k of the second."""
    half = rows // 2
    graph = matrix[0].graph
    flat = [one.reshape(rows * rows, -1) for one in matrix]
    first = flat[0].take([row * rows + row for row in range(half)], axis=0)
    second = flat[0].take([row * rows + row for row in range(half, rows)], axis=0)
    beside = [one.take([row * rows + row + half for row in range(half)], axis=0) for one in flat]
    size = (beside[0] * beside[0] + beside[1] * beside[1]).sqrt()
    # Elements that small no longer count, and the square of a still smaller one would lose its digits.
    none = graph.op("Not", size > (first.size() + second.size()) * NEGLIGIBLE)
    usable = graph.where(none, 1.0, size)
    ratio = (second - first) / (usable * 2.0)
    sign = graph.where(graph.op("Less", ratio, 0.0), -1.0, 1.0)
    tangent = graph.where(none, 0.0, sign / (ratio.size() + (ratio * ratio + 1.0).sqrt()))
    cosine = graph.constant(1.0) / (tangent * tangent + 1.0).sqrt()
    sine = tangent * cosine
    phase = (graph.where(none, 1.0, beside[0] / usable), graph.where(none, 0.0, beside[1] / usable))
    columns = [graph.concat([one, vector], axis=0) for one, vector in zip(matrix, vectors, strict=True)]
    of_columns = _rotated((columns[0], columns[1]), phase, cosine, sine, axis=1, half=half)
    conjugate = (phase[0], -phase[1])
    upper = [one.part(0, 0, rows) for one in of_columns]
    rotated = _rotated((upper[0], upper[1]), conjugate, cosine, sine, axis=0, half=half)
    after = [one.take(order, axis=0).take(order, axis=1) for one in rotated]
    # The vectors follow below the rows of the matrix.
    return [*after, *(one.part(0, rows, 2 * rows).take(order, axis=1) for one in of_columns)]


def _rotated(
    values: Complex, phase: Complex, cosine: GraphValue, sine: GraphValue, *, axis: int, half: int
) -> list[GraphValue]:
    """Return values with both halves of an axis rotated into each other; ``phase`` is taken off the second."""
    graph = values[0].graph
    spread = 1 - axis
    real, imaginary, cosine, sine = (one.expand(spread) for one in (*phase, cosine, sine))
    upper = [one.part(axis, 0, half) for one in values]
    lower = [one.part(axis, half, 2 * half) for one in values]
    aligned = (lower[0] * real + lower[1] * imaginary, lower[1] * real - lower[0] * imaginary)
    return [
        graph.concat([one * cosine - other * sine, one * sine + other * cosine], axis=axis)
        for one, other in zip(upper, aligned, strict=True)
    ]


def _tournament(rows: int) -> list[int]:
    """Return from which place each row comes next, so that within a sweep every pair is opposite each other once.

    >>> _tournament(4)
    [0, 2, 3, 1]
    """
    half = rows // 2
    if half == 1:
        return [0, 1]
    upper = [0, half, *range(1, half - 1)]
    return [*upper, *range(half + 1, rows), half - 1]
