"""A stack of condition discriminators in training, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.engines.graph import SideStream, has_kernels
from cgsa.engines.stacked import lay_out_layers, move_into_row, rows_for, stacked_linear, write_bias_gradient
from cgsa.engines.stacked_adam import StackedAdam
from cgsa.nn.condition import ConditionDiscriminator

if has_kernels():
    from cgsa.engines import layer_kernels


class StackedDiscriminators:
    """Both branches of every discriminator in one stack: first those of the mean, then those of the log-variance.

    The parameters and running statistics of the discriminators and the states of their optimisers become views of it.
    """

    def __init__(self, discriminators: Sequence[ConditionDiscriminator], adams: Sequence[Adam], lr: float) -> None:
        branches = [one.mean for one in discriminators] + [one.log_variance for one in discriminators]
        self._places = lay_out_layers(module for module in branches[0] if isinstance(module, nn.Linear))
        device = next(branches[0].parameters()).device
        self.adam = StackedAdam(rows_for(self._places, len(branches), device), lr)
        self.gradient = torch.zeros_like(self.adam.weights)
        """Gradients of all weights, after :meth:`backward`."""
        for row, (branch, adam) in enumerate(zip(branches, [*adams, *adams], strict=True)):
            move_into_row(branch.parameters(), adam, self._places, self.adam, row)
        self._side_stream = SideStream(device)
        self._norms = [_StackedNorm(norms) for norms in zip(*map(_norms, branches), strict=True)]

    def forward(self, features: Tensor, learns: Tensor) -> Tensor:
        """Return mu and then log sigma^2 of features, (twice the models, windows, conditions).

        Branches for which ``learns``, (twice the models), is false do not update their running statistics.
        """
        x = torch.cat([features, features])
        self._inputs: list[Tensor] = []
        for place, layer in enumerate(self._places):
            self._inputs.append(x)
            hidden = place + 1 < len(self._places)
            x = stacked_linear(x, *layer.of(self.adam.weights), rectified=hidden and not self._norms)
            if hidden and self._norms:
                x = self._norms[place].forward(x, learns)
        return x

    def backward(self, gradient: Tensor) -> Tensor:
        """Find the gradients of all weights, and return those of the features, one per branch."""
        g = gradient
        # Memory in use on the side stream must not be reused before the join.
        used: list[Tensor] = []
        for place in reversed(range(len(self._places))):
            layer, inputs = self._places[place], self._inputs[place]
            if place + 1 < len(self._places):
                after = self._inputs[place + 1]
                g = self._norms[place].backward(g) if self._norms else torch.ops.aten.threshold_backward(g, after, 0)
            weight_gradient, bias_gradient = layer.of(self.gradient)
            # As in StackedNetworks.backward.
            self._side_stream.fork()
            with self._side_stream.work():
                write_bias_gradient(g, bias_gradient)
                torch.bmm(g.transpose(1, 2), inputs, out=weight_gradient)
            used.append(g)
            g = torch.bmm(g, layer.of(self.adam.weights)[0])
        self._side_stream.join()
        self._inputs.clear()
        return g


class _StackedNorm:
    """Batch norms of one layer in all branches, each with the ReLU after it."""

    def __init__(self, norms: Sequence[nn.BatchNorm1d]) -> None:
        self.epsilon, self.momentum = norms[0].eps, float(norms[0].momentum or 0.1)
        states = {}
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            states[name] = torch.stack([norm.get_buffer(name) for norm in norms])
            for norm, own in zip(norms, states[name], strict=True):
                setattr(norm, name, own)
        self._means, self._variances, self._batches = states.values()

    def forward(self, x: Tensor, learns: Tensor) -> Tensor:
        self._batches += learns
        momenta = self.momentum * learns
        if x.is_cuda:
            statistics = self._means, self._variances
            self._kept = layer_kernels.launch_batch_norm_relu(x, *statistics, momenta, self.epsilon)
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
            return layer_kernels.launch_batch_norm_relu_backward(gradient, out, normed, factor)
        g = gradient * (out > 0)
        projection = (g * normed).mean(dim=1, keepdim=True)
        return (g - g.mean(dim=1, keepdim=True) - normed * projection) * factor[:, None]


def _norms(branch: nn.Sequential) -> list[nn.BatchNorm1d]:
    return [module for module in branch if isinstance(module, nn.BatchNorm1d)]
