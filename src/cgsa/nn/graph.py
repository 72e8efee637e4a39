"""CUDA graphs and streams: record what a function launches once, and let several replays share the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch


def capture(function: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
    """Record ``function`` without running it, and return what replays it.

    It reads and writes the same memory in every replay, and goes on drawing
    from ``generator`` as it would have. The current stream must be a side
    stream: it records, and the libraries' scratch memory belongs to it, so
    graphs that were recorded on different streams may run at the same time.
    """
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        function()
    return graph.replay


def in_turn(walks: Sequence[Iterator[None]], device: torch.device) -> None:
    """Take one step of every walk in turn until all have ended; on a GPU each has a stream of its own.

    A single small network leaves most of a GPU idle. Walks beside each other
    fill it, and each does the very operations that it would do alone.
    """
    if device.type != "cuda":
        _interleave(walks)
        return
    before = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in walks]  # type: ignore[no-untyped-call]
    for stream in streams:
        stream.wait_stream(before)
    _interleave([_on_stream(walk, stream) for walk, stream in zip(walks, streams, strict=True)])
    for stream in streams:
        before.wait_stream(stream)


def _interleave(walks: Sequence[Iterator[None]]) -> None:
    open_walks = list(walks)
    while open_walks:
        open_walks = [walk for walk in open_walks if next(walk, _ENDED) is not _ENDED]


def _on_stream(walk: Iterator[None], stream: torch.cuda.Stream) -> Iterator[None]:
    while True:
        # The stream is set for one step only: a generator that yields inside would leave it set for all.
        with torch.cuda.stream(stream):
            if next(walk, _ENDED) is _ENDED:
                return
        yield


_ENDED = object()
