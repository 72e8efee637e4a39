"""Machines of a shard whose students are stacked on a device: they are worked on at the same time and step together.

Each machine has its watch, its log and its states as any other. Only the steps of their students are gathered: while
machines are worked on, each in a thread, one that comes to a step waits until all others have come to theirs or are
done with their record; then all of them take it at once. What a machine finds does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

import torch
from torch import Tensor

from cgsa.config import as_table
from cgsa.live.signal_diagnoser import DiagnosisConfig
from cgsa.nn.bundle import ModelBundle
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.fleet import MACHINES_PER_STACK, StudentFleet
from cgsa.online.stacked_cgsa import StackedCgsa

MOST_THREADS = 4096
"""Machines that can be worked on at the same time."""


@dataclass(frozen=True, eq=False)
class _StepRequest:
    machine: str
    windows: Tensor
    learn: bool
    output: Future[StepOutput] = field(default_factory=Future)


class StudentStack:
    """The students of machines with the same model and settings; each machine is worked on by a thread of its own."""

    def __init__(self, fleet: StudentFleet) -> None:
        self._fleet = fleet
        self._lock = Lock()
        self._working = 0
        """Machines that are worked on and may come to a step."""
        self._waiting: list[_StepRequest] = []

    def restart(self, machine: str) -> None:
        """Give a machine a new student; it joins if it is new itself."""
        with self._lock:
            if machine in self._fleet.machines:
                self._fleet.restart(machine)
            else:
                self._fleet.join(machine)

    def leave(self, machine: str) -> None:
        """Remove the student of a machine."""
        with self._lock:
            if machine in self._fleet.machines:
                self._fleet.leave(machine)

    def state_dict(self, machine: str) -> dict[str, Tensor]:
        """Return the state of a machine, as Cgsa would."""
        with self._lock:
            return self._fleet.state_dict(machine)

    def load_state_dict(self, machine: str, state: Mapping[str, Tensor]) -> None:
        """Let a machine resume from a state."""
        with self._lock:
            self._fleet.load_state_dict(machine, state)

    def begin(self, machines: int) -> None:
        """Expect steps of this many machines."""
        with self._lock:
            self._working = machines

    def finish(self) -> None:
        """Expect no more steps of one machine."""
        with self._lock:
            self._working -= 1
            self._step_if_complete()

    def step(self, machine: str, x: Tensor, *, learn: bool) -> StepOutput:
        """Take a step of one machine, as soon as the others are ready for theirs."""
        request = _StepRequest(machine, x, learn)
        with self._lock:
            self._waiting.append(request)
            self._step_if_complete()
        return request.output.result()

    def _step_if_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._working:
            return
        waiting, self._waiting = self._waiting, []
        for learn in (True, False):
            self._step_together([one for one in waiting if one.learn == learn], learn=learn)

    def _step_together(self, requests: list[_StepRequest], *, learn: bool) -> None:
        try:
            outputs = self._fleet.step({one.machine: one.windows for one in requests}, learn=learn).on_host()
            found = {one.machine: outputs[one.machine] for one in requests}
        except Exception as error:  # each machine deals with it as with an error of its own
            for one in requests:
                one.output.set_exception(error)
            return
        for one in requests:
            one.output.set_result(found[one.machine])


class StudentStacks:
    """All stacks of a shard; ``together`` machines take a step at once."""

    def __init__(self, device: torch.device | str, *, together: int = MACHINES_PER_STACK) -> None:
        self.device, self._together = device, together
        self._stacks: dict[tuple[str, str], StudentStack] = {}
        self._members: dict[str, StudentStack] = {}
        self._threads = ThreadPoolExecutor(MOST_THREADS, "cgsa-stack")

    def method_for(
        self, machine: str, bundle: ModelBundle, config: DiagnosisConfig
    ) -> Callable[[], OnlineMethod] | None:
        """Return what makes the method of a machine; None if its method has no students to stack."""
        if config.method != "cgsa":
            return None
        # Machines whose settings are the same share a stack.
        kind = bundle.sha256, str(sorted(as_table(config.settings).items()))
        if kind not in self._stacks:
            fleet = StudentFleet(bundle, config.settings, device=self.device, together=self._together)
            self._stacks[kind] = StudentStack(fleet)
        stack = self._members[machine] = self._stacks[kind]
        return partial(
            StackedCgsa,
            bundle,
            config.settings,
            seed=config.seed,
            device=self.device,
            students=stack,
            machine=machine,
        )

    def leave(self, machine: str) -> None:
        """Remove the student of a machine."""
        stack = self._members.pop(machine, None)
        if stack is not None:
            stack.leave(machine)

    def work(self, machines: Mapping[str, Callable[[], bool]]) -> bool:
        """Work on machines at the same time; return whether any of them found work."""
        stacks = {name: self._members.get(name) for name in machines}
        for stack in {stack for stack in stacks.values() if stack is not None}:
            stack.begin(sum(one is stack for one in stacks.values()))
        jobs = [self._threads.submit(_work, work, stacks[name]) for name, work in machines.items()]
        found = [job.result() for job in jobs]
        return any(found)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


def _work(work: Callable[[], bool], stack: StudentStack | None) -> bool:
    try:
        return work()
    finally:
        if stack is not None:
            stack.finish()
