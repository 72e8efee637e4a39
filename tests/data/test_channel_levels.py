from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cgsa.data.channel_levels import lowest_levels
from cgsa.data.recording import FloatArray


@given(seed=st.integers(0, 1000), length=st.integers(2, 20), count=st.integers(1, 4))
def test_levels_against_loops(seed: int, length: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    signals: list[FloatArray] = [
        rng.normal(3.0, 1 + number, (2, length * (number + 1) + 1)).astype(np.float32) for number in range(count)
    ]
    # Shorter than a window: it has no level.
    found = lowest_levels([*signals, np.ones((2, length - 1), np.float32)], length)
    for channel, level in enumerate(found):
        medians = []
        for signal in signals:
            cuts = range(0, signal.shape[1] - length + 1, length)
            medians.append(np.median([np.std(signal[channel, begin : begin + length]) for begin in cuts]))
        np.testing.assert_allclose(level, min(medians), rtol=1e-5)
