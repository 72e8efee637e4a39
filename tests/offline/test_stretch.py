from __future__ import annotations

import torch

from cgsa.offline.stretch import COPIES, recordings_of_copies, with_stretched_copies

BINS = 64


def test_copies_are_recordings_of_their_own() -> None:
    features, recordings = torch.randn(3, 2 * BINS), torch.tensor([0, 4, 4])
    copies, numbers = with_stretched_copies(features, BINS), recordings_of_copies(recordings)
    assert len(copies) == len(numbers) == 3 * (1 + COPIES)
    assert len(set(numbers.tolist())) == 2 * (1 + COPIES)
    torch.testing.assert_close(copies[:3], features)
    assert len({tuple(row.tolist()) for row in copies}) == len(copies)
