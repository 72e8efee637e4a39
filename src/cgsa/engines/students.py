"""Algorithm 1 for several machines at once: one frozen model, and a student, a queue and a gate for each.

Nothing here depends on how many windows are accepted: windows that are not have
no weight in the loss, and a student without any takes no step. So a batch is the
same sequence of operations every time, which a GPU can record and replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.engines.graph import GraphMemory, SideStream, capture, in_tf32
from cgsa.engines.stacked import StackedNetworks
from cgsa.nn.condition import ConditionDiscriminator
from cgsa.nn.frontends import RawFrontend
from cgsa.nn.mlp import DiagnosisNet
from cgsa.nn.state import add_prefix, check_state, select_prefix
from cgsa.online.base import StepOutput
from cgsa.online.evidence import EvidenceColumns, evidence_names
from cgsa.online.gate import ReliabilityGate

CAPTURED_FROM = 3
"""A batch size that comes for this time is recorded; a stream has one, and another at its end."""


@dataclass(frozen=True, eq=False)
class StudentOutput:
    """What the students say of a batch each, packed so that it travels in few copies."""

    single: Tensor
    """(machines, windows, classes + conditions + 1): class probabilities, responses, confidence."""
    double: Tensor
    """(machines, windows, conditions + 1): queue means, deviation."""
    label: Tensor
    """(machines, windows): pseudo-labels."""
    accepted: Tensor
    """(machines, windows)"""

    def clone(self) -> StudentOutput:
        """Return a copy that the next batch does not overwrite."""
        return StudentOutput(self.single.clone(), self.double.clone(), self.label.clone(), self.accepted.clone())

    def to(self, device: torch.device | str) -> StudentOutput:
        """Return the same on another device."""
        return StudentOutput(
            self.single.to(device), self.double.to(device), self.label.to(device), self.accepted.to(device)
        )

    def of(self, place: int, conditions: Sequence[str]) -> StepOutput:
        """Return what one student says, in the words of a method."""
        single, double = self.single[place], self.double[place]
        classes = single.shape[1] - len(conditions) - 1
        columns = {"deviation": (double, len(conditions)), "confidence": (single, single.shape[1] - 1)}
        for what, tensor, first in (("response", single, classes), ("queue_mean", double, 0)):
            for column, name in enumerate(evidence_names(what, conditions), start=first):
                columns[name] = (tensor, column)
        columns["pseudo_label"] = (self.label[place, :, None], 0)
        return StepOutput(single[:, :classes], self.accepted[place], EvidenceColumns(columns))


class Workspace:
    """Memory of one step, for as many machines as take it at once.

    Parameters
    ----------
    network
        What their students are copies of.
    count
        How many machines.
    """

    def __init__(self, network: DiagnosisNet, count: int) -> None:
        self.gradient = StackedNetworks.rows(network, count)
        self._values: dict[torch.Size, Tensor] = {}
        self._pool: GraphMemory | None = None

    @property
    def pool(self) -> GraphMemory:
        """Memory of recorded steps."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return self._pool

    def like(self, values: Tensor) -> Tensor:
        """Return where recorded steps look for batches of this shape."""
        if values.shape not in self._values:
            self._values[values.shape] = torch.empty_like(values, memory_format=torch.contiguous_format)
        return self._values[values.shape]


