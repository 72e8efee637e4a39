"""Raw windows of several machines as the inputs of stacked networks, scaled and laid out one by one."""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.engines.graph import has_kernels
from cgsa.nn.frontends import Frontend

if has_kernels():
    from cgsa.engines import layer_kernels


def lay_out_raw_windows(frontend: Frontend, samples: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
    """Return all windows over samples of several machines, (machines, channels, samples).

    They are (machines, windows, points); on a GPU also transposed, (machines, points, windows) in bfloat16.
    """
    length = frontend.window_shape[1]
    if not samples.is_cuda:
        return frontend.scale(samples).unfold(2, length, step).transpose(1, 2).flatten(2), None
    starts = torch.arange(0, samples.shape[2] - length + 1, step, device=samples.device)[None]
    return lay_out_windows_at(frontend, samples, starts, transposed_dtype=torch.bfloat16)


def lay_out_windows_at(
    frontend: Frontend, samples: Tensor, starts: Tensor, *, transposed_dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the windows that start at ``starts``, (machines, windows), and their transpose; only on a GPU."""
    return layer_kernels.launch_window_layout(
        samples,
        starts,
        frontend.get_buffer("mean"),
        frontend.get_buffer("deviation"),
        length=frontend.window_shape[1],
        transposed_dtype=transposed_dtype,
    )
