"""Healthy references to train against, so that one from any condition will do online.

How a machine sounds when it is healthy differs from machine to machine more
than faults do, and moves with the condition. A reference taken off the features
makes machines alike; but online it is taken once, at whatever condition the
machine then has, and nobody says when the condition moves. So training pairs
every window with references of the same machine from all conditions of the
training, and the network learns to see through the difference.
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
"""References a machine; they overlap, so more of them say little that is new."""
GENERAL_SHARE = 0.2
"""Share of windows that are paired with the mean over all machines, which is what a model has before it is told."""
BATCH = 2048
"""Windows that go through the front-end at once."""


class References:
    """References of every machine in the training windows, and their mean.

    Parameters
    ----------
    windows
        Training windows.
    network
        Its front-end is fitted; its reference is set to the mean.
    seconds
        How long a healthy span is.
    generator
        Where the spans begin; on the CPU.
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
        """Return a reference for every window of these machines: one of its own, or now and then the mean."""
        own = self.draw_own(machine, generator)
        general = torch.rand((len(machine), 1), device=machine.device, generator=generator) < GENERAL_SHARE
        return torch.where(general, self.mean, own)

    def draw_own(self, machine: Tensor, generator: torch.Generator) -> Tensor:
        """Return a reference of its own machine for every window."""
        place = torch.randint(REFERENCES_PER_MACHINE, machine.shape, device=machine.device, generator=generator)
        return self._pools[self._rows[machine], place]


@torch.no_grad()
def _pool(windows: Windows, network: DiagnosisNet, machine: int, seconds: float, generator: torch.Generator) -> Tensor:
    """Return the references of one machine, every healthy segment giving as many."""
    healthy = torch.nonzero((windows.machines == machine) & (windows.labels == HEALTHY)).squeeze(1)
    if not len(healthy):
        raise DataError(f"machine {machine} has no healthy recording; a network with a reference needs one a machine")
    some = [healthy[begin : begin + BATCH] for begin in range(0, len(healthy), BATCH)]
    inputs = torch.cat([network.frontend(windows.gather(places)) for places in some])
    segments = windows.segments[healthy]
    wanted = max(1, round(seconds * windows.sample_rate / windows.spec.step))
    names = sorted(set(segments.tolist()))
    references = []
    for number in range(REFERENCES_PER_MACHINE):
        mine = torch.nonzero(segments == names[number % len(names)]).squeeze(1)
        span = min(wanted, len(mine))
        begin = int(torch.randint(len(mine) - span + 1, (), generator=generator))
        references.append(median_reference(inputs[mine[begin] : mine[begin] + span]))
    return torch.stack(references)
