"""A healthy reference from samples that are known to be healthy, or the reason why they give none."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cgsa.errors import DataError
from cgsa.estimators.signals import InputSignal
from cgsa.events import CommissioningStatus
from cgsa.live.signal_diagnoser import DiagnosedBatch, DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle
from cgsa.online.base import OnlineMethod
from cgsa.online.commissioned import MIN_WINDOWS, CommissionedMethod
from cgsa.online.reference import Reference


def diagnose_whole(
    signal: SignalDiagnoser, given: InputSignal, *, paused: str | None = None
) -> Iterator[DiagnosedBatch]:
    """Diagnose all windows of a signal, those of the last incomplete batch included."""
    chunk = signal.config.batch_size * signal.bundle.manifest.window.step
    for begin in range(0, given.samples.shape[1], chunk):
        part = slice(begin, begin + chunk)
        known = {name: trace if isinstance(trace, float) else trace[part] for name, trace in given.conditions.items()}
        yield from signal.add(given.samples[:, part], conditions=known, paused=paused)
    yield from signal.start_at(signal.now, paused=paused)


def reference_of(
    healthy: InputSignal, bundle: ModelBundle, config: DiagnosisConfig, device: torch.device | str
) -> tuple[CommissioningStatus, dict[str, Tensor]]:
    """Return what became of the reference, and the state of a method that uses it; refuse samples that give none.

    The method observes the samples as it observes the start of a machine that is known to be healthy.
    """
    signal = _signal_of_healthy(bundle, config, healthy.source, device)
    rate, samples, needed = bundle.manifest.sample_rate, healthy.samples.shape[1], _samples_needed(signal.method)
    windows = bundle.manifest.window.count(samples)
    if samples < needed:
        raise DataError(
            f"{healthy.source}: {samples / rate:.3g} s hold {windows} windows, too few for a reference; pass at least "
            f"{needed} samples, {needed / rate:.3g} s"
        )
    rejected = sum(sum(batch.event.flagged.values()) for batch in diagnose_whole(signal, healthy))
    method = signal.method
    if isinstance(method, CommissionedMethod) and method.commissioning.state == "question":
        # The first part was not steady, so that the method asks about a later one. The caller has answered for all.
        method.confirm_healthy()
    status = _status(method)
    if status.state != "done":
        sensor = f" ({rejected} of {windows})" if status.cause == "sensor fault" else ""
        raise DataError(
            f"{healthy.source}: no reference was taken, {status.text.removeprefix('waiting: ')}{sensor}; expected a "
            f"steady part of the signal of the running, healthy machine"
        )
    return status, method.state_dict()


def samples_needed(bundle: ModelBundle, config: DiagnosisConfig) -> int | None:
    """Return how many samples a reference takes; None if the method uses none."""
    method = SignalDiagnoser(bundle, config).method
    return _samples_needed(method) if isinstance(method, CommissionedMethod | Reference) else None


def is_commissioned(method: OnlineMethod) -> bool:
    """Return whether a method has got to know the healthy machine, or does not ask for it."""
    asks = isinstance(method, CommissionedMethod | Reference)
    return not asks or _status(method).state == "done"


def stop_waiting(method: OnlineMethod) -> None:
    """Let a method that waits for a start of known health answer as the model was trained, since this is no start."""
    if isinstance(method, CommissionedMethod) and method.commissioning.state == "waiting":
        method.repeat(healthy=False)


def _signal_of_healthy(
    bundle: ModelBundle, config: DiagnosisConfig, source: str, device: torch.device | str
) -> SignalDiagnoser:
    """Return a diagnoser that knows that the start is healthy; refuse methods that use no reference."""
    signal = SignalDiagnoser(bundle, config, source=source, device=device)
    if isinstance(signal.method, CommissionedMethod):
        signal.method.repeat(healthy=True)
    elif not isinstance(signal.method, Reference):
        raise DataError(
            f"method {config.method!r} uses no healthy reference; methods commissioning, change and reference do, for "
            f"the models that suit them"
        )
    return signal


def _samples_needed(method: OnlineMethod) -> int:
    """Return how many samples hold the windows that a method observes before it takes a reference."""
    manifest = method.bundle.manifest
    asked, spec = isinstance(method, CommissionedMethod), manifest.window
    seconds = float(method.config.seconds if asked else method.config.commission_seconds)
    windows = max(MIN_WINDOWS if asked else 1, round(seconds * manifest.sample_rate / spec.step))
    return spec.length + (windows - 1) * spec.step


def _status(method: OnlineMethod) -> CommissioningStatus:
    """Return how far a method is; one that adopts its reference in silence is asked for it."""
    if isinstance(method, Reference):
        if bool(method.memory["commissioned"]):
            return CommissioningStatus("done", None, "commissioned: reference of this machine in use", 1.0, True)
        text = "the samples do not resemble any healthy machine of the training, or are not steady"
        return CommissioningStatus("waiting", "outside training", text, 1.0, False)
    found = method.commissioning
    if found is None:
        raise DataError(f"{type(method).__name__} says nothing about its reference")
    return found
