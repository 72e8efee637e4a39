from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.online.healthy_start import ObservedRows
from cgsa.online.score_history import BLOCKS, ScoreHistory

NOTHING = ObservedRows.empty(2, 3, 1, torch.device("cpu"))


def rows(*values: float) -> ObservedRows:
    number = torch.tensor(values)
    return ObservedRows(number[:, None, None].expand(-1, 2, 3), number[:, None], number)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40))
def test_blocks_are_means_over_their_windows(sizes: list[int]) -> None:
    """One second per batch, three seconds per block."""
    history, expected, values = ScoreHistory.empty(NOTHING), [], []
    for second, size in enumerate(sizes):
        new = [float(second + number) for number in range(size)]
        values += new
        history = history.add(rows(*new), second, second + 1.0, block_seconds=3.0)
        if second % 3 == 2:
            expected.append(sum(values) / len(values))
            values = []
    for tensor in history.blocks.tensors().values():
        torch.testing.assert_close(tensor.flatten(1).mean(dim=1) if tensor.ndim > 1 else tensor, torch.tensor(expected))
    assert history.times.tolist() == [[3 * number, 3 * number + 3] for number in range(len(expected))]


def test_a_block_ends_at_a_long_gap() -> None:
    history = ScoreHistory.empty(NOTHING).add(rows(1.0), 0.0, 1.0, 3.0).add(rows(3.0), 1.5, 2.5, 3.0)
    assert len(history.blocks) == 0
    history = history.add(rows(9.0), 20.0, 21.0, 3.0)
    assert history.times.tolist() == [[0.0, 2.5]]
    assert history.blocks.distances.tolist() == [2.0]


def test_only_the_newest_blocks_are_kept() -> None:
    history = ScoreHistory.empty(NOTHING)
    for second in range(BLOCKS + 3):
        history = history.add(rows(float(second)), second, second + 1.0, 1.0)
    assert history.blocks.distances.tolist() == [float(second) for second in range(3, BLOCKS + 3)]
    assert len(history.times) == BLOCKS


def test_an_interval_without_a_whole_block_is_refused() -> None:
    history = ScoreHistory.empty(NOTHING)
    with pytest.raises(DataError, match="no complete block yet"):
        history.between(0.0, 9.0)
    for second in range(4):
        history = history.add(rows(float(second)), second, second + 1.0, 2.0)
    assert history.between(0.0, 4.0).distances.tolist() == [0.5, 2.5]
    assert history.between(1.0, 4.0).distances.tolist() == [2.5]
    with pytest.raises(DataError, match=r"it reaches from 0\.0 to 4\.0 s in blocks of up to 2\.0 s"):
        history.between(1.0, 3.0)


def test_a_history_is_restored_from_its_tensors() -> None:
    history = ScoreHistory.empty(NOTHING)
    for second in range(5):
        history = history.add(rows(float(second), 1.0), second, second + 1.0, 2.0)
    restored = ScoreHistory.from_tensors(history.tensors())
    again = restored.add(rows(7.0), 5.0, 6.0, 2.0)
    whole = history.add(rows(7.0), 5.0, 6.0, 2.0)
    assert again.tensors().keys() == whole.tensors().keys()
    assert all(torch.equal(again.tensors()[name], whole.tensors()[name]) for name in whole.tensors())
