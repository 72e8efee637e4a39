"""Algorithm 1 for several machines at once: one frozen source model, and a student and a queue for each machine.

Nothing here depends on how many windows are accepted: rejected windows have no weight in the loss, and a student
without accepted windows takes no step. So every batch is the same sequence of operations, which a GPU can record and
replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor

from cgsa.engines.base import Algorithm, EngineOutput, ResponseQueue, SourceModel, SourceOutput
from cgsa.engines.first_layer import takes_raw_samples
from cgsa.engines.graph import GraphMemory, SideStream, capture
from cgsa.engines.precision import matmul_precision
from cgsa.engines.stacked import StackedNetworks, lay_out_raw_windows
from cgsa.nn.state import add_prefix, select_prefix

RECORD_FROM = 3
"""The n-th batch of a size is recorded; a stream has one size, and another for its last batch."""


class PackedOutput(NamedTuple):
    """The output of all students for one batch each, packed so that few copies bring it to the host."""

    single: Tensor
    """(machines, windows, classes + conditions + 1): class probabilities, responses, confidence."""
    double: Tensor
    """(machines, windows, conditions + 1): queue means, deviation."""
    label: Tensor
    """(machines, windows): pseudo-labels."""
    accepted: Tensor
    """(machines, windows)"""

    @classmethod
    def of(cls, found: EngineOutput) -> PackedOutput:
        """Pack the output of Algorithm 1."""
        label, confidence, response = found.source
        single = torch.cat([found.probabilities, response, confidence[:, :, None]], dim=2)
        return cls(single, torch.cat([found.queue_mean, found.deviation[:, :, None]], dim=2), label, found.accepted)

    def clone(self) -> PackedOutput:
        """Return a copy that the next batch does not overwrite."""
        return PackedOutput(*(part.clone() for part in self))

    def to(self, device: torch.device | str) -> PackedOutput:
        """Return the same on another device."""
        return PackedOutput(*(part.to(device) for part in self))

    def unpack(self, place: int) -> EngineOutput:
        """Return the output of one student."""
        single, double = self.single[place], self.double[place]
        conditions = double.shape[1] - 1
        classes = single.shape[1] - conditions - 1
        source = SourceOutput(self.label[place], single[:, -1], single[:, classes:-1])
        return EngineOutput(single[:, :classes], source, self.accepted[place], double[:, :-1], double[:, -1])


class StepMemory:
    """Memory of one step, which stacks that take their steps in turn may share."""

    def __init__(self, source: SourceModel, count: int) -> None:
        self.gradient = StackedNetworks.rows(source.network, count)
        self._batches: dict[torch.Size, Tensor] = {}
        self._pool: GraphMemory | None = None

    @property
    def pool(self) -> GraphMemory:
        """Memory of recorded steps."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return self._pool

    def batch_like(self, values: Tensor) -> Tensor:
        """Return the tensor from which recorded steps read batches of this shape."""
        if values.shape not in self._batches:
            self._batches[values.shape] = torch.empty_like(values, memory_format=torch.contiguous_format)
        return self._batches[values.shape]


