from __future__ import annotations

import pytest
import torch

from cgsa.errors import DataError
from cgsa.online.prototypes import MAX_PROTOTYPES, NAME_BYTES, Prototypes


def two() -> Prototypes:
    empty = Prototypes.empty(2, torch.device("cpu"))
    return empty.add("worn gear", torch.tensor([0.0, 0.0])).add("Lagerschaden ä", torch.tensor([10.0, 0.0]))


def nearest(kept: Prototypes, now: list[float], limit: float = 0.0) -> tuple[str, float] | None:
    return kept.nearest(lambda row: (torch.tensor(now) - row).norm().log()[None], limit)


def test_the_nearest_label_is_named() -> None:
    found = nearest(two(), [0.1, 0.0]), nearest(two(), [9.8, 0.0])
    assert [one[0] for one in found if one] == ["worn gear", "Lagerschaden ä"]
    assert all(one is not None and one[1] > 0.9 for one in found)


def test_nothing_is_named_far_from_every_label_or_without_any() -> None:
    assert nearest(two(), [5.0, 0.0]) is None
    assert nearest(Prototypes.empty(2, torch.device("cpu")), [0.0, 0.0]) is None


def test_intervals_with_the_same_label_count_together() -> None:
    kept = two().add("worn gear", torch.tensor([0.0, 2.0]))
    found = nearest(kept, [0.0, 1.0], limit=0.0)
    assert found is not None
    assert found[0] == "worn gear"
    assert found[1] == pytest.approx(2 / 3, abs=0.01)


def test_the_oldest_are_discarded_and_long_names_refused() -> None:
    kept = Prototypes.empty(1, torch.device("cpu"))
    for number in range(MAX_PROTOTYPES + 2):
        kept = kept.add(f"state {number}", torch.tensor([float(number)]))
    assert len(kept) == MAX_PROTOTYPES
    assert float(kept.rows[0]) == 2.0
    with pytest.raises(DataError, match="expected 1 to"):
        kept.add("x" * (NAME_BYTES + 1), torch.zeros(1))
