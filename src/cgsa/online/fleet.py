"""CGSA on many machines at once, with one source model for all.

A thousand machines are a thousand students and queues, but one frozen source model and one device. Machines join and
leave while the others continue, and each is diagnosed as by :class:`~cgsa.online.cgsa.Cgsa` alone. Its state is the
same, too, so a machine can move from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.data.windows import underlying_samples
from cgsa.engines.graph import make_stream, work_on
from cgsa.engines.stacked_students import PackedOutput, StackedStudents, StepMemory
from cgsa.errors import ConfigError, DataError
from cgsa.nn.bundle import ModelBundle
from cgsa.online.base import StepOutput, check_shape
from cgsa.online.cgsa import Cgsa

MACHINES_PER_STACK = 33
"""The first products of this many of the paper's networks fill the 132 processors of an H200 exactly four times."""


@dataclass(frozen=True, eq=False)
class _DeviceStream:
    """A CUDA stream with memory of its own; stacks on the same stream take their steps in turn."""

    memory: StepMemory
    stream: torch.cuda.Stream | None


@dataclass(frozen=True, eq=False)
class _Stack:
    """Machines whose students take their steps at once; an empty place has no name."""

    stream: _DeviceStream
    students: StackedStudents
    names: list[str | None]


@dataclass(frozen=True, eq=False)
class _StackBatch:
    """Batches of some machines of a stack, on the device."""

    stack: _Stack
    machines: Mapping[int, str]
    """Place in the stack -> name."""
    step: int
    """Samples from one window to the next if windows come as shared samples, (machines, channels, samples); otherwise
    0, and they come one by one, (machines, windows, channels, length)."""
    values: Tensor
    present: Tensor
    finite: Tensor


@dataclass(frozen=True, eq=False)
class FleetOutput(Mapping[str, StepOutput]):
    """The output of a fleet for one batch of each machine, by name."""

    method: Cgsa
    packed: Sequence[PackedOutput]
    places: Mapping[str, tuple[int, int]]
    """Name -> index of the packed output, and place in it."""
    copies: torch.cuda.Stream | None = None
    """Copies results to the host while the GPU works on later batches."""
    done: torch.cuda.Event | None = None
    """Recorded when all results are computed."""

    def __getitem__(self, name: str) -> StepOutput:
        part, place = self.places[name]
        return self.method.step_output(self.packed[part].unpack(place))

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def on_host(self) -> FleetOutput:
        """Return the same in host memory, in few large copies; waits for this step, not for later ones."""
        with work_on(self.copies):
            if self.copies is not None and self.done is not None:
                self.copies.wait_event(self.done)
            packed = [one.to("cpu") for one in self.packed]
        return FleetOutput(self.method, packed, self.places)


