from __future__ import annotations

import torch

from cgsa.decide.unknown import add_unknown_state


def test_known_windows_keep_their_probabilities_and_distant_ones_do_not() -> None:
    probabilities = torch.tensor([[0.9, 0.1]]).repeat(4, 1)
    states = add_unknown_state(probabilities, torch.tensor([0.0, 1.0, 2.0, 4.0]), limit=2.0)
    torch.testing.assert_close(states.sum(dim=1), torch.ones(4).double())
    torch.testing.assert_close(states[0, :2], probabilities[0].double())
    assert states[1, 2] < 1e-5
    assert states[2, 2] == 0.5
    assert states[3, 2] > 1 - 1e-5
    # Between the known classes nothing is decided by the distance.
    torch.testing.assert_close(states[:, 0] / states[:, 1], torch.full((4,), 9.0).double(), rtol=1e-5, atol=0)
