"""Labelled states of a machine: the mean features of intervals that people have labelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from cgsa.errors import DataError

NAME_BYTES = 64
"""Most bytes of a label."""
MAX_PROTOTYPES = 32
"""Labelled intervals that are kept; the oldest is discarded."""
SHARPNESS = 8.0
"""How fast the probability of a label falls with the distance from it: at 1.5 times the limit, 4 % remain."""


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Labelled intervals, oldest first."""

    names: Tensor
    """UTF-8 bytes of each label, padded with zeros, (prototypes, bytes)."""
    rows: Tensor
    """Mean features of each, (prototypes, features)."""

    @classmethod
    def empty(cls, features: int, device: torch.device) -> Self:
        """Return no prototypes."""
        return cls(
            torch.zeros(0, NAME_BYTES, dtype=torch.uint8, device=device), torch.zeros(0, features, device=device)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, name: str, row: Tensor) -> Prototypes:
        """Return the prototypes with one more."""
        encoded = list(name.encode())
        if not 0 < len(encoded) <= NAME_BYTES:
            raise DataError(f"label {name!r} has {len(encoded)} bytes; expected 1 to {NAME_BYTES}")
        padded = self.names.new_tensor([encoded + [0] * (NAME_BYTES - len(encoded))])
        names, rows = torch.cat([self.names, padded]), torch.cat([self.rows, row[None].to(self.rows)])
        return Prototypes(names[-MAX_PROTOTYPES:], rows[-MAX_PROTOTYPES:])

    def nearest(self, log_distance: Callable[[Tensor], Tensor], limit: float) -> tuple[str, float] | None:
        """Return the most probable label with its probability; None if none of them is more probable than no label.

        Parameters
        ----------
        log_distance
            Returns the logarithm of the distance of the machine now from a row.
        limit
            Logarithm of the distance at which a label and no label are equally probable.
        """
        if not len(self):
            return None
        closeness = torch.stack([SHARPNESS * (limit - log_distance(row)) for row in self.rows])
        shares = torch.softmax(torch.cat([closeness.reshape(-1), closeness.new_zeros(1)]), dim=0)
        labels = [bytes(name).rstrip(b"\0").decode() for name in self.names.cpu().numpy()]
        totals = {name: sum(float(shares[n]) for n, one in enumerate(labels) if one == name) for name in labels}
        best = max(totals, key=lambda name: totals[name])
        return (best, totals[best]) if totals[best] > float(shares[-1]) else None

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Return the prototypes whose :meth:`tensors` these are."""
        return cls(**tensors)
