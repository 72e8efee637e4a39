from __future__ import annotations

from itertools import combinations

import numpy as np
import onnxruntime
import pytest

from cgsa.edge.graph import GraphBuilder
from cgsa.edge.hermitian import hermitian_logarithm

MATRICES, LEAST = 60, 1e-38


def matrices(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return positive definite matrices: usual ones, of widely different channels, of equal ones, and diagonal ones."""
    parts = rng.standard_normal((2, MATRICES, rows, 2 * rows))
    parts *= 10.0 ** rng.uniform(-2, 2, (1, MATRICES, rows, 1))
    parts[:, :10, 1] = parts[:, :10, 0]
    factors = parts[0] + 1j * parts[1]
    found = factors @ factors.conj().swapaxes(1, 2)
    found[10:15] = 0
    found[15:20] *= np.eye(rows)
    level = np.einsum("nii->n", found).real / rows
    return np.asarray(found + (1e-3 * level + 1e-9)[:, None, None] * np.eye(rows))


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 8, 12])
def test_logarithms_are_those_of_the_eigenvalues(rows: int) -> None:
    pairs = list(combinations(range(rows), 2))
    graph = GraphBuilder()
    found = hermitian_logarithm(graph, (graph.input("real", 3), graph.input("imaginary", 3)), rows, pairs, LEAST)
    for name, value in zip(("diagonal", "beside", "imaginary_beside"), found, strict=True):
        graph.output(name, value, 2)
    session = onnxruntime.InferenceSession(graph.to_bytes(), providers=["CPUExecutionProvider"])
    given = matrices(rows, np.random.default_rng(rows))
    inputs = {"real": given.real, "imaginary": given.imag}
    diagonal, beside, imaginary = session.run(None, {k: v.transpose(1, 2, 0).copy() for k, v in inputs.items()})
    values, vectors = np.linalg.eigh(given)
    expected = (vectors * np.log(values)[:, None]) @ vectors.conj().swapaxes(1, 2)
    first, second = zip(*pairs, strict=True)
    np.testing.assert_allclose(diagonal, np.einsum("nii->in", expected).real, rtol=0, atol=1e-10)
    np.testing.assert_allclose(beside + 1j * imaginary, expected[:, first, second].T, rtol=0, atol=1e-10)


def test_eigenvalues_have_a_least_value() -> None:
    graph = GraphBuilder()
    found = hermitian_logarithm(graph, (graph.input("real", 3), graph.input("imaginary", 3)), 2, [(0, 1)], 0.5)
    graph.output("diagonal", found[0], 2)
    session = onnxruntime.InferenceSession(graph.to_bytes(), providers=["CPUExecutionProvider"])
    [diagonal] = session.run(None, {"real": np.zeros((2, 2, 1)), "imaginary": np.zeros((2, 2, 1))})
    np.testing.assert_allclose(diagonal, np.log(0.5))
