from __future__ import annotations

from collections.abc import Iterator

import torch

from cgsa.engines.graph import in_turn


def test_walks_of_any_length_take_turns_until_all_have_ended() -> None:
    seen: list[str] = []

    def walk(name: str, steps: int) -> Iterator[None]:
        for step in range(steps):
            seen.append(f"{name}{step}")
            yield
        seen.append(f"{name} ends")

    in_turn([walk("a", 3), walk("b", 0), walk("c", 1)], torch.device("cpu"))
    assert seen == ["a0", "b ends", "c0", "a1", "c ends", "a2", "a ends"]
