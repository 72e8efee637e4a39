"""Healthy references for training, so that online a reference from any condition works.

The features of healthy machines differ from machine to machine more than a
fault changes them, and they depend on the condition. Subtracting a reference
makes machines comparable; but online it is acquired once, at an arbitrary
condition, and the condition then changes without notice. So training pairs
every window with references of the same machine from all conditions of the
training, and the network learns to ignore the difference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cgsa.data.windows import Windows
from cgsa.errors import DataError
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.reference import median_reference

HEALTHY = 0
"""Index of the healthy class."""
REFERENCES_PER_MACHINE = 256
"""Number of references per machine; they overlap, so more would add little."""
GENERAL_SHARE = 0.2
"""Share of windows paired with the mean over all machines, which a model uses before it has a reference."""
BATCH = 2048
"""Windows per pass through the front-end."""


class References:
    """References of every machine in the training windows, and their mean.

    The front-end of ``network`` must be fitted. ``generator``, on the CPU, draws where the healthy spans begin.
    """

    def __init__(self, windows: Windows, network: DiagnosisNet, *, seconds: float, generator: torch.Generator) -> None:
        self._rows = torch.zeros(int(windows.machines.max()) + 1, dtype=torch.long, device=windows.device)
        pools = []
        for row, machine in enumerate(sorted(set(windows.machines.tolist()))):
            self._rows[machine] = row
            pools.append(_pool(windows, network, machine, seconds, generator))
        self._pools = torch.stack(pools)
        self.mean = self._pools.mean(dim=(0, 1))

    def draw(self, machine: Tensor, generator: torch.Generator) -> Tensor:
        """Return a reference per window: usually one of its machine, sometimes the mean."""
        own = self.draw_own(machine, generator)
        general = torch.rand((len(machine), 1), device=machine.device, generator=generator) < GENERAL_SHARE
        return torch.where(general, self.mean, own)

    def draw_own(self, machine: Tensor, generator: torch.Generator) -> Tensor:
        """Return a reference of its own machine per window."""
        index = torch.randint(REFERENCES_PER_MACHINE, machine.shape, device=machine.device, generator=generator)
        return self._pools[self._rows[machine], index]


@torch.no_grad()
def _pool(windows: Windows, network: DiagnosisNet, machine: int, seconds: float, generator: torch.Generator) -> Tensor:
    """Return the references of one machine, equally many from each healthy segment."""
    healthy = torch.nonzero((windows.machines == machine) & (windows.labels == HEALTHY)).squeeze(1)
    if not len(healthy):
        raise DataError(f"machine {machine} has no healthy recording; a network with a reference needs one per machine")
    some = [healthy[begin : begin + BATCH] for begin in range(0, len(healthy), BATCH)]
    inputs = torch.cat([network.frontend(windows.gather(index)) for index in some])
    segments = windows.segments[healthy]
    wanted = max(1, round(seconds * windows.sample_rate / windows.spec.step))
    names = sorted(set(segments.tolist()))
    references = []
    for number in range(REFERENCES_PER_MACHINE):
        own = torch.nonzero(segments == names[number % len(names)]).squeeze(1)
        span = min(wanted, len(own))
        begin = int(torch.randint(len(own) - span + 1, (), generator=generator))
        references.append(median_reference(inputs[own[begin] : own[begin] + span]))
    return torch.stack(references)
