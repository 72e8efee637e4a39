"""CUDA graphs: record what a function launches once, then replay it without Python in between."""

from __future__ import annotations

from collections.abc import Callable

import torch


def run_aside(function: Callable[[], None]) -> None:
    """Run a function on a stream of its own, as a capture asks of the runs before it."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)


def capture(function: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
    """Record ``function`` without running it, and return what replays it.

    It reads and writes the same memory in every replay, and goes on drawing
    from ``generator`` as it would have.
    """
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        function()
    return graph.replay
