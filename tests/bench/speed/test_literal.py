from __future__ import annotations

import torch

from cgsa.bench.speed.literal import LiteralLoop
from cgsa.online.cgsa import Cgsa, CgsaConfig
from tests.machines import bundle, stream_windows


def test_the_literal_loop_gives_the_same_results() -> None:
    config = CgsaConfig(queue=20, tau=0.1, min_confidence=0.5)
    loop = LiteralLoop(bundle(), config)
    method = Cgsa(bundle(), {"queue": 20, "tau": 0.1, "min_confidence": 0.5})
    accepted = 0
    for _, x in stream_windows().batches(100):
        probabilities, reliable = loop.step(x)
        output = method.step(x)
        assert output.accepted is not None
        assert torch.nonzero(output.accepted).squeeze(1).tolist() == reliable
        # PyTorch's default Adam rounds in another order than the fused one.
        torch.testing.assert_close(output.probabilities, probabilities, rtol=0, atol=1e-5)
        accepted += len(reliable)
    assert accepted
