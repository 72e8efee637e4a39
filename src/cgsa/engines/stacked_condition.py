"""Condition discriminators of several models beside each other, in training, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.engines.graph import SideStream
from cgsa.engines.stacked import adopt, lay_out_layers, rows_for, sum_windows, through_layer
from cgsa.engines.stacked_adam import StackedAdam
from cgsa.nn.condition import ConditionDiscriminator


class StackedDiscriminators:
    """Both branches of every discriminator, those of the mean first, in one stack.

    Parameters
    ----------
    discriminators
        Of one shape. From now on their parameters, and what their norms have found usual, are views of the stack.
    adams
        The optimiser of each; what it remembers becomes a view, too.
    lr
        Learning rate.
    """

    def __init__(self, discriminators: Sequence[ConditionDiscriminator], adams: Sequence[Adam], lr: float) -> None:
        branches = [one.mean for one in discriminators] + [one.log_variance for one in discriminators]
        self._places = lay_out_layers(module for module in branches[0] if isinstance(module, nn.Linear))
        device = next(branches[0].parameters()).device
        self.adam = StackedAdam(rows_for(self._places, len(branches), device), lr)
        self.gradient = torch.zeros_like(self.adam.weights)
        """Of all weights, after :meth:`backward`."""
        for row, (branch, adam) in enumerate(zip(branches, [*adams, *adams], strict=True)):
            adopt(branch.parameters(), adam, self._places, self.adam, row)
        self._aside = SideStream(device)
        self._norms = [_StackedNorm(norms) for norms in zip(*map(_norms, branches), strict=True)]

    def forward(self, features: Tensor, learns: Tensor) -> Tensor:
        """Return mu and then log sigma^2 of features, (twice the models, windows, conditions).

        Norms of branches for which ``learns`` is false, (twice the models), remember nothing of it.
        """
        x = torch.cat([features, features])
        self._seen: list[Tensor] = []
        for place, layer in enumerate(self._places):
            self._seen.append(x)
            hidden = place + 1 < len(self._places)
            x = through_layer(x, *layer.of(self.adam.weights), rectified=hidden and not self._norms)
            if hidden and self._norms:
                x = self._norms[place].forward(x, learns)
        return x

    def backward(self, gradient: Tensor) -> Tensor:
        """Find the gradients of all weights, and return that of the features from each branch."""
        g = gradient
        # Memory that is in use aside must not be given to anything else.
        used: list[Tensor] = []
        for place in reversed(range(len(self._places))):
            layer, seen = self._places[place], self._seen[place]
            if place + 1 < len(self._places):
                g = self._behind_hidden(place, g)
            weight_gradient, bias_gradient = layer.of(self.gradient)
            # As in the network: what a layer learns is found beside the next one's gradient.
            with self._aside.behind():
                sum_windows(g, bias_gradient)
                torch.bmm(g.transpose(1, 2), seen, out=weight_gradient)
            used.append(g)
            g = torch.bmm(g, layer.of(self.adam.weights)[0])
        self._aside.join()
        self._seen.clear()
        return g

    def _behind_hidden(self, place: int, gradient: Tensor) -> Tensor:
        """Return the gradient before the norm and the rectifier of a hidden layer."""
        if self._norms:
            return self._norms[place].backward(gradient)
        return cast(Tensor, torch.ops.aten.threshold_backward(gradient, self._seen[place + 1], 0))


class _StackedNorm:
    """Norms of one layer in all branches, each with the rectifier behind it."""

    def __init__(self, norms: Sequence[nn.BatchNorm1d]) -> None:
        self.epsilon, self.momentum = norms[0].eps, float(norms[0].momentum or 0.1)
        states = {}
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            states[name] = torch.stack([norm.get_buffer(name) for norm in norms])
            for norm, own in zip(norms, states[name], strict=True):
                setattr(norm, name, own)
        self._means, self._variances, self._met = states.values()

    def forward(self, x: Tensor, learns: Tensor) -> Tensor:
        self._met += learns
        momenta = self.momentum * learns
        if x.is_cuda:
            from cgsa.engines.kernels import norm_rectify  # noqa: PLC0415

            self._kept = norm_rectify(x, self._means, self._variances, momenta, self.epsilon)
            return self._kept[0]
        variance, mean = torch.var_mean(x, dim=1, correction=0)
        factor = torch.rsqrt(variance + self.epsilon)
        normed = (x - mean[:, None]) * factor[:, None]
        self._means.lerp_(mean, momenta[:, None])
        self._variances.lerp_(variance * x.shape[1] / (x.shape[1] - 1), momenta[:, None])
        self._kept = (normed.relu(), normed, factor)
        return self._kept[0]

    def backward(self, gradient: Tensor) -> Tensor:
        out, normed, factor = self._kept
        if gradient.is_cuda:
            from cgsa.engines.kernels import norm_rectify_back  # noqa: PLC0415

            return norm_rectify_back(gradient, out, normed, factor)
        g = gradient * (out > 0)
        along = (g * normed).mean(dim=1, keepdim=True)
        return (g - g.mean(dim=1, keepdim=True) - normed * along) * factor[:, None]


def _norms(branch: nn.Sequential) -> list[nn.BatchNorm1d]:
    return [module for module in branch if isinstance(module, nn.BatchNorm1d)]
