from __future__ import annotations

import torch

from cgsa.nn.reference_shift import needed_shift

POOL = torch.tensor([1.0])
HEALTHY = torch.tensor([[2.0, 0.0]])


def span_of(advantage: float) -> torch.Tensor:
    """Five windows whose healthy class is ahead by this much."""
    return torch.tensor([advantage, 0.0]).expand(5, 1, 2).clone()


def test_a_healthy_start_needs_no_shift() -> None:
    assert torch.equal(needed_shift(span_of(1.0), HEALTHY, POOL), torch.zeros(1, 2))


def test_a_model_that_only_doubts_needs_a_person_who_confirms_the_span() -> None:
    assert not needed_shift(span_of(-1.0), HEALTHY, POOL).any()
    assert needed_shift(span_of(-1.0), HEALTHY, POOL, confirmed=True).any()
    assert needed_shift(span_of(-3.0), HEALTHY, POOL).any()


def test_the_least_share_that_suffices_is_taken() -> None:
    for advantage, share in ((-1.0, 0.5), (-3.0, 0.75), (-20.0, 1.0)):
        shift = needed_shift(span_of(advantage), HEALTHY, POOL, confirmed=True)
        torch.testing.assert_close(shift, share * (span_of(advantage)[0] - HEALTHY))


def test_a_shift_that_never_suffices_is_taken_as_a_whole() -> None:
    """The healthy machine of the training does not look healthy either."""
    wrong = torch.tensor([[-1.0, 0.0]])
    torch.testing.assert_close(needed_shift(span_of(-4.0), wrong, POOL), span_of(-4.0)[0] - wrong)
