"""The contract of an engine, as a check that can be run: it gives the results of the plain engine.

Every engine passes it (``tests/engines/test_parity.py``); so should yours::

    check_engine(MyEngine(source, lr, capacity), PlainEngine(source, lr, capacity), method.algorithm_1, batches)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.engines.base import Algorithm, CgsaEngine, EngineOutput


@dataclass(frozen=True)
class Tolerance:
    """Largest difference from the plain engine; the defaults demand bit-identical results."""

    source: float = 0.0
    """In confidence, response and deviation, which do not depend on the student."""
    student: float = 0.0
    """In probabilities, all along the stream."""
    weights: float = 0.0
    """In the weights of the student and the moments of its optimiser."""


def check_engine(
    engine: CgsaEngine,
    reference: CgsaEngine,
    algorithm: Algorithm,
    batches: Iterable[Tensor],
    tolerance: Tolerance | None = None,
) -> None:
    """Run two new engines over one stream and raise AssertionError where they differ.

    Both must also predict without learning, and give their states to each other in the middle of the stream.
    """
    allowed = tolerance or Tolerance()
    for number, x in enumerate(batches):
        before = engine.state_dict()
        expected = reference.run(algorithm, x, learn=True)
        _compare(engine.run(algorithm, x, learn=False), expected, allowed, learn=False)
        _close(engine.predict(x), expected.probabilities, allowed.student, "predicted probabilities")
        _compare_states(engine.state_dict(), before, Tolerance())
        _compare(engine.run(algorithm, x, learn=True), expected, allowed, learn=True)
        states = engine.state_dict(), reference.state_dict()
        _compare_states(*states, allowed)
        if number % 2:
            for one, state in zip((engine, reference), reversed(states), strict=True):
                one.load_state_dict({**state, "generator": torch.empty(0)})
                _compare_states(one.state_dict(), state, Tolerance())


def _compare(found: EngineOutput, expected: EngineOutput, allowed: Tolerance, *, learn: bool) -> None:
    accepted = expected.accepted if learn else torch.zeros_like(expected.accepted)
    _close(found.accepted, accepted, 0.0, "accepted windows")
    _close(found.source.pseudo_label, expected.source.pseudo_label, 0.0, "pseudo-labels")
    _close(found.probabilities, expected.probabilities, allowed.student, "probabilities")
    for name in ("confidence", "response"):
        _close(getattr(found.source, name), getattr(expected.source, name), allowed.source, name)
    for name in ("queue_mean", "deviation"):
        _close(getattr(found, name), getattr(expected, name), allowed.source, name)


def _compare_states(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], allowed: Tolerance) -> None:
    if found.keys() != expected.keys():
        raise AssertionError(f"states differ in {sorted(found.keys() ^ expected.keys())}")
    for name, tensor in expected.items():
        _close(found[name], tensor, allowed.source if name == "memory.queue" else allowed.weights, name)


def _close(found: Tensor, expected: Tensor, limit: float, name: str) -> None:
    message = f"{name} differ from the plain engine's: "
    torch.testing.assert_close(found, expected, rtol=0, atol=limit, equal_nan=True, msg=lambda reason: message + reason)
