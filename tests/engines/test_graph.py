from __future__ import annotations

from collections.abc import Iterator

import torch

from cgsa.engines.graph import interleave


def test_tasks_of_any_length_take_turns_until_all_have_ended() -> None:
    seen: list[str] = []

    def task(name: str, steps: int) -> Iterator[None]:
        for step in range(steps):
            seen.append(f"{name}{step}")
            yield
        seen.append(f"{name} ends")

    interleave([task("a", 3), task("b", 0), task("c", 1)], torch.device("cpu"))
    assert seen == ["a0", "b ends", "c0", "a1", "c ends", "a2", "a ends"]
