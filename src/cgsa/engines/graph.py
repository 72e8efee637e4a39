"""CUDA graphs and streams: record what a function launches once, and let several replays share the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeAlias

import torch

GraphMemory: TypeAlias = "torch.cuda._POOL_HANDLE"  # noqa: SLF001, the type has no other name
"""Handle of memory that recorded graphs share."""


def can_compile() -> bool:
    """Return whether the compiler of :mod:`cgsa.engines.kernels` is there."""
    return find_spec("triton") is not None


def capture(
    function: Callable[[], None], generator: torch.Generator | None = None, pool: GraphMemory | None = None
) -> Callable[[], None]:
    """Record ``function`` without running it, and return what replays it.

    It reads and writes the same memory in every replay, and goes on drawing
    from ``generator`` as it would have. The current stream records if it is a
    side stream, and the libraries' scratch memory belongs to it, so graphs that
    were recorded on different streams may run at the same time. Graphs that
    never do may share a ``pool`` of memory.
    """
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    current = torch.cuda.current_stream()
    stream = None if current == torch.cuda.default_stream() else current
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        function()
    return graph.replay


def make_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return a new stream of a GPU; none on a CPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


class SideStream:
    """A second stream of a GPU, for work that may run beside other work; on a CPU it comes before it.

    Parameters
    ----------
    device
        Where both run.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = make_stream(device)

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Let work go aside; it sees all that was done so far."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """Let everything from here on see what was done aside."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)


@contextmanager
def in_tf32(device: torch.device) -> Iterator[None]:
    """Let a GPU multiply matrices in TF32: ten bits of a number count instead of 23, several times as fast."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def in_turn(walks: Sequence[Iterator[None]], device: torch.device, *, apart: bool = True) -> None:
    """Take one step of every walk in turn until all have ended; on a GPU, if ``apart``, each on a stream of its own.

    A single small network leaves most of a GPU idle. Walks beside each other
    fill it, and each does the very operations that it would do alone.
    """
    if device.type != "cuda" or not apart:
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
