"""CUDA graphs and streams: record once what a function launches, and run several replays on one GPU in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import TypeAlias

import torch

GraphMemory: TypeAlias = "torch.cuda._POOL_HANDLE"  # noqa: SLF001, the type has no other name
"""Handle of a memory pool that recorded graphs share."""


def can_compile() -> bool:
    """Return whether triton, the compiler of our GPU kernels, is installed."""
    return find_spec("triton") is not None


def has_kernels() -> bool:
    """Return whether GPU kernels can be imported: PyTorch is built for CUDA, and triton is installed."""
    return torch.version.cuda is not None and can_compile()


def capture(
    function: Callable[[], None], generator: torch.Generator | None = None, pool: GraphMemory | None = None
) -> Callable[[], None]:
    """Record ``function`` without running it, and return a function that replays it.

    Every replay reads and writes the same memory, and draws the next numbers from ``generator``. If the current stream
    is a side stream, it records, and the scratch memory of libraries belongs to it, so graphs recorded on different
    streams may run at the same time. Graphs that never do may share a memory ``pool``.
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
    """Return a new stream of a GPU; None on a CPU."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


def work_on(stream: torch.cuda.Stream | None) -> AbstractContextManager[None]:
    """Launch work on a stream; None stands for the current one."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


class SideStream:
    """A second stream of a GPU, for work that may run in parallel with the current one; a CPU works in order."""

    def __init__(self, device: torch.device) -> None:
        self._stream = make_stream(device)

    def fork(self) -> None:
        """Let the side stream wait for everything launched on the current stream so far, and for nothing later."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())

    def work(self) -> AbstractContextManager[None]:
        """Launch work on the side stream."""
        return work_on(self._stream)

    def join(self) -> None:
        """Let the current stream wait for everything on the side stream."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)


def interleave(tasks: Sequence[Iterator[None]], device: torch.device, *, own_streams: bool = True) -> None:
    """Take one step of every task in turn until all have ended; on a GPU, each on a stream of its own if asked for.

    A single small network leaves most of a GPU idle. Several tasks fill it, and each runs the same operations as alone.
    """
    if device.type != "cuda" or not own_streams:
        _take_turns(tasks)
        return
    before = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in tasks]  # type: ignore[no-untyped-call]
    for stream in streams:
        stream.wait_stream(before)
    _take_turns([_on_stream(task, stream) for task, stream in zip(tasks, streams, strict=True)])
    for stream in streams:
        before.wait_stream(stream)


def _take_turns(tasks: Sequence[Iterator[None]]) -> None:
    running = list(tasks)
    while running:
        running = [task for task in running if next(task, _ENDED) is not _ENDED]


def _on_stream(task: Iterator[None], stream: torch.cuda.Stream) -> Iterator[None]:
    while True:
        # The stream is set for one step only: a generator that yields inside would leave it set for all.
        with torch.cuda.stream(stream):
            if next(task, _ENDED) is _ENDED:
                return
        yield


_ENDED = object()
