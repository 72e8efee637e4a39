from __future__ import annotations

from collections import deque

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.online.gate import ReliabilityGate

EMPTY = torch.empty(0, 1, dtype=torch.float64)


class LiteralGate:
    """The inner loop of Algorithm 1, one window at a time."""

    def __init__(self, queue: int, tau: float, min_confidence: float) -> None:
        self.queue: deque[float] = deque()
        self.capacity, self.tau, self.min_confidence = queue, tau, min_confidence

    def select(self, response: list[float], confidence: list[float]) -> tuple[list[bool], list[float | None]]:
        accepted: list[bool] = []
        deviations: list[float | None] = []
        for mu, rho in zip(response, confidence, strict=True):
            reliable, deviation = False, None
            if len(self.queue) == self.capacity:
                deviation = abs(mu - sum(self.queue) / self.capacity)
                reliable = deviation < self.tau and rho > self.min_confidence
                self.queue.popleft()
            self.queue.append(mu)
            accepted.append(reliable)
            deviations.append(deviation)
        return accepted, deviations


@given(
    queue=st.integers(1, 300),
    sizes=st.lists(st.integers(1, 256), min_size=1, max_size=8),
    drift=st.floats(-1e3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_gate_equals_the_loop(queue: int, sizes: list[int], drift: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    fast, slow = ReliabilityGate(queue, 0.5, 0.5), LiteralGate(queue, 0.5, 0.5)
    held = EMPTY
    for size in sizes:
        response = drift + torch.randn(size, generator=generator)
        confidence = torch.rand(size, generator=generator)
        selection, held = fast.select(held, response[:, None], confidence)
        accepted, deviations = slow.select(response.tolist(), confidence.tolist())
        assert selection.accepted.tolist() == accepted
        expected = torch.tensor([torch.nan if d is None else d for d in deviations], dtype=torch.float64)
        torch.testing.assert_close(selection.deviation, expected, rtol=0, atol=1e-9, equal_nan=True)
        torch.testing.assert_close(held[:, 0], torch.tensor(list(slow.queue), dtype=torch.float64))


def test_nothing_is_accepted_until_the_queue_is_full() -> None:
    gate = ReliabilityGate(queue=5)
    selection, _ = gate.select(EMPTY, torch.zeros(8, 1), torch.ones(8))
    assert selection.accepted.tolist() == [False] * 5 + [True] * 3


def test_both_borders_are_strict() -> None:
    gate = ReliabilityGate(queue=1, tau=0.25, min_confidence=0.5)
    _, queue = gate.select(EMPTY, torch.zeros(1, 1), torch.ones(1))
    for response, confidence, expected in [(0.25, 0.9, False), (0.125, 0.5, False), (0.125, 0.51, True)]:
        selection, _ = gate.select(queue, torch.tensor([[response]]), torch.tensor([confidence]))
        assert selection.accepted.item() is expected


def test_rejected_windows_enter_the_queue_too() -> None:
    gate = ReliabilityGate(queue=3)
    _, queue = gate.select(EMPTY, torch.tensor([[0.0], [0.0], [0.0], [9.0]]), torch.zeros(4))
    assert queue.tolist() == [[0.0], [0.0], [9.0]]


@pytest.mark.parametrize(
    ("by_residual", "by_confidence", "expected"),
    [
        (True, False, [False, False, True, False, False]),
        (False, True, [True, False, True, True, False]),
        (False, False, [True, True, True, True, True]),
    ],
)
def test_criteria_can_be_switched_off(*, by_residual: bool, by_confidence: bool, expected: list[bool]) -> None:
    gate = ReliabilityGate(2, 0.1, 0.5, by_residual=by_residual, by_confidence=by_confidence)
    response = torch.tensor([[0.0], [0.0], [0.0], [7.0], [0.0]])
    confidence = torch.tensor([0.9, 0.1, 0.9, 0.9, 0.1])
    selection, _ = gate.select(EMPTY, response, confidence)
    assert selection.accepted.tolist() == expected
