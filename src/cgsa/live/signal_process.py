"""Processes that compute the diagnoses of many machines, beside the process that has everything else.

Threads of one process share an interpreter, so that beyond some ten machines they wait for each other, and for whatever
else the service does. A :class:`SignalProcess` computes the diagnoses of several machines in an interpreter of its own;
a watch uses its part of it through a :class:`RemoteSignal`. Samples go there, and events and ledger rows come back;
journal, alarms, states and store stay where they are.

If the process dies, the next request to it raises an :class:`OSError`. The worker then does what it does after every
failure of its surroundings: it makes a fresh watch, which starts a new process, and continues from the saved state.
"""

from __future__ import annotations

import multiprocessing as mp
import pickle
import signal
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Lock
from typing import Any, cast
from weakref import WeakSet, finalize

import torch
from torch import Tensor

from cgsa.data.recording import FloatArray
from cgsa.errors import CgsaError
from cgsa.events import CommissioningStatus, Operation
from cgsa.live.commands import Command
from cgsa.live.signal_diagnoser import DiagnosedBatch, DiagnosisConfig
from cgsa.live.watched_signal import LocalSignal
from cgsa.nn.bundle import ModelBundle

STOP_SECONDS = 5.0
"""How long a process may take to end."""


@dataclass(frozen=True)
class _View:
    """What a watch reads of a signal between requests."""

    now: float
    holds_windows: bool
    operation: Operation | None
    commissioning: CommissioningStatus | None


@dataclass(frozen=True, eq=False)
class _Request:
    """A method to call on the signal of a number; no method creates the signal."""

    number: int
    method: str | None
    words: tuple[object, ...] = ()
    settings: Mapping[str, object] | None = None
    dropped: tuple[int, ...] = ()
    """Signals and models that nobody uses any more."""


@dataclass(frozen=True, eq=False)
class _Answer:
    result: object = None
    view: _View | None = None
    error: Exception | None = None


