"""What adapting methods share: copies of the source model, their optimisers, and a state that is whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import adam_state, load_adam_state
from cgsa.nn.state import check_fits, put_under, take_under
from cgsa.online.base import OnlineMethod


class AdaptingMethod(OnlineMethod):
    """A method that carries a state from batch to batch.

    A subclass sets up in :meth:`start` and works in ``_step``. Whatever its
    next step depends on stands in one of four places, and so is saved,
    restored and reset without further code:

    - ``networks``: modules that change,
    - ``optimizers``: Adam over some of their parameters,
    - ``memory``: named tensors such as queues, banks and counters,
    - ``generator``: random numbers, seeded by ``seed``.

    Frozen copies of the source model need no place: they never change.
    """

    def reset(self) -> None:
        """Go back to the source model, with nothing remembered."""
        self.networks: dict[str, nn.Module] = {}
        self.optimizers: dict[str, Adam] = {}
        self.memory: dict[str, Tensor] = {}
        self.generator = torch.Generator(self.device).manual_seed(self.seed)
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Set up networks, optimisers and memory for a new stream."""

    def copy_network(self, *, trainable: bool) -> DiagnosisNet:
        """Return a copy of the source network, to be trained or to stay as it is."""
        return deepcopy(self.bundle.network).to(self.device).train(trainable).requires_grad_(requires_grad=trainable)

    def state_dict(self) -> dict[str, Tensor]:
        """Return networks, optimisers, memory and random numbers, as copies."""
        state = {"generator": self.generator.get_state()}
        for name, module in self.networks.items():
            state |= put_under(f"network.{name}", _copies(module.state_dict()))
        for name, optimizer in self.optimizers.items():
            state |= put_under(f"optimizer.{name}", adam_state(optimizer))
        return state | put_under("memory", _copies(self.memory))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from networks, optimisers, memory and random numbers."""
        self._check_state(state)
        for name, module in self.networks.items():
            module.load_state_dict(take_under(f"network.{name}", state))
        for name, optimizer in self.optimizers.items():
            load_adam_state(optimizer, take_under(f"optimizer.{name}", state))
        self.memory = {name: tensor.to(self.device, copy=True) for name, tensor in take_under("memory", state).items()}
        self.generator.set_state(state["generator"].cpu())

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        """Refuse a state that lacks something of this method, or holds a network of another shape."""
        expected: dict[str, Tensor] = {}
        for name, module in self.networks.items():
            expected |= put_under(f"network.{name}", cast(dict[str, Tensor], module.state_dict()))
        memory = [f"memory.{name}" for name in self.memory]
        check_fits(state, expected, "method", also=(*memory, "generator"))


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
