from __future__ import annotations

from collections import deque

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cgsa.engines.base import ResponseQueue
from cgsa.online.gate import ReliabilityGate, Selection


class LiteralGate:
    """The inner loop of Algorithm 1, one window and one condition at a time."""

    def __init__(self, queue: int, tau: float, min_confidence: float) -> None:
        self.queue: deque[list[float]] = deque()
        self.capacity, self.tau, self.min_confidence = queue, tau, min_confidence

    def select(self, response: list[list[float]], confidence: list[float]) -> tuple[list[bool], list[float | None]]:
        accepted: list[bool] = []
        deviations: list[float | None] = []
        for mu, rho in zip(response, confidence, strict=True):
            reliable, largest = False, None
            if len(self.queue) == self.capacity:
                reliable, largest = rho > self.min_confidence, 0.0
                for condition, mu_d in enumerate(mu):
                    deviation = abs(mu_d - sum(before[condition] for before in self.queue) / self.capacity)
                    reliable = reliable and deviation < self.tau
                    largest = max(largest, deviation)
                self.queue.popleft()
            self.queue.append(mu)
            accepted.append(reliable)
            deviations.append(largest)
        return accepted, deviations


@given(
    queue=st.integers(1, 300),
    sizes=st.lists(st.integers(1, 256), min_size=1, max_size=8),
    conditions=st.integers(1, 4),
    drift=st.floats(-1e3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_gate_equals_the_loop(queue: int, sizes: list[int], conditions: int, drift: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    fast, slow = ReliabilityGate(queue, 0.5, 0.5), LiteralGate(queue, 0.5, 0.5)
    held = ResponseQueue.empty(queue, conditions)
    for size in sizes:
        response = drift + torch.randn(size, conditions, generator=generator)
        confidence = torch.rand(size, generator=generator)
        selection, held = fast.select(held, response, confidence)
        accepted, deviations = slow.select(response.tolist(), confidence.tolist())
        assert selection.accepted.tolist() == accepted
        expected = torch.tensor([torch.nan if d is None else d for d in deviations], dtype=torch.float64)
        torch.testing.assert_close(selection.deviation, expected, rtol=0, atol=1e-9, equal_nan=True)
        torch.testing.assert_close(held.content(), torch.tensor(list(slow.queue), dtype=torch.float64))


def select_in_two_batches(response: Tensor, confidence: Tensor, *, queue: int) -> tuple[Selection, Tensor]:
    """Select from two batches of one stream."""
    gate = ReliabilityGate(queue, 0.5, 0.5)
    held = ResponseQueue.empty(queue, response.shape[1])
    found = []
    for r, c in zip(response.tensor_split(2), confidence.tensor_split(2), strict=True):
        selection, held = gate.select(held, r, c)
        found.append(selection)
    joined = (torch.cat([getattr(one, name) for one in found]) for name in ("accepted", "queue_mean", "deviation"))
    return Selection(*joined), held.content()


@given(copies=st.integers(1, 5), queue=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_copies_of_a_condition_count_as_one(copies: int, queue: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    response, confidence = torch.randn(100, 1, generator=generator), torch.rand(100, generator=generator)
    one, _ = select_in_two_batches(response, confidence, queue=queue)
    several, _ = select_in_two_batches(response.expand(-1, copies), confidence, queue=queue)
    assert torch.equal(several.accepted, one.accepted)
    torch.testing.assert_close(several.deviation, one.deviation, equal_nan=True)


@given(order=st.permutations(range(4)), queue=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_conditions_does_not_matter(order: list[int], queue: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    response, confidence = torch.randn(100, 4, generator=generator), torch.rand(100, generator=generator)
    before, held_before = select_in_two_batches(response, confidence, queue=queue)
    after, held_after = select_in_two_batches(response[:, order], confidence, queue=queue)
    assert torch.equal(after.accepted, before.accepted)
    torch.testing.assert_close(after.queue_mean, before.queue_mean[:, order], equal_nan=True)
    torch.testing.assert_close(after.deviation, before.deviation, equal_nan=True)
    assert torch.equal(held_after, held_before[:, order])


@given(queue=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_a_further_condition_accepts_no_further_window(queue: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    response, confidence = torch.randn(100, 3, generator=generator), torch.rand(100, generator=generator)
    accepted = [select_in_two_batches(response[:, :count], confidence, queue=queue)[0].accepted for count in (1, 2, 3)]
    assert not (accepted[1] & ~accepted[0]).any()
    assert not (accepted[2] & ~accepted[1]).any()


def test_nothing_is_accepted_until_the_queue_is_full() -> None:
    gate = ReliabilityGate(queue=5)
    selection, _ = gate.select(ResponseQueue.empty(5, 1), torch.zeros(8, 1), torch.ones(8))
    assert selection.accepted.tolist() == [False] * 5 + [True] * 3


def test_both_limits_are_strict() -> None:
    gate = ReliabilityGate(queue=1, tau=0.25, min_confidence=0.5)
    _, queue = gate.select(ResponseQueue.empty(1, 1), torch.zeros(1, 1), torch.ones(1))
    for response, confidence, expected in [(0.25, 0.9, False), (0.125, 0.5, False), (0.125, 0.51, True)]:
        selection, _ = gate.select(queue, torch.tensor([[response]]), torch.tensor([confidence]))
        assert selection.accepted.item() is expected


def test_rejected_windows_enter_the_queue_too() -> None:
    gate = ReliabilityGate(queue=3)
    _, queue = gate.select(ResponseQueue.empty(3, 1), torch.tensor([[0.0], [0.0], [0.0], [9.0]]), torch.zeros(4))
    assert queue.content().tolist() == [[0.0], [0.0], [9.0]]


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
    selection, _ = gate.select(ResponseQueue.empty(2, 1), response, confidence)
    assert selection.accepted.tolist() == expected


@given(
    queue=st.integers(1, 60),
    filled=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    windows=st.integers(1, 80),
    seed=st.integers(0, 2**32 - 1),
)
def test_each_machine_has_its_own_queue(queue: int, filled: list[int], windows: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    gate, held = ReliabilityGate(queue, 0.5, 0.5), [min(one, queue) for one in filled]
    queues = torch.randn(len(held), queue, 2, generator=generator, dtype=torch.float64)
    response = torch.randn(len(held), windows, 2, generator=generator)
    confidence = torch.rand(len(held), windows, generator=generator)
    found, after = gate.select(ResponseQueue(queues, torch.tensor(held)), response, confidence)
    for place, full in enumerate(held):
        own = ResponseQueue.empty(queue, 2)
        own.fill(queues[place, queue - full :])
        alone, kept = gate.select(own, response[place], confidence[place])
        assert torch.equal(found.accepted[place], alone.accepted)
        torch.testing.assert_close(found.deviation[place], alone.deviation, rtol=0, atol=1e-12, equal_nan=True)
        assert after.filled[place] == kept.filled
        assert torch.equal(after.responses[place, queue - int(kept.filled) :], kept.content())
