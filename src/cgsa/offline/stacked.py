"""Several trainings of one shape at once, as a stack of models.

A single network leaves most of a GPU idle, and its step takes as long as its chain of small operations. For plain
training and for CAL the chain is written out, forward and backward: fewer operations, each for all models. They compute
the same sums as autograd, in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.data.scenario import Condition
from cgsa.data.windows import Windows
from cgsa.engines.first_layer import takes_raw_samples
from cgsa.engines.graph import capture
from cgsa.engines.stacked import StackedNetworks, lay_out_windows_at
from cgsa.engines.stacked_condition import StackedDiscriminators
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.reversal import adversarial_coefficient
from cgsa.offline.base import Objective, ObjectiveConfig, Phase
from cgsa.offline.cal import Cal, CalConfig
from cgsa.offline.plain import Plain
from cgsa.offline.stacked_losses import SUMS, add_reversed_gradient, condition_gradient, cross_entropy_gradient
from cgsa.offline.step import epoch_statistics, scaled_conditions

CAPTURE_AT = 3
"""The step that is recorded; in those before it, libraries initialise."""
CLIP_EPSILON = 1e-6
"""What PyTorch adds to a norm before it divides by it."""


def can_stack(objective: Objective, network: DiagnosisNet) -> bool:
    """Return whether a training is of a kind that is written out here."""
    settings: ObjectiveConfig = objective.config
    plain = settings.schedule == "constant" and not settings.weight_decay and not settings.label_smoothing
    plain = plain and objective.views != "every"
    if isinstance(settings, CalConfig):
        plain = plain and settings.steps == "joint" and objective.discriminator_config.norm != "affine"
    layers = all(isinstance(module, nn.Linear | nn.ReLU) for module in (*network.F, *network.G))
    # Features that G rectifies in place are lost to the adversary.
    tapped = layers and not isinstance(next(iter(network.G)), nn.ReLU)
    return type(objective) in {Plain, Cal} and plain and takes_raw_samples(network) and tapped


@dataclass(frozen=True, eq=False)
class _StackedModel:
    """One model in training."""

    network: DiagnosisNet
    discriminator: ConditionDiscriminator | None
    optimizer: Adam


class StackedTraining:
    """Several trainings on the same windows with the same settings, each with its own order of them.

    Each training gets a slot and steps as if it were alone; the stack takes one step when all have requested it.
    """

    def __init__(
        self, windows: Windows, conditions: Sequence[Condition], config: ObjectiveConfig, batch_size: int
    ) -> None:
        self.windows, self.config, self.batch_size = windows, config, batch_size
        self.condition = scaled_conditions(windows, conditions)
        self._models: list[_StackedModel] = []
        self._requested: dict[int, tuple[Tensor, float]] = {}
        self._learning: list[int] = []
        self._steps = 0
        self._replay: Callable[[], None] | None = None

    def add(self, phase: Phase, objective: Objective, optimizer: Adam) -> StackSlot:
        """Add a model, before the first step of any."""
        self._models.append(_StackedModel(objective.network, objective.condition_discriminator, optimizer))
        return StackSlot(self, len(self._models) - 1, phase)

    def request(self, place: int, index: Tensor, progress: float) -> None:
        """Request a step of a model on the windows at ``index``; the stack takes it when it has to."""
        if place in self._requested:
            self.take_requested_step()
        self._requested[place] = (index, progress)

    def take_requested_step(self) -> None:
        """Take the step that was requested."""
        if not self._requested:
            return
        if not self._steps:
            self._set_up()
        self._chosen |= {place: index for place, (index, _) in self._requested.items()}
        torch.stack([self._chosen[place] for place in range(len(self._models))], out=self._index)
        self._set_coefficients()
        if self._learning != list(self._requested):
            self._learning = list(self._requested)
            learning = torch.tensor([place in self._requested for place in range(len(self._models))])
            self._learns.copy_(learning)
            self._branches_learn.copy_(learning.repeat(2))
        self._requested.clear()
        self._steps += 1
        if self.windows.device.type == "cuda" and self._steps == CAPTURE_AT:
            self._replay = capture(self._run)
        if self._replay is None:
            self._run()
        else:
            self._replay()

    def sums_of(self, place: int) -> dict[str, float]:
        """Return the sums of a model since its last reset."""
        if place in self._requested:
            self.take_requested_step()
        return dict(zip(self._names, self._sums[place].tolist(), strict=True))

    def reset_sums(self, place: int) -> None:
        """Reset the sums of a model."""
        if self._steps:
            self._sums[place].zero_()

    @torch.no_grad()
    def _set_up(self) -> None:
        """Stack all models."""
        count, device = len(self._models), self.windows.device
        self._networks = StackedNetworks(self._models[0].network, count, self.config.lr)
        for place, model in enumerate(self._models):
            self._networks.insert(place, model.network, model.optimizer)
        discriminators = [model.discriminator for model in self._models if model.discriminator is not None]
        optimizers = [model.optimizer for model in self._models]
        self._adversary = StackedDiscriminators(discriminators, optimizers, self.config.lr) if discriminators else None
        self._names = SUMS if self._adversary else SUMS[:3]
        self._sums = torch.zeros(count, len(self._names), dtype=torch.float64, device=device)
        self._index = torch.zeros(count, self.batch_size, dtype=torch.int64, device=device)
        self._chosen = dict.fromkeys(range(count), self._index[0].clone())
        self._coefficient = torch.zeros(count, device=device)
        self._learns = torch.zeros(count, dtype=torch.bool, device=device)
        self._branches_learn = self._learns.repeat(2)

    def _set_coefficients(self) -> None:
        """Set lambda of eq. (4) for the models that learn, from their progress."""
        if not isinstance(self.config, CalConfig):
            return
        progress = {place: at for place, (_, at) in self._requested.items()}
        gamma, weight = self.config.gamma, self.config.adversary_weight
        found = {at: weight * float(adversarial_coefficient(torch.tensor(at), gamma)) for at in set(progress.values())}
        if len(found) == 1:
            # The coefficients of models that do not learn are not used.
            self._coefficient.fill_(next(iter(found.values())))
        else:
            each = [found[progress[place]] if place in progress else 0.0 for place in range(len(self._models))]
            self._coefficient.copy_(torch.tensor(each))

    @torch.no_grad()
    def _run(self) -> None:
        index, learns, sums = self._index, self._learns, self._sums
        scores = self._networks.forward(*self._inputs(index))
        gradient = cross_entropy_gradient(scores, self.windows.labels, index, learns, sums)  # eq. (2)
        adversary, settings = self._adversary, self.config
        if adversary is None:
            found = self._networks.backward(gradient)
            self._networks.adam.step(found, learns, self._scales(found, None))
            return
        assert isinstance(settings, CalConfig)  # noqa: S101, can_stack saw to it
        bounds = settings.log_variance_range
        predicted = adversary.forward(self._networks.features, self._branches_learn)
        of_predicted = condition_gradient(predicted, self.condition, index, learns, sums, bounds=bounds)  # eq. (1)

        def with_reversed(of_features: Tensor) -> Tensor:
            # D descends L_d; F gets the gradient of -lambda L_d, eq. (3).
            return add_reversed_gradient(of_features, adversary.backward(of_predicted), self._coefficient)

        found = self._networks.backward(gradient, with_reversed)
        scales = self._scales(found, adversary.gradient)
        both = None if scales is None else torch.cat([scales, scales])
        adversary.adam.step(adversary.gradient, self._branches_learn, both)
        self._networks.adam.step(found, learns, scales)

    def _inputs(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of F for the windows at ``index`` of every model, and on a GPU their transpose."""
        network, windows = self._models[0].network, self.windows
        if index.is_cuda:
            samples, starts = windows.samples[None], windows.starts[index]
            return lay_out_windows_at(network.frontend, samples, starts, transposed_dtype=torch.float32)
        return network.inputs(windows.gather(index.flatten())).view(*index.shape, -1), None

    def _scales(self, gradient: Tensor, of_adversary: Tensor | None) -> Tensor | None:
        """Return the factors that limit the norm of every model's gradient; None without a limit."""
        limit = self.config.max_gradient_norm
        if limit is None:
            return None
        norms = [torch.linalg.vector_norm(gradient, dim=1)]
        if of_adversary is not None:
            norms += torch.linalg.vector_norm(of_adversary, dim=1).chunk(2)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        return (limit / (norm + CLIP_EPSILON)).clamp(max=1.0)


class StackSlot:
    """One training in a stack; steps as :class:`~cgsa.offline.step.TrainingStep` does."""

    def __init__(self, stack: StackedTraining, place: int, phase: Phase) -> None:
        self.phase = phase
        self._stack, self._place = stack, place
        self._steps = 0

    def __call__(self, index: Tensor, progress: float) -> None:
        """Train on the windows at ``index``, at a training progress p."""
        self._stack.request(self._place, index, progress)
        self._steps += 1

    def begin_epoch(self, seed: int) -> None:  # noqa: ARG002, nothing here is random
        """Reset the sums of the epoch."""
        self._stack.reset_sums(self._place)
        self._steps = 0

    def statistics(self) -> dict[str, float]:
        """Return means over the epoch: losses, training accuracy, and R^2 of the discriminator's mean."""
        sums = self._stack.sums_of(self._place)
        return epoch_statistics(sums, self._steps, self._steps * self._stack.batch_size, self._stack.condition)