class StackedStudents:
    """Students of one source model, one per machine.

    ``lr`` is eta, the learning rate of Adam; ``capacity`` is W, that of each queue. Stacks may share ``memory``.
    """

    def __init__(
        self, source: SourceModel, lr: float, capacity: int, count: int = 1, memory: StepMemory | None = None
    ) -> None:
        self.source, self.device = source, source.device
        self._memory = memory or StepMemory(source, count)
        self.networks = StackedNetworks(source.network, count, lr, self._memory.gradient)
        self.queue = ResponseQueue.empty(capacity, source.conditions, count, device=self.device)
        self.side_stream = SideStream(self.device)
        self.response = source.discriminator.folded_response()
        self.classes = torch.arange(source.network.classes, device=self.device)
        self._all_present = torch.ones(count, dtype=torch.bool, device=self.device)
        self._seen: Counter[tuple[torch.Size, int]] = Counter()
        self._recorded: dict[tuple[torch.Size, int], Callable[[Tensor, Tensor | None], PackedOutput]] = {}

    @torch.no_grad()
    def run(
        self, algorithm: Algorithm, values: Tensor, step: int, present: Tensor | None = None, *, learn: bool = True
    ) -> PackedOutput:
        """Apply the algorithm to a batch of raw windows of every machine.

        Windows come as the samples that they share, (machines, channels, samples), with their step; or one by one,
        (machines, windows, channels, length), with a step of 0. Machines for which ``present`` is false do not change,
        and their output has no meaning.
        """
        kind = (values.shape, step)
        if not learn or kind not in self._recorded:
            self._seen[kind] += learn
            with matmul_precision("high", self.device):
                if not learn or self.device.type != "cuda" or self._seen[kind] < RECORD_FROM:
                    there = self._all_present if present is None else present
                    return self._run(algorithm, values, step, there, learn=learn)
                self._recorded[kind] = self._record(algorithm, values, step)
        return self._recorded[kind](values, present)

    @torch.no_grad()
    def predict(self, values: Tensor, step: int) -> Tensor:
        """Return class probabilities, (machines, windows, classes); nothing changes."""
        with matmul_precision("high", self.device):
            return torch.softmax(self.networks.forward(self._inputs(values, step)[0]), dim=2)

    def restart(self, place: int) -> None:
        """Make one student a copy of the source model again, and empty its queue."""
        self.networks.restart(place)
        self._queue_at(place).fill(self.queue.responses[place, :0])

    def state_dict(self, place: int) -> dict[str, Tensor]:
        """Return what the next step of one machine depends on, as an engine for a single machine names it."""
        adam, views = self.networks.adam, self.networks.views
        weights = self.source.network.state_dict() | self._parameters(place)
        state = add_prefix("network.student", weights)
        if int(adam.steps[place]):
            moments = zip(views(adam.means[place]), views(adam.squares[place]), strict=True)
            for number, (mean, square) in enumerate(moments):
                stored = {"step": adam.steps[place], "exp_avg": mean, "exp_avg_sq": square}
                state |= add_prefix(f"optimizer.student.{number}", stored)
        state["memory.queue"] = self._queue_at(place).content()
        return {name: tensor.detach().clone() for name, tensor in state.items()}

    def load_state_dict(self, place: int, state: Mapping[str, Tensor]) -> None:
        """Let one machine resume from the state of any engine."""
        self.source.check_state(state)
        self.restart(place)
        adam, views = self.networks.adam, self.networks.views
        weights, moments = select_prefix("network.student", state), select_prefix("optimizer.student", state)
        for name, own in self._parameters(place).items():
            own.copy_(weights[name])
        if moments:
            adam.steps[place] = moments["0.step"]
            for name, rows in (("exp_avg", adam.means), ("exp_avg_sq", adam.squares)):
                for number, own in enumerate(views(rows[place])):
                    own.copy_(moments[f"{number}.{name}"])
        self._queue_at(place).fill(state["memory.queue"])

    def _parameters(self, place: int) -> dict[str, Tensor]:
        names = [name for name, _ in self.source.network.named_parameters()]
        return dict(zip(names, self.networks.parameters(place), strict=True))

    def _queue_at(self, place: int) -> ResponseQueue:
        return ResponseQueue(self.queue.responses[place], self.queue.filled[place])

    def _inputs(self, values: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of F, (machines, windows, features), and their transpose if that costs little."""
        network = self.source.network
        if step and takes_raw_samples(network):
            return lay_out_raw_windows(network.frontend, values, step)
        length = network.frontend.window_shape[1]
        windows = values.unfold(2, length, step).transpose(1, 2) if step else values
        return network.inputs(windows.flatten(0, 1)).view(*windows.shape[:2], -1), None

    def _run(self, algorithm: Algorithm, values: Tensor, step: int, present: Tensor, *, learn: bool) -> PackedOutput:
        batch = _StackedBatch(self, *self._inputs(values, step), present)
        return batch.pack(algorithm(batch, learn=learn))

    def _record(
        self, algorithm: Algorithm, values: Tensor, step: int
    ) -> Callable[[Tensor, Tensor | None], PackedOutput]:
        """Record a step over batches of this shape, and return a function that replays it."""
        own, present = self._memory.batch_like(values), torch.empty_like(self._all_present)
        found: list[PackedOutput] = []
        replay = capture(
            lambda: found.append(self._run(algorithm, own, step, present, learn=True)), pool=self._memory.pool
        )
        # The function below must not refer to the students: their memory is freed with the last reference to them.
        output, all_present = found[0], self._all_present
        last: Tensor | None = None

        def replayed(values: Tensor, there: Tensor | None) -> PackedOutput:
            nonlocal last
            own.copy_(values)
            chosen = all_present if there is None else there
            if chosen is not last:
                present.copy_(chosen)
                last = all_present if there is None else None
            replay()
            return output.clone()

        return replayed


class _StackedBatch:
    """One batch of every machine; work that does not depend on the students runs on the side stream."""

    def __init__(self, students: StackedStudents, inputs: Tensor, transposed: Tensor | None, present: Tensor) -> None:
        self._students, self._inputs, self._transposed, self._present = students, inputs, transposed, present
        self._adapted = False
        students.side_stream.fork()

    @property
    def queue(self) -> ResponseQueue:
        return self._students.queue

    def student(self) -> Tensor:
        self._probabilities = torch.softmax(self._students.networks.forward(self._inputs, self._transposed), dim=2)
        return self._probabilities

    def in_parallel(self) -> AbstractContextManager[None]:
        return self._students.side_stream.work()

    def source(self) -> SourceOutput:
        network, shape = self._students.source.network, self._inputs.shape[:2]
        features = network.F(self._inputs.flatten(0, 1))
        confidence, label = torch.softmax(network.classify(features), dim=1).max(dim=1)
        return SourceOutput(
            label.view(shape), confidence.view(shape), self._students.response(features).view(*shape, -1)
        )

    def update_queue(self, queue: ResponseQueue) -> None:
        """Store the queues after this batch, except those of absent machines."""
        own, present = self.queue, self._present
        own.responses.copy_(torch.where(present[:, None, None], queue.responses, own.responses))
        own.filled.copy_(torch.where(present, queue.filled, own.filled))

    def adapt(self, accepted: Tensor, pseudo_label: Tensor) -> None:
        """Take one step of Adam per machine, with the gradient of the mean cross-entropy written out."""
        side, probabilities = self._students.side_stream, self._probabilities
        with side.work():
            accepted = accepted & self._present[:, None]
            count = accepted.sum(dim=1)
            weight = accepted / count.clamp(min=1)[:, None]
        side.join()
        target = pseudo_label[:, :, None] == self._students.classes
        gradient, learns = (probabilities - target.to(probabilities)) * weight[:, :, None], count > 0
        # From here on the side stream may reuse the memory of count and weight.
        side.fork()
        self._adapted = True
        self._students.networks.learn(gradient, learns)

    def pack(self, found: EngineOutput) -> PackedOutput:
        """Pack the output, while the students still learn."""
        side = self._students.side_stream
        if not self._adapted:
            side.fork()
        with side.work():
            packed = PackedOutput.of(found)
        side.join()
        return packed