class StudentFleet:
    """CGSA on as many machines as join.

    Parameters
    ----------
    settings
        What differs from the defaults of CGSA; the setting ``engine`` has no effect here.
    together
        How many machines take a step at once. Memory is allocated for this many at a time.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        settings: Mapping[str, object] | None = None,
        *,
        device: torch.device | str = "cpu",
        together: int = MACHINES_PER_STACK,
    ) -> None:
        if together < 1:
            raise ConfigError(f"{together} machines together; expected at least one")
        self.bundle = bundle
        self._method = Cgsa(bundle, {**(settings or {}), "engine": "graph"}, device=device)
        self.device = self._method.device
        self._together = together
        self._stacks: list[_Stack] = []
        self._copies, self._results = make_stream(self.device), make_stream(self.device)
        # While one stream launches many small kernels, the other runs a large one.
        streams = 1 if self._copies is None else 2
        self._streams = [
            _DeviceStream(StepMemory(self._method.source_model, together), make_stream(self.device))
            for _ in range(streams)
        ]

    @property
    def machines(self) -> list[str]:
        """Names of all machines."""
        return [name for stack in self._stacks for name in stack.names if name is not None]

    def join(self, name: str, state: Mapping[str, Tensor] | None = None) -> None:
        """Add a machine: new, or with a state of its own."""
        if name in self.machines:
            raise ConfigError(f"machine {name!r} is in the fleet already")
        stack = next((stack for stack in self._stacks if None in stack.names), None)
        if stack is None:
            stream = min(self._streams, key=lambda stream: sum(one.stream is stream for one in self._stacks))
            stack = _Stack(stream, self._make_students(stream), [None] * self._together)
            self._stacks.append(stack)
        place = stack.names.index(None)
        stack.students.restart(place)
        if state is not None:
            stack.students.load_state_dict(place, state)
        stack.names[place] = name

    def leave(self, name: str) -> dict[str, Tensor]:
        """Remove a machine, and return its state."""
        state = self.state_dict(name)
        stack, place = self._find(name)
        stack.names[place] = None
        if stack.names == [None] * self._together:
            self._stacks.remove(stack)
        return state

    def state_dict(self, name: str) -> dict[str, Tensor]:
        """Return everything that the next step of a machine depends on, as Cgsa would."""
        stack, place = self._find(name)
        return {"generator": self._method.random_state.clone(), **stack.students.state_dict(place)}

    def load_state_dict(self, name: str, state: Mapping[str, Tensor]) -> None:
        """Let a machine resume from a state of this fleet or of Cgsa."""
        stack, place = self._find(name)
        stack.students.load_state_dict(place, state)

    def restart(self, name: str) -> None:
        """Give a machine a new student."""
        stack, place = self._find(name)
        stack.students.restart(place)

    def step(self, batches: Mapping[str, Tensor], *, learn: bool = True) -> FleetOutput:
        """Diagnose a batch of raw windows of each machine, then learn from it; other machines do not change.

        Unusable windows raise before any machine changes.
        """
        self._check(batches)
        loaded = []
        for windows in sorted({len(batch) for batch in batches.values()}):
            chosen = {name: batch for name, batch in batches.items() if len(batch) == windows}
            loaded += [self._load(stack, chosen) for stack in self._stacks if not chosen.keys().isdisjoint(stack.names)]
        self._check_finite(loaded)
        packed = [self._step(batch, learn=learn) for batch in loaded]
        done = self._wait_for_streams()
        places = {name: (part, place) for part, batch in enumerate(loaded) for place, name in batch.machines.items()}
        return FleetOutput(self._method, packed, places, self._results, done)

    def _step(self, batch: _StackBatch, *, learn: bool) -> PackedOutput:
        """Run Algorithm 1 for the machines of a stack, on its stream."""
        with work_on(batch.stack.stream.stream):
            return batch.stack.students.run(
                self._method.algorithm_1, batch.values, batch.step, batch.present, learn=learn
            )

    def _wait_for_streams(self) -> torch.cuda.Event | None:
        """Let the current stream wait for all others; return the event that marks their end."""
        for one in self._streams:
            if one.stream is not None:
                torch.cuda.current_stream().wait_stream(one.stream)
        return None if self._results is None else torch.cuda.current_stream().record_event()

    def _make_students(self, stream: _DeviceStream) -> StackedStudents:
        settings = self._method.config
        try:
            return StackedStudents(
                self._method.source_model, settings.lr, settings.queue, self._together, stream.memory
            )
        except torch.cuda.OutOfMemoryError as error:
            raise ConfigError(
                f"no memory for another {self._together} machines next to the present {len(self.machines)}; "
                f"put them on another GPU"
            ) from error

    def _find(self, name: str) -> tuple[_Stack, int]:
        for stack in self._stacks:
            if name in stack.names:
                return stack, stack.names.index(name)
        raise ConfigError(f"no machine {name!r} in the fleet of {len(self.machines)}")

    def _check(self, batches: Mapping[str, Tensor]) -> None:
        unknown = batches.keys() - set(self.machines)
        if unknown:
            raise ConfigError(f"no machine {', '.join(sorted(unknown))} in the fleet of {len(self.machines)}")
        for name, x in batches.items():
            check_shape(x, self.bundle.manifest, f"{name}: ")

    def _load(self, stack: _Stack, batches: Mapping[str, Tensor]) -> _StackBatch:
        """Copy batches of some machines of a stack to the device; of overlapping windows only the shared samples."""
        machines = {place: name for place, name in enumerate(stack.names) if name is not None and name in batches}
        shared = {place: underlying_samples(batches[name]) for place, name in machines.items()}
        steps = {0 if one is None else one[1] for one in shared.values()}
        step = steps.pop() if len(steps) == 1 else 0
        parts = {place: one[0] if step and one else batches[machines[place]] for place, one in shared.items()}
        first = next(iter(parts.values()))
        pinned = self._copies is not None and not first.is_cuda
        joined = torch.empty(self._together, *first.shape, device=first.device, pin_memory=pinned)
        # An absent machine gets the batch of another one, and its output is ignored.
        torch.stack([parts.get(place, first) for place in range(self._together)], out=joined)
        there = [place in machines for place in range(self._together)]
        with work_on(self._copies):
            values = joined.to(self.device, non_blocking=True)
            finite = torch.isfinite(values).flatten(1).all(dim=1)
            present = torch.tensor(there, pin_memory=pinned).to(self.device, non_blocking=True)
        return _StackBatch(stack, machines, step, values, present, finite)

    def _check_finite(self, loaded: Sequence[_StackBatch]) -> None:
        """Wait for all copies to the device, and raise if any value is NaN or infinite."""
        for batch in loaded:
            stream = batch.stack.stream.stream
            if self._copies is not None and stream is not None:
                stream.wait_stream(torch.cuda.current_stream())
                stream.wait_stream(self._copies)
                batch.values.record_stream(stream)
                batch.present.record_stream(stream)
        # The other streams may still work on earlier batches; this waits only for the copies.
        with work_on(self._copies):
            finite = torch.stack([batch.finite for batch in loaded]).tolist() if loaded else []
        bad = [
            name
            for batch, good in zip(loaded, finite, strict=True)
            for place, name in batch.machines.items()
            if not good[place]
        ]
        if bad:
            raise DataError(
                f"windows of {', '.join(bad)} hold NaN or infinity; leave those machines out of this step, "
                f"or the windows out of their streams"
            )
