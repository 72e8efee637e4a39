"""CGSA on many machines at once, with one source model for all.

A thousand machines are a thousand students, queues and gates, but one frozen
model and one device. Machines join and leave while the others go on, and each
is diagnosed as :class:`~cgsa.online.cgsa.Cgsa` would alone. Its state is the
same, too, so a machine can move from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.data.windows import underlying_samples
from cgsa.engines.graph import make_stream
from cgsa.engines.students import StudentOutput, Students, Workspace
from cgsa.errors import ConfigError, DataError
from cgsa.nn.bundle import ModelBundle
from cgsa.online.base import StepOutput, check_shape
from cgsa.online.cgsa import Cgsa

TOGETHER = 33
"""The first products of so many of the paper's networks fill an H200's 132 processors four times, with nothing left."""


@dataclass(frozen=True, eq=False)
class _DeviceStream:
    """A queue of work on the device, with memory of its own; groups in one lane take their steps in turn."""

    workspace: Workspace
    stream: torch.cuda.Stream | None

    def work(self) -> AbstractContextManager[object]:
        """Let what follows be done in this lane."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)


@dataclass(frozen=True, eq=False)
class _Group:
    """Machines whose students take their steps at once; an empty place has no name."""

    lane: _DeviceStream
    students: Students
    names: list[str | None]


@dataclass(frozen=True, eq=False)
class _Load:
    """Batches of some machines of a group, on the device."""

    group: _Group
    places: Mapping[int, str]
    """Where who stands."""
    step: int
    """Samples from one window to the next, where windows come as samples, (machines, channels, samples); otherwise 0,
    and they come laid out, (machines, windows, channels, length)."""
    values: Tensor
    present: Tensor
    finite: Tensor


@dataclass(frozen=True, eq=False)
class FleetOutput(Mapping[str, StepOutput]):
    """What a fleet says of a batch of each machine, by its name."""

    told: Sequence[StudentOutput]
    places: Mapping[str, tuple[int, int]]
    """Name -> which of the above, and where in it."""
    conditions: Sequence[str]
    copies: torch.cuda.Stream | None = None
    """Brings results to the host while the GPU is at work on what came later."""
    done: torch.cuda.Event | None = None
    """When all of it is there."""

    def __getitem__(self, name: str) -> StepOutput:
        part, place = self.places[name]
        return self.told[part].of(place, self.conditions)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def on_host(self) -> FleetOutput:
        """Return the same in the host's memory, in few large copies; waits for this step, not for later ones."""
        with nullcontext() if self.copies is None else torch.cuda.stream(self.copies):
            if self.copies is not None and self.done is not None:
                self.copies.wait_event(self.done)
            told = [one.to("cpu") for one in self.told]
        return FleetOutput(told, self.places, self.conditions)


