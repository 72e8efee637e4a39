from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.engines.stacked_adam import StackedAdam


@given(turns=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_every_row_is_an_adam_of_its_own(turns: list[list[bool]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(3, 40, generator=generator)
    alone = [row.clone().requires_grad_() for row in weights]
    adams = [torch.optim.Adam([row], lr=0.01) for row in alone]
    stacked = StackedAdam(weights, 0.01)
    for learns in turns:
        gradient = torch.randn(3, 40, generator=generator)
        stacked.step(gradient, torch.tensor(learns))
        for place, (row, adam) in enumerate(zip(alone, adams, strict=True)):
            if learns[place]:
                row.grad = gradient[place]
                adam.step()
    assert stacked.steps.tolist() == [sum(column) for column in zip(*turns, strict=True)]
    torch.testing.assert_close(weights, torch.stack([row.detach() for row in alone]))


def test_a_row_that_restarts_has_done_nothing() -> None:
    stacked = StackedAdam(torch.zeros(2, 5), 0.01)
    stacked.step(torch.ones(2, 5), torch.tensor([True, True]))
    stacked.restart(0)
    for state in (stacked.means, stacked.squares, stacked.steps):
        assert not state[0].any()
        assert state[1].all()
