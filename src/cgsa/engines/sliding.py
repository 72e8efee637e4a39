"""A frozen linear layer over windows that overlap, for a fraction of its products.

Neighbouring windows share nearly all of their samples, so the layer's products
with all windows of a batch are one convolution: over blocks of as many samples
as the windows step. It is taken through a Fourier transform along the blocks.
That of the weights is made once, which is why the layer must be frozen.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

LEAST_BLOCKS = 16
"""A window of fewer blocks shares too little with the next to pay for the transforms."""


class SlidingLinear:
    """What a linear layer makes of windows, channel after channel, computed from the samples that they share.

    Parameters
    ----------
    layer
        The layer; changes to it are not seen.
    channels, length, step
        Of the windows; the length must be a multiple of the step.
    """

    def __init__(self, layer: nn.Linear, channels: int, length: int, step: int) -> None:
        if not self.pays(length, step):
            raise ValueError(f"windows of {length} at step {step}; expected {LEAST_BLOCKS} steps a window or more")
        self.length, self.step = length, step
        self.blocks = length // step
        # Twice the blocks of a window, rounded up to a power of two, in which transforms are quick.
        self.span = 1 << (2 * self.blocks - 1).bit_length()
        self.fresh = self.span - self.blocks + 1
        weights = layer.weight.detach().view(-1, channels, self.blocks, step)
        by_block = weights.permute(2, 1, 3, 0).reshape(self.blocks, channels * step, -1)
        # Conjugated, since a window correlates: its first block meets the first weights.
        self._spectrum = torch.fft.rfft(by_block, n=self.span, dim=0).conj().resolve_conj().contiguous()
        self._bias = layer.bias.detach().clone()

    @staticmethod
    def pays(length: int, step: int) -> bool:
        """Return whether windows overlap enough."""
        return length % step == 0 and length // step >= LEAST_BLOCKS

    @torch.no_grad()
    def __call__(self, samples: Tensor) -> Tensor:
        """Return the layer's values, (windows, out), of all windows in samples (channels, samples)."""
        channels, count = samples.shape
        windows = (count - self.length) // self.step + 1
        blocks = windows + self.blocks - 1
        spans = -(-windows // self.fresh)
        used = samples[:, : blocks * self.step].reshape(channels, blocks, self.step)
        used = used.permute(1, 0, 2).reshape(blocks, channels * self.step)
        used = pad(used, (0, 0, 0, (spans - 1) * self.fresh + self.span - blocks))
        spectrum = torch.fft.rfft(used.unfold(0, self.span, self.fresh), dim=2).permute(2, 0, 1).contiguous()
        found: Tensor = torch.fft.irfft(torch.bmm(spectrum, self._spectrum), n=self.span, dim=0)[: self.fresh]
        return found.permute(1, 0, 2).flatten(0, 1)[:windows] + self._bias