class StudentFleet:
    """CGSA on as many machines as join.

    Parameters
    ----------
    bundle
        The source model of all.
    settings
        What differs from the defaults of CGSA; the engine has no say here.
    device
        Where all are computed.
    together
        How many machines take a step at once. Memory is taken for so many at a time.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        settings: Mapping[str, object] | None = None,
        *,
        device: torch.device | str = "cpu",
        together: int = TOGETHER,
    ) -> None:
        if together < 1:
            raise ConfigError(f"{together} machines together; expected at least one")
        self.bundle = bundle
        # What a machine alone would be; it gives the frozen models, and checks the settings.
        self._alone = Cgsa(bundle, {**(settings or {}), "engine": "graph"}, device=device)
        self.device = self._alone.device
        self._together = together
        self._groups: list[_Group] = []
        self._copies, self._results = make_stream(self.device), make_stream(self.device)
        # Where one lane does many small things, the other does something large.
        lanes = 1 if self._copies is None else 2
        self._lanes = [
            _DeviceStream(Workspace(self._alone.frozen, together), make_stream(self.device)) for _ in range(lanes)
        ]

    @property
    def machines(self) -> list[str]:
        """Names of all machines."""
        return [name for group in self._groups for name in group.names if name is not None]

    def join(self, name: str, state: Mapping[str, Tensor] | None = None) -> None:
        """Take a machine in: as new, or from a state of its own."""
        if name in self.machines:
            raise ConfigError(f"machine {name!r} is in the fleet already")
        group = next((group for group in self._groups if None in group.names), None)
        if group is None:
            lane = min(self._lanes, key=lambda lane: sum(one.lane is lane for one in self._groups))
            group = _Group(lane, self._more_students(lane), [None] * self._together)
            self._groups.append(group)
        place = group.names.index(None)
        group.students.restart(place)
        if state is not None:
            group.students.load_state_dict(place, state)
        group.names[place] = name

    def leave(self, name: str) -> dict[str, Tensor]:
        """Let a machine go, and return its state."""
        state = self.state_dict(name)
        group, place = self._find(name)
        group.names[place] = None
        if group.names == [None] * self._together:
            self._groups.remove(group)
        return state

    def state_dict(self, name: str) -> dict[str, Tensor]:
        """Return everything that a machine's next step depends on, as Cgsa alone would."""
        group, place = self._find(name)
        return {"generator": self._alone.generator.get_state(), **group.students.state_dict(place)}

    def load_state_dict(self, name: str, state: Mapping[str, Tensor]) -> None:
        """Let a machine go on from a state, of this fleet or of Cgsa alone."""
        group, place = self._find(name)
        group.students.load_state_dict(place, state)

    def step(self, batches: Mapping[str, Tensor]) -> FleetOutput:
        """Diagnose a batch of raw windows of each machine, then learn from it; others stay as they are.

        Windows that cannot be used raise before anything of any machine changes.
        """
        self._check(batches)
        loads = []
        for windows in sorted({len(batch) for batch in batches.values()}):
            chosen = {name: batch for name, batch in batches.items() if len(batch) == windows}
            loads += [self._load(group, chosen) for group in self._groups if not chosen.keys().isdisjoint(group.names)]
        self._refuse_bad(loads)
        told = [self._step(load) for load in loads]
        done = self._wait_for_lanes()
        places = {name: (part, place) for part, load in enumerate(loads) for place, name in load.places.items()}
        return FleetOutput(told, places, self._alone.conditions, self._results, done)

    def _step(self, load: _Load) -> StudentOutput:
        """Let the students of a group take their step, in their lane."""
        with load.group.lane.work():
            return load.group.students.step(load.values, load.step, load.present)

    def _wait_for_lanes(self) -> torch.cuda.Event | None:
        """Let everything from here on see what was done in the lanes; return when that is."""
        for lane in self._lanes:
            if lane.stream is not None:
                torch.cuda.current_stream().wait_stream(lane.stream)
        return None if self._results is None else torch.cuda.current_stream().record_event()

    def _more_students(self, lane: _DeviceStream) -> Students:
        try:
            return self._alone.more_students(self._together, lane.workspace)
        except torch.cuda.OutOfMemoryError as error:
            raise ConfigError(
                f"no memory for {self._together} machines more beside the {len(self.machines)} that are here; "
                f"put them on another GPU"
            ) from error

    def _find(self, name: str) -> tuple[_Group, int]:
        for group in self._groups:
            if name in group.names:
                return group, group.names.index(name)
        raise ConfigError(f"no machine {name!r} in the fleet of {len(self.machines)}")

    def _check(self, batches: Mapping[str, Tensor]) -> None:
        strangers = batches.keys() - set(self.machines)
        if strangers:
            raise ConfigError(f"no machine {', '.join(sorted(strangers))} in the fleet of {len(self.machines)}")
        for name, x in batches.items():
            check_shape(x, self.bundle.manifest, f"{name}: ")

    def _load(self, group: _Group, batches: Mapping[str, Tensor]) -> _Load:
        """Bring batches of some machines of a group to the device; where windows share samples, those alone."""
        places = {place: name for place, name in enumerate(group.names) if name is not None and name in batches}
        shared = {place: underlying_samples(batches[name]) for place, name in places.items()}
        steps = {0 if one is None else one[1] for one in shared.values()}
        step = steps.pop() if len(steps) == 1 else 0
        parts = {place: one[0] if step and one else batches[places[place]] for place, one in shared.items()}
        first = next(iter(parts.values()))
        pinned = self._copies is not None and not first.is_cuda
        joined = torch.empty(self._together, *first.shape, device=first.device, pin_memory=pinned)
        # Whoever is not there repeats somebody else, and is passed over.
        torch.stack([parts.get(place, first) for place in range(self._together)], out=joined)
        there = [place in places for place in range(self._together)]
        with nullcontext() if self._copies is None else torch.cuda.stream(self._copies):
            values = joined.to(self.device, non_blocking=True)
            finite = torch.isfinite(values).flatten(1).all(dim=1)
            present = torch.tensor(there, pin_memory=pinned).to(self.device, non_blocking=True)
        return _Load(group, places, step, values, present, finite)

    def _refuse_bad(self, loads: Sequence[_Load]) -> None:
        """Wait for all that was brought, and refuse it if anything is not a number."""
        for load in loads:
            stream = load.group.lane.stream
            if self._copies is not None and stream is not None:
                stream.wait_stream(torch.cuda.current_stream())
                stream.wait_stream(self._copies)
                load.values.record_stream(stream)
                load.present.record_stream(stream)
        # Lanes may still be at work on the batches before; only the copies are waited for.
        with nullcontext() if self._copies is None else torch.cuda.stream(self._copies):
            good = torch.stack([load.finite for load in loads]).tolist() if loads else []
        bad = [
            name
            for load, finite in zip(loads, good, strict=True)
            for place, name in load.places.items()
            if not finite[place]
        ]
        if bad:
            raise DataError(
                f"windows of {', '.join(bad)} hold NaN or infinity; leave those machines out of this step, "
                f"or the windows out of their streams"
            )
