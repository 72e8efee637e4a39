"""What adapting methods share: copies of the source model, their optimisers, and a complete state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.optim import adam_state, load_adam_state, make_adam
from cgsa.nn.state import add_prefix, check_state, select_prefix
from cgsa.online.base import OnlineMethod


class AdaptingMethod(OnlineMethod):
    """A method that carries a state from batch to batch.

    A subclass implements :meth:`start` and ``_step``. Everything its next step
    depends on is in one of four places, and so is saved, restored and reset
    without further code:

    - ``networks``: modules that change,
    - ``optimizers``: Adam over some of their parameters,
    - ``memory``: named tensors such as queues, banks and counters,
    - ``generator``: random numbers, seeded by ``seed``.

    Frozen copies of the source model never change and belong in none of them.
    """

    predicts_with: ClassVar[str] = "model"
    """Name of the network that predicts, unless :meth:`predict` is overridden."""

    def reset(self) -> None:
        """Return to the source model and discard everything learnt."""
        self.networks: dict[str, nn.Module] = {}
        self.optimizers: dict[str, Adam] = {}
        self.memory: dict[str, Tensor] = {}
        self.generator = torch.Generator(self.device).manual_seed(self.seed)
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Set up networks, optimisers and memory for a new stream."""

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return class probabilities of the predicting network."""
        return torch.softmax(self.networks[self.predicts_with](x.to(self.device, torch.float32)), dim=1)

    def copy_network(self, *, trainable: bool) -> DiagnosisNet:
        """Return a copy of the source network, either trainable or frozen."""
        return deepcopy(self.bundle.network).to(self.device).train(trainable).requires_grad_(requires_grad=trainable)

    def add_network(self, name: str, lr: float | None = None) -> DiagnosisNet:
        """Add a copy of the source network to the state; with ``lr`` it is trainable and has an Adam of that name."""
        network = self.networks[name] = self.copy_network(trainable=lr is not None)
        if lr is not None:
            self.optimizers[name] = make_adam(network.parameters(), lr)
        return network

    def state_dict(self) -> dict[str, Tensor]:
        """Return networks, optimisers, memory and random state, as copies."""
        state = {"generator": self.generator.get_state(), **_copies(self._network_state())}
        for name, optimizer in self.optimizers.items():
            state |= add_prefix(f"optimizer.{name}", adam_state(optimizer))
        return state | add_prefix("memory", _copies(self.memory))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        check_state(state, self._network_state(), "method", also=(*add_prefix("memory", self.memory), "generator"))
        for name, module in self.networks.items():
            module.load_state_dict(select_prefix(f"network.{name}", state))
        for name, optimizer in self.optimizers.items():
            load_adam_state(optimizer, select_prefix(f"optimizer.{name}", state))
        memory = select_prefix("memory", state)
        self.memory = {name: tensor.to(self.device, copy=True) for name, tensor in memory.items()}
        self.generator.set_state(state["generator"].cpu())

    def _network_state(self) -> dict[str, Tensor]:
        parts = [add_prefix(f"network.{name}", module.state_dict()) for name, module in self.networks.items()]
        return {name: tensor for part in parts for name, tensor in part.items()}


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
