"""Sums over the frames of windows that share frames, within a batch and from one batch of a stream to the next.

Blocks of frames are added first, then the blocks, so that every window adds its frames in the same order whether it
comes alone or with its neighbours. In a stream most of the blocks of a batch are those of the batch before:
:class:`RecentFrames` keeps them. It is no state, only a saving: what it keeps is used where the samples are the same,
and every sum is the same to the bit with it and without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TypeAlias

import torch
from torch import Tensor

from cgsa.data.windows import underlying_samples

Transform: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class FrameLayout:
    """Where the frames of a batch of windows are."""

    frames: int
    """Frames of a window."""
    block: int
    """Frames of a block."""
    windows: int
    stride: int
    """Frames from one window to the next."""

    @cached_property
    def grid(self) -> int:
        """Frames from one block to the next: blocks begin where windows do, and every ``block`` frames after that."""
        return gcd(self.block, self.stride)

    @property
    def whole(self) -> int:
        """Number of whole blocks."""
        return max(0, self.begun - self.block // self.grid)

    @property
    def begun(self) -> int:
        """Number of blocks that are whole or have only as many frames as the end of a window needs."""
        return (self._last + self.frames // self.block * self.block) // self.grid + 1

    @property
    def _last(self) -> int:
        return (self.windows - 1) * self.stride

    def add_blocks(self, every: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """Return the sums of begun and of whole blocks from block ``first`` on, (rows, blocks, ...).

        ``every`` has the frames from there on, (rows, frames, ...).
        """
        grid, rest = self.grid, self.frames % self.block
        begun = every.new_zeros(len(every), self.begun - first, *every.shape[2:])
        for number in range(rest):
            begun += every[:, number : number + begun.shape[1] * grid : grid]
        whole = begun[:, : max(0, self.whole - first)].clone()
        for number in range(rest, self.block):
            whole += every[:, number : number + whole.shape[1] * grid : grid]
        return begun, whole

    def add_windows(self, begun: Tensor, whole: Tensor) -> Tensor:
        """Return the sums of windows, (rows, windows, ...), from those of all blocks."""
        grid, blocks = self.grid, self.frames // self.block
        total = begun[:, blocks * self.block // grid :: self.stride // grid].clone()
        for number in range(blocks):
            begin = number * self.block // grid
            total += whole[:, begin : begin + self._last // grid + 1 : self.stride // grid]
        return total


def sums_over_frames(every: Tensor, frames: int, block: int, windows: int, stride: int) -> Tensor:
    """Return the sums over the frames of windows, (rows, windows, ...), from all frames (rows, frames, ...)."""
    layout = FrameLayout(frames, block, windows, stride)
    return layout.add_windows(*layout.add_blocks(every))


class RecentFrames:
    """What was computed of the newest windows of one stream; those that follow compute only what is new.

    Every value that is kept belongs to a *place* in the samples, so it moves with them.
    """

    def __init__(self) -> None:
        self._samples: Tensor | None = None
        self._step = self._windows = 0
        self._advance: int | None = None
        self._before: dict[str, tuple[Tensor, ...]] = {}
        self._now: dict[str, tuple[Tensor, ...]] = {}
        self._sums: dict[str, Tensor] = {}

    def follow(self, x: Tensor) -> None:
        """Take the next windows, and find out whether their samples continue those before."""
        shared = underlying_samples(x) if x.device.type == "cpu" and x.dtype == torch.float32 else None
        former, self._samples, self._advance = self._samples, None, None
        if shared is not None:
            # A copy: the memory of the windows may be used for the next ones.
            self._samples = shared[0].clone()
            if former is not None and shared[1] == self._step:
                advance = self._windows * self._step
                overlap = former.shape[1] - advance
                if 0 < overlap <= self._samples.shape[1] and _same(former[:, advance:], self._samples[:, :overlap]):
                    self._advance = advance
            self._step, self._windows = shared[1], len(x)
        self._before = self._now if self._advance is not None else {}
        self._now, self._sums = {}, {}

    def sums(
        self, name: str, samples: Tensor, layout: FrameLayout, transform: Transform, *, hop: int, per: int
    ) -> Tensor:
        """Return the sums of ``transform`` over the frames of windows; computed once per batch for each name.

        ``transform`` gets samples and returns one value per frame. ``hop`` is from one frame to the next, in samples;
        a sample here may be a value for ``per`` samples of the windows.
        """
        if name in self._sums:
            return self._sums[name]
        known = 0
        kept: tuple[Tensor, ...] = ()
        if name in self._before and self._advance is not None:
            moved = self._advance // (per * hop * layout.grid)
            kept = tuple(one[:, moved:] for one in self._before[name])
            known = kept[0].shape[1]
        begun, whole = layout.add_blocks(transform(samples[..., known * layout.grid * hop :]), known)
        if kept:
            begun, whole = torch.cat([kept[0], begun], dim=1), torch.cat([kept[1], whole], dim=1)
        # The last begun blocks have no whole ones beside them yet, and are added again with the next batch.
        self._now[name] = (begun[:, : whole.shape[1]], whole)
        self._sums[name] = layout.add_windows(begun, whole)
        return self._sums[name]

    def values(self, name: str, samples: Tensor, hop: int, transform: Transform) -> Tensor:
        """Return what ``transform`` makes of samples (channels, samples): a value every ``hop`` samples."""
        kept: tuple[Tensor, ...] = ()
        if name in self._before and self._advance is not None:
            kept = tuple(one[:, self._advance // hop :] for one in self._before[name])
        known = kept[0].shape[1] if kept else 0
        self._now[name] = (torch.cat([*kept, transform(samples[:, known * hop :])], dim=1),)
        return self._now[name][0]


def _same(first: Tensor, second: Tensor) -> bool:
    """Return whether samples are the same to the bit."""
    return torch.equal(first.view(torch.int32), second.view(torch.int32))