class SignalProcess:
    """One process and the signals in it; any thread may use it, one request after the other.

    It starts with the first signal, and again with the first one after it has died.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._lock = Lock()
        self._numbers = count()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._models: dict[int, int] = {}
        """Numbers of the models that the process has, by their identity here."""
        self._dropped: deque[int] = deque()
        self._made: WeakSet[RemoteSignal] = WeakSet()

    @property
    def signals(self) -> int:
        """Number of signals in use."""
        return len(self._made)

    @property
    def id(self) -> int | None:
        """Number of the process in the operating system; None if it does not run."""
        return None if self._process is None else self._process.pid

    def create(self, bundle: ModelBundle, config: DiagnosisConfig, *, source: str) -> RemoteSignal:
        """Return the diagnosis of a machine, computed in the process."""
        with self._lock:
            pipe = self._running()
            model, packed = self._models.get(id(bundle)), b""
            if model is None:
                model, packed = next(self._numbers), pickle.dumps(bundle, pickle.HIGHEST_PROTOCOL)
            number = next(self._numbers)
            identity, view = self._exchange(pipe, _Request(number, None, (model, packed, config, source)))
            if packed:
                self._models[id(bundle)] = model
                finalize(bundle, self._forget_model, pipe, id(bundle), model)
        made = RemoteSignal(self, pipe, number, cast("Mapping[str, object]", identity), view)
        # In whichever thread the last reference ends: the number goes along with the next request.
        finalize(made, self._dropped.append, number)
        self._made.add(made)
        return made

    def ask(
        self, pipe: Connection, number: int, method: str, words: tuple[object, ...], settings: Mapping[str, object]
    ) -> tuple[object, _View]:
        """Call a method of a signal; ``pipe`` is that of the process in which the signal was created."""
        with self._lock:
            if pipe is not self._pipe:
                raise ConnectionResetError("the process that computed the diagnoses was started anew")
            dropped = tuple(self._dropped.popleft() for _ in range(len(self._dropped)))
            return self._exchange(pipe, _Request(number, method, words, settings, dropped))

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _forget_model(self, pipe: Connection, identity: int, model: int) -> None:
        # Only if the process is the one that got it: numbers and identities are given anew.
        if pipe is self._pipe:
            self._models.pop(identity, None)
            self._dropped.append(model)

    def _running(self) -> Connection:
        """Return the pipe to a process that runs."""
        if self._process is not None and self._pipe is not None and self._process.is_alive():
            return self._pipe
        self._end()
        # A fork would copy locks that threads of this process hold.
        context = mp.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=serve_signals, args=(there,), name=f"cgsa-signals-{self.number}", daemon=True)
        process.start()
        there.close()
        self._process, self._pipe = process, here
        return here

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join(STOP_SECONDS)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._process = self._pipe = None
        self._models.clear()
        self._dropped.clear()

    def _exchange(self, pipe: Connection, request: _Request) -> tuple[object, _View]:
        try:
            _send(pipe, request)
            answer = cast("_Answer", _receive(pipe))
        except (EOFError, OSError) as error:
            self._end()
            raise ConnectionResetError("the process that computed the diagnoses has ended") from error
        if answer.error is not None:
            raise answer.error
        return answer.result, cast("_View", answer.view)


class RemoteSignal:
    """The diagnosis of one machine in another process; see :class:`~cgsa.live.watched_signal.WatchedSignal`."""

    def __init__(
        self, process: SignalProcess, pipe: Connection, number: int, identity: Mapping[str, object], view: _View
    ) -> None:
        self._process, self._pipe, self._number = process, pipe, number
        self.identity, self._view = identity, view
        self.device = torch.device("cpu")

    @property
    def process(self) -> SignalProcess:
        """Where it is computed."""
        return self._process

    @property
    def now(self) -> float:
        """Time of the last sample in seconds."""
        return self._view.now

    @property
    def holds_windows(self) -> bool:
        """Whether whole windows wait for the rest of their batch."""
        return self._view.holds_windows

    @property
    def operation(self) -> Operation | None:
        """Whether the machine runs; None if that is unknown."""
        return self._view.operation

    @property
    def commissioning(self) -> CommissioningStatus | None:
        """How far the commissioning is; None if the method has none."""
        return self._view.commissioning

    def count_from(self, batches: int, windows: int) -> None:
        """Number the next batch and window."""
        self._ask("count_from", batches, windows)

    def start_at(self, time: float, *, paused: str | None = None) -> list[DiagnosedBatch]:
        """Start a new segment of signal; return the diagnosis of what was left of the last."""
        return cast("list[DiagnosedBatch]", self._ask("start_at", time, paused=paused))

    def elapse(self, seconds: float) -> None:
        """Account for a pause of the measurement."""
        self._ask("elapse", seconds)

    def add(
        self, samples: FloatArray, *, conditions: Mapping[str, FloatArray | float] | None, paused: str | None
    ) -> list[DiagnosedBatch]:
        """Add the next samples; return the diagnosis of every batch that they complete."""
        return cast("list[DiagnosedBatch]", self._ask("add", samples, conditions=conditions, paused=paused))

    def commission(self, command: Command) -> str:
        """Carry out a command about the commissioning, and return what was done."""
        return str(self._ask("commission", command))

    def learn_label(self, state: str, begin: float, end: float) -> str | None:
        """Hand a labelled interval to the method, and return what came of it."""
        return cast("str | None", self._ask("learn_label", state, begin, end))

    def reset(self) -> None:
        """Return to the model as it was trained."""
        self._ask("reset")

    def roll_back(self, state: Mapping[str, Tensor]) -> None:
        """Return to the model of an earlier state."""
        self._ask("roll_back", dict(state))

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next diagnosis depends on, as copies."""
        return cast("dict[str, Tensor]", self._ask("state_dict"))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state."""
        self._ask("load_state_dict", dict(state))

    def _ask(self, method: str, *words: object, **settings: object) -> object:
        result, self._view = self._process.ask(self._pipe, self._number, method, words, settings)
        return result


def serve_signals(pipe: Connection) -> None:
    """Compute what is asked for until nobody can ask any more; the body of the process."""
    # Ctrl-C goes to all processes of a terminal. Only the one that has the journal decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    signals: dict[int, _HostedSignal] = {}
    models: dict[int, ModelBundle] = {}
    with suppress(EOFError, ConnectionError):
        while True:
            request = cast("_Request", _receive(pipe))
            for number in request.dropped:
                signals.pop(number, None)
                models.pop(number, None)
            try:
                answer = _answer(request, signals, models)
            except Exception as error:  # it belongs to whoever asked
                answer = _Answer(error=_portable(error))
            _send(pipe, answer)


class _HostedSignal:
    """A signal of this process, and what its watch knows of it."""

    def __init__(self, found: LocalSignal) -> None:
        self._signal = found
        self._commissioning = found.commissioning

    def call(self, method: str, words: tuple[object, ...], settings: Mapping[str, object]) -> _Answer:
        result = getattr(self._signal, method)(*words, **settings)
        if method in {"add", "start_at"}:
            # A watch reads events and rows; the diagnoses of single windows stay here.
            result = [replace(batch, diagnoses=None) for batch in cast("list[DiagnosedBatch]", result)]
        if method != "add" or result:
            # Samples that complete no batch do not change it, and to describe it takes a while.
            self._commissioning = self._signal.commissioning
        return self.answer(result)

    def answer(self, result: object) -> _Answer:
        found = self._signal
        return _Answer(result, _View(found.now, found.holds_windows, found.operation, self._commissioning))


def _answer(request: _Request, signals: dict[int, _HostedSignal], models: dict[int, ModelBundle]) -> _Answer:
    if request.method is not None:
        return signals[request.number].call(request.method, request.words, request.settings or {})
    model, packed, config, source = cast("tuple[int, bytes, DiagnosisConfig, str]", request.words)
    if packed:
        models[model] = pickle.loads(packed)  # noqa: S301 - from the process that started this one
    made = LocalSignal(models[model], config, source=source)
    signals[request.number] = _HostedSignal(made)
    return signals[request.number].answer(made.identity)


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent: itself, or what it says."""
    if isinstance(error, CgsaError | OSError | MemoryError):
        return error
    return RuntimeError(repr(error))


def _send(pipe: Connection, value: object) -> None:
    # Plain pickle: the one of multiprocessing would pass tensors as shared memory, one file handle each.
    pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def _receive(pipe: Connection) -> Any:
    return pickle.loads(pipe.recv_bytes())  # noqa: S301 - from a process of this service
