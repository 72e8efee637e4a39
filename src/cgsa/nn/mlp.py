"""The diagnosis network: front-end, feature extractor F and classifier G."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from cgsa.errors import ConfigError
from cgsa.nn.dropout import Dropout
from cgsa.nn.frontends import FRONTENDS, Frontend

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of the network.

    The paper gives the number of layers but not their widths. Only one stack of
    decreasing powers of two fits its table of parameter volumes (6.965 M
    forward): 6144-1024-512-256-64-4 with biases, 6,965,316 parameters.
    """

    frontend: str = "raw"
    """How windows become inputs of the network."""
    hidden: tuple[int, ...] = (1024, 512, 256, 64)
    """Widths between the input and the class scores."""
    tap: int = 64
    """Width of the layer where F ends; G and the discriminator take its output. 64 or 256 fit the paper's numbers."""
    dropout: float = 0.0
    """Share of units dropped after every rectified layer in training; the paper has none."""
    reference: bool = False
    """Whether a healthy reference is subtracted from the front-end's output; the paper subtracts none."""

    def __post_init__(self) -> None:
        if self.tap not in self.hidden:
            raise ConfigError(f"tap {self.tap} is none of the hidden widths {list(self.hidden)}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout {self.dropout:g}; expected 0 or more and less than 1")
        if min(self.hidden) < 1:
            raise ConfigError(f"hidden widths {list(self.hidden)}; expected positive numbers")


class DiagnosisNet(nn.Module):
    """F and G over a front-end: from raw windows to class scores.

    The composition G(F(x)) is the same function for every tap: the layers form
    one chain with a ReLU after each but the last two. The layer before the
    classifier is linear, as is usual for an embedding, and so is the tap.

    A network with a reference sees how a window differs from the healthy
    machine. Its own reference is the mean over the machines of its training; to
    monitor another machine, pass that machine's reference.
    """

    reference: Tensor | None

    def __init__(self, config: NetworkConfig, channels: int, length: int, classes: int) -> None:
        super().__init__()
        self.frontend: Frontend = FRONTENDS[config.frontend](channels, length)
        widths = (self.frontend.out_features, *config.hidden, classes)
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        after_tap = config.hidden.index(config.tap) + 1
        self.F, self.G = nn.Sequential(), nn.Sequential()
        for number, layer in enumerate(layers):
            part = self.F if number < after_tap else self.G
            # The embedding feeds the classifier without a ReLU; every earlier layer has one after it.
            if 0 < number < len(layers) - 1:
                part.extend([nn.ReLU(), Dropout(config.dropout)] if config.dropout else [nn.ReLU()])
            part.append(layer)
        self.feature_width = config.tap
        self.classes = classes
        self.register_buffer("reference", torch.zeros(self.frontend.out_features) if config.reference else None)

    def inputs(self, x: Tensor, reference: Tensor | None = None) -> Tensor:
        """Return the input of F for raw windows: the front-end's output, minus the reference if there is one.

        Also accepts the front-end's output, (windows, features), instead of windows. ``reference`` replaces the
        network's own: one for all windows, or one for each.
        """
        seen = x if x.ndim == 2 else cast(Tensor, self.frontend(x))
        if self.reference is None:
            return seen
        return seen - (self.reference if reference is None else reference)

    def features(self, x: Tensor, reference: Tensor | None = None) -> Tensor:
        """Return F(x), (windows, tap)."""
        return cast(Tensor, self.F(self.inputs(x, reference)))

    def classify(self, features: Tensor) -> Tensor:
        """Return the class scores G(features), (windows, classes)."""
        return cast(Tensor, self.G(features))

    def forward(self, x: Tensor, reference: Tensor | None = None) -> Tensor:
        """Return the class scores of raw windows (windows, channels, length)."""
        return self.classify(self.features(x, reference))


def mlp(widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers of these widths with a ReLU between them."""
    modules = [module for a, b in pairwise(widths) for module in (nn.ReLU(), nn.Linear(a, b))]
    return nn.Sequential(*modules[1:])


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def build_seeded(seed: int, build: Callable[[], M]) -> M:
    """Return ``build()`` with weights drawn from ``seed``, leaving the global random state unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()