class Students:
    """Students of a frozen model, one a machine.

    Parameters
    ----------
    frozen, discriminator
        F_P, G_P and D_P, on the device of all.
    gate
        Which windows may be learnt from.
    lr
        eta.
    conditions
        How many operating conditions there are.
    count
        How many machines.
    workspace
        Memory that is shared with others who take their steps in turn; none means some of their own.
    """

    def __init__(
        self,
        frozen: DiagnosisNet,
        discriminator: ConditionDiscriminator,
        gate: ReliabilityGate,
        lr: float,
        *,
        conditions: int,
        count: int = 1,
        workspace: Workspace | None = None,
    ) -> None:
        self._frozen, self._gate = frozen, gate
        self._workspace = workspace or Workspace(frozen, count)
        self.networks = StackedNetworks(frozen, count, lr, self._workspace.gradient)
        self._aside = SideStream(self.networks.weights.device)
        self._response = discriminator.folded_response()
        self.device = self.networks.weights.device
        self._queue = torch.zeros(count, gate.capacity, conditions, dtype=torch.float64, device=self.device)
        self._filled = torch.zeros(count, dtype=torch.int64, device=self.device)
        self._classes = torch.arange(frozen.classes, device=self.device)
        self._everybody = torch.ones(count, dtype=torch.bool, device=self.device)
        self._met: Counter[tuple[torch.Size, int]] = Counter()
        self._recorded: dict[tuple[torch.Size, int], Callable[[Tensor, Tensor | None], StudentOutput]] = {}

    @torch.no_grad()
    def step(self, values: Tensor, step: int, present: Tensor | None = None) -> StudentOutput:
        """Diagnose a batch of raw windows of every machine, then learn from it.

        Windows come as the samples that they share, (machines, channels, samples), with their step; or laid out,
        (machines, windows, channels, length), with a step of 0. Machines for which ``present`` is false are left as
        they are, and what is said of them means nothing.
        """
        kind = (values.shape, step)
        if kind not in self._recorded:
            self._met[kind] += 1
            with in_tf32(self.device):
                if self.device.type != "cuda" or self._met[kind] < CAPTURED_FROM:
                    return self._run(values, step, self._everybody if present is None else present)
                self._recorded[kind] = self._record(values, step)
        return self._recorded[kind](values, present)

    @torch.no_grad()
    def predict(self, values: Tensor, step: int) -> Tensor:
        """Return class probabilities, (machines, windows, classes), changing nothing."""
        with in_tf32(self.device):
            return torch.softmax(self.networks.forward(self._inputs(values, step)[0]), dim=2)

    def restart(self, place: int) -> None:
        """Put one machine back to the frozen model, with nothing remembered."""
        self.networks.restart(place)
        self._queue[place] = 0
        self._filled[place] = 0

    def state_dict(self, place: int) -> dict[str, Tensor]:
        """Return what the next step of one machine depends on, named as :class:`~cgsa.online.cgsa.Cgsa` alone does."""
        adam, views = self.networks.adam, self.networks.views
        weights = self._frozen.state_dict() | dict(self._named(self.networks.parameters(place)))
        state = add_prefix("network.student", weights)
        if int(adam.steps[place]):
            for number, (mean, square) in enumerate(
                zip(views(adam.means[place]), views(adam.squares[place]), strict=True)
            ):
                moments = {"step": adam.steps[place], "exp_avg": mean, "exp_avg_sq": square}
                state |= add_prefix(f"optimizer.student.{number}", moments)
        state["memory.queue"] = self._queue[place, self._gate.capacity - int(self._filled[place]) :]
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def load_state_dict(self, place: int, state: Mapping[str, Tensor]) -> None:
        """Let one machine go on from such a state."""
        expected = add_prefix("network.student", self._frozen.state_dict())
        check_state(state, expected, "method", also=("memory.queue",))
        self.restart(place)
        adam, views = self.networks.adam, self.networks.views
        weights, moments = select_prefix("network.student", state), select_prefix("optimizer.student", state)
        for name, own in self._named(self.networks.parameters(place)):
            own.copy_(weights[name])
        if moments:
            adam.steps[place] = moments["0.step"]
            for name, rows in (("exp_avg", adam.means), ("exp_avg_sq", adam.squares)):
                for number, own in enumerate(views(rows[place])):
                    own.copy_(moments[f"{number}.{name}"])
        # Of a longer queue the last responses count.
        queue = state["memory.queue"][-self._gate.capacity :]
        self._filled[place] = len(queue)
        self._queue[place, self._gate.capacity - len(queue) :] = queue.to(self.device)

    def _named(self, values: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
        return list(zip([name for name, _ in self._frozen.named_parameters()], values, strict=True))

    def _inputs(self, values: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        """Return what F sees of all windows, (machines, windows, features), and the same turned where that is cheap."""
        network = self._frozen
        length = network.frontend.window_shape[1]
        if step and isinstance(network.frontend, RawFrontend) and network.reference is None:
            return network.frontend.lay_out(values, step)
        windows = values.unfold(2, length, step).transpose(1, 2) if step else values
        return network.inputs(windows.flatten(0, 1)).view(*windows.shape[:2], -1), None

    def _run(self, values: Tensor, step: int, present: Tensor) -> StudentOutput:
        inputs, turned = self._inputs(values, step)
        both = inputs.shape[:2]
        # Eqs. (6) to (8), beside eq. (5): neither needs the other.
        with self._aside.behind():
            features = self._frozen.F(inputs.flatten(0, 1))
            confidence, label = torch.softmax(self._frozen.classify(features), dim=1).max(dim=1)
            confidence, label = confidence.view(both), label.view(both)
            response = self._response(features).view(*both, -1)
            # Eqs. (9) to (11).
            selection, queue = self._gate.select_many(self._queue, self._filled, response, confidence)
            accepted = selection.accepted & present[:, None]
            self._queue.copy_(torch.where(present[:, None, None], queue, self._queue))
            self._filled.add_(both[1] * present).clamp_(max=self._gate.capacity)
            count = accepted.sum(dim=1)
            weight = accepted / count.clamp(min=1)[:, None]
        probabilities = torch.softmax(self.networks.forward(inputs, turned), dim=2)
        self._aside.join()

        # Eqs. (12) and (13): the gradient of the mean cross-entropy over accepted windows, by hand.
        target = label[:, :, None] == self._classes
        gradient = (probabilities - target.to(probabilities)) * weight[:, :, None]
        with self._aside.behind():
            told = StudentOutput(
                torch.cat([probabilities, response, confidence[:, :, None]], dim=2),
                torch.cat([selection.queue_mean, selection.deviation[:, :, None]], dim=2),
                label,
                accepted,
            )
        self.networks.learn(gradient, count > 0)
        self._aside.join()
        return told

    def _record(self, values: Tensor, step: int) -> Callable[[Tensor, Tensor | None], StudentOutput]:
        """Record a step over such batches, and return what replays it."""
        own, present = self._workspace.like(values), torch.empty_like(self._everybody)
        found: list[StudentOutput] = []
        replay = capture(lambda: found.append(self._run(own, step, present)), pool=self._workspace.pool)
        # Nothing below may hold on to the students: their memory is wanted back as soon as they are gone.
        kept, everybody = found[0], self._everybody
        last: Tensor | None = None

        def replayed(values: Tensor, there: Tensor | None) -> StudentOutput:
            nonlocal last
            own.copy_(values)
            chosen = everybody if there is None else there
            if chosen is not last:
                present.copy_(chosen)
                last = everybody if there is None else None
            replay()
            return kept.clone()

        return replayed
