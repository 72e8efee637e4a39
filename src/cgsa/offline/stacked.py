"""Trainings of one shape step by step at once, as a stack of models.

A single network leaves most of a GPU idle, and what its step costs there is the
length of a chain of small operations. For plain training and for CAL the chain
is written out, forward and backward: fewer operations, each for all models. They
are the same sums as autograd's, taken in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Adam

from cgsa.data.scenario import Condition
from cgsa.data.windows import Windows
from cgsa.engines.graph import capture
from cgsa.engines.stacked import StackedNetworks
from cgsa.engines.stacked_condition import StackedDiscriminators
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.reversal import adversarial_coefficient
from cgsa.offline.base import Objective, ObjectiveConfig, Phase
from cgsa.offline.cal import Cal, CalConfig
from cgsa.offline.plain import Plain
from cgsa.offline.stacked_losses import SUMS, add_reversed, judge_classes, judge_conditions
from cgsa.offline.step import figures_of, scaled_conditions

CAPTURED_FROM = 3
"""The step that is recorded; those before it load what they need."""
CLIPPED = 1e-6
"""What PyTorch adds to a norm before it divides by it."""


def can_stack(objective: Objective, network: DiagnosisNet) -> bool:
    """Return whether a training is of the kind that is written out here."""
    settings: ObjectiveConfig = objective.config
    plain = settings.schedule == "constant" and not settings.weight_decay and not settings.label_smoothing
    raw = isinstance(network.frontend, RawFrontend) and network.reference is None
    layers = all(isinstance(module, nn.Linear | nn.ReLU) for module in (*network.F, *network.G))
    # Features that G rectifies are no longer there when the adversary asks for them.
    tapped = layers and not isinstance(next(iter(network.G)), nn.ReLU)
    return type(objective) in {Plain, Cal} and plain and raw and tapped


@dataclass(frozen=True, eq=False)
class _StackedModel:
    """One model in training."""

    network: DiagnosisNet
    discriminator: ConditionDiscriminator | None
    optimizer: Adam


class StackedTraining:
    """Several trainings on the same windows with the same settings, each with its own order of them.

    Each takes a seat, and then steps as if it were alone; the step is taken when everybody has asked for it.

    Parameters
    ----------
    windows
        Training windows.
    conditions
        Their ranges map measured values onto c in [0, 1].
    config
        Settings of the objective.
    batch_size
        Windows a step.
    """

    def __init__(
        self, windows: Windows, conditions: Sequence[Condition], config: ObjectiveConfig, batch_size: int
    ) -> None:
        self.windows, self.config, self.batch_size = windows, config, batch_size
        self.condition = scaled_conditions(windows, conditions)
        self._pupils: list[_StackedModel] = []
        self._asked: dict[int, tuple[Tensor, float]] = {}
        self._learning: list[int] = []
        self._taken = 0
        self._replay: Callable[[], None] | None = None

    def take_seat(self, phase: Phase, objective: Objective, optimizer: Adam) -> StackSlot:
        """Take in a model, before the first step of any."""
        self._pupils.append(_StackedModel(objective.network, objective.condition_discriminator, optimizer))
        return StackSlot(self, len(self._pupils) - 1, phase)

    def ask(self, place: int, index: Tensor, progress: float) -> None:
        """Let a model train on the windows at ``index``; it will, at the latest when somebody looks."""
        if place in self._asked:
            self.settle()
        self._asked[place] = (index, progress)

    def settle(self) -> None:
        """Take the step that was asked for."""
        if not self._asked:
            return
        if not self._taken:
            self._set_up()
        self._chosen |= {place: index for place, (index, _) in self._asked.items()}
        torch.stack([self._chosen[place] for place in range(len(self._pupils))], out=self._index)
        self._set_coefficients()
        if self._learning != list(self._asked):
            self._learning = list(self._asked)
            learning = torch.tensor([place in self._asked for place in range(len(self._pupils))])
            self._learns.copy_(learning)
            self._branches_learn.copy_(learning.repeat(2))
        self._asked.clear()
        self._taken += 1
        if self.windows.device.type == "cuda" and self._taken == CAPTURED_FROM:
            self._replay = capture(self._run)
        if self._replay is None:
            self._run()
        else:
            self._replay()

    def look(self, place: int) -> dict[str, float]:
        """Return the sums of a model since they were last forgotten."""
        if place in self._asked:
            self.settle()
        return dict(zip(self._names, self._sums[place].tolist(), strict=True))

    def forget(self, place: int) -> None:
        """Start the sums of a model anew."""
        if self._taken:
            self._sums[place].zero_()

    @torch.no_grad()
    def _set_up(self) -> None:
        """Stack all models."""
        count, device = len(self._pupils), self.windows.device
        self._networks = StackedNetworks(self._pupils[0].network, count, self.config.lr)
        for place, pupil in enumerate(self._pupils):
            self._networks.adopt(place, pupil.network, pupil.optimizer)
        discriminators = [pupil.discriminator for pupil in self._pupils if pupil.discriminator is not None]
        optimizers = [pupil.optimizer for pupil in self._pupils]
        self._adversary = StackedDiscriminators(discriminators, optimizers, self.config.lr) if discriminators else None
        self._names = SUMS if self._adversary else SUMS[:3]
        self._sums = torch.zeros(count, len(self._names), dtype=torch.float64, device=device)
        self._index = torch.zeros(count, self.batch_size, dtype=torch.int64, device=device)
        self._chosen = dict.fromkeys(range(count), self._index[0].clone())
        self._coefficient = torch.zeros(count, device=device)
        self._learns = torch.zeros(count, dtype=torch.bool, device=device)
        self._branches_learn = self._learns.repeat(2)

    def _set_coefficients(self) -> None:
        """Set lambda of eq. (4) for the models that learn, by their progress."""
        if not isinstance(self.config, CalConfig):
            return
        progress = {place: at for place, (_, at) in self._asked.items()}
        gamma = self.config.gamma
        found = {at: float(adversarial_coefficient(torch.tensor(at), gamma)) for at in set(progress.values())}
        if len(found) == 1:
            # Nobody asks for the others' coefficient.
            self._coefficient.fill_(next(iter(found.values())))
        else:
            each = [found[progress[place]] if place in progress else 0.0 for place in range(len(self._pupils))]
            self._coefficient.copy_(torch.tensor(each))

    @torch.no_grad()
    def _run(self) -> None:
        index, learns, sums = self._index, self._learns, self._sums
        scores = self._networks.forward(*self._inputs(index))
        gradient = judge_classes(scores, self.windows.labels, index, learns, sums)  # eq. (2)
        adversary, settings = self._adversary, self.config
        if adversary is None:
            found = self._networks.backward(gradient)
            self._networks.adam.step(found, learns, self._scales(found, None))
            return
        assert isinstance(settings, CalConfig)  # noqa: S101, can_stack saw to it
        bounds = settings.log_variance_range
        told = adversary.forward(self._networks.features, self._branches_learn)
        of_told = judge_conditions(told, self.condition, index, learns, sums, bounds=bounds)  # eq. (1)

        def with_reversed(of_features: Tensor) -> Tensor:
            # D descends L_d; F gets the gradient of -lambda L_d, eq. (3).
            return add_reversed(of_features, adversary.backward(of_told), self._coefficient)

        found = self._networks.backward(gradient, with_reversed)
        scales = self._scales(found, adversary.gradient)
        both = None if scales is None else torch.cat([scales, scales])
        adversary.adam.step(adversary.gradient, self._branches_learn, both)
        self._networks.adam.step(found, learns, scales)

    def _inputs(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what F sees of the windows at ``index``, for every model, and the same turned on a GPU."""
        network, windows = self._pupils[0].network, self.windows
        if index.is_cuda:
            from cgsa.engines.kernels import lay_out  # noqa: PLC0415

            scale = network.frontend.get_buffer("mean"), network.frontend.get_buffer("deviation")
            starts = windows.starts[index]
            return lay_out(windows.samples[None], starts, *scale, length=windows.spec.length, turned_in=torch.float32)
        return network.inputs(windows.gather(index.flatten())).view(*index.shape, -1), None

    def _scales(self, gradient: Tensor, of_adversary: Tensor | None) -> Tensor | None:
        """Return by what every model's gradient is multiplied so that it is no longer than it may be."""
        longest = self.config.max_gradient_norm
        if longest is None:
            return None
        lengths = [torch.linalg.vector_norm(gradient, dim=1)]
        if of_adversary is not None:
            lengths += torch.linalg.vector_norm(of_adversary, dim=1).chunk(2)
        length: Tensor = torch.linalg.vector_norm(torch.stack(lengths), dim=0)
        return (longest / (length + CLIPPED)).clamp(max=1.0)


class StackSlot:
    """One training among several; steps as :class:`~cgsa.offline.step.TrainingStep` does.

    Parameters
    ----------
    room
        All of them.
    place
        Which one.
    phase
        What is trained, and for how long.
    """

    def __init__(self, room: StackedTraining, place: int, phase: Phase) -> None:
        self.phase = phase
        self._room, self._place = room, place
        self._steps = 0

    def __call__(self, index: Tensor, progress: float) -> None:
        """Train on the windows at ``index``, at a training progress p."""
        self._room.ask(self._place, index, progress)
        self._steps += 1

    def begin_epoch(self, seed: int) -> None:  # noqa: ARG002, nothing here is drawn
        """Start the sums of an epoch anew."""
        self._room.forget(self._place)
        self._steps = 0

    def figures(self) -> dict[str, float]:
        """Return means over the epoch: losses, training accuracy, and R^2 of the discriminator's mean."""
        sums = self._room.look(self._place)
        return figures_of(sums, self._steps, self._steps * self._room.batch_size, self._room.condition)
