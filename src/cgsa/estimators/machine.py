"""A machine with its model: give it a healthy reference, then ask about samples or let it watch a stream of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cgsa.errors import DataError
from cgsa.estimators.defaults import default_config
from cgsa.estimators.packing import pack, unpack
from cgsa.estimators.references import diagnose_whole, is_commissioned, reference_of, stop_waiting
from cgsa.estimators.signals import InputSignal, SignalFormat, SignalInput, read_signal
from cgsa.estimators.states import load_state, pack_state, save_state, unpack_state
from cgsa.estimators.verdicts import WindowVerdicts, verdicts_of
from cgsa.events import ChangeReport, CommissioningStatus
from cgsa.live.signal_diagnoser import DiagnosisConfig, SignalDiagnoser
from cgsa.nn.bundle import ModelBundle
from cgsa.online.reference import Reference

PREDICTION = "prediction"
"""Why windows of a prediction are not used for adaptation."""

Conditions = Mapping[str, npt.ArrayLike]


class Machine:
    """A machine whose signal a model diagnoses.

    :meth:`predict` answers about samples and changes nothing. :meth:`stream` watches: it joins what it sees from call
    to call, and its method may adapt. Both use the healthy reference of :meth:`commission`.

    Samples may be arrays of NumPy or torch, (channels, samples) or (samples, channels); windows (windows, channels,
    length); tables of pandas or polars with a column per channel; a :class:`~cgsa.data.recording.Recording`; or the
    path of a file.

    Parameters
    ----------
    bundle
        The model.
    config
        Method and settings; by default those of the profile that suits the model.
    device
        Where the model runs.
    """

    def __init__(
        self, bundle: ModelBundle, config: DiagnosisConfig | None = None, *, device: torch.device | str = "cpu"
    ) -> None:
        self.bundle = bundle
        self.config = default_config(bundle) if config is None else config
        self._device = device
        self.reset()

    @property
    def classes(self) -> tuple[str, ...]:
        """States that the model knows, the healthy one first."""
        return self.bundle.manifest.classes

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels in the order of the model."""
        return self.bundle.manifest.channels

    @property
    def sample_rate(self) -> float:
        """Rate of the samples in Hz."""
        return self.bundle.manifest.sample_rate

    @property
    def window_length(self) -> int:
        """Samples of a window."""
        return self.bundle.manifest.window.length

    @property
    def commissioning(self) -> CommissioningStatus | None:
        """What is known of the healthy start of the machine; None if the method does not ask."""
        return self._signal.method.commissioning

    @property
    def change(self) -> ChangeReport | None:
        """How far the streamed machine is from its healthy state; None if the method does not measure it."""
        return self._signal.method.change

    @property
    def commissioned(self) -> bool:
        """Whether the method has got to know the healthy machine, or needs no reference."""
        return is_commissioned(self._signal.method)

    def __repr__(self) -> str:
        return (
            f"Machine({', '.join(self.classes)}; {', '.join(self.channels)} at {self.sample_rate:g} Hz; "
            f"method {self.config.method})"
        )

    def reset(self) -> None:
        """Return to the model as it was loaded: without a reference, and before the first sample."""
        self._signal = SignalDiagnoser(self.bundle, self.config, device=self._device)
        self._channels_first: bool | None = None

    def clone(self) -> Machine:
        """Return a machine with the same model and settings, as it is before the first sample."""
        return Machine(self.bundle, self.config, device=self._device)

    def commission(
        self,
        healthy: SignalInput,
        *,
        sample_rate: float | None = None,
        channels: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        conditions: Conditions | None = None,
        channels_first: bool | None = None,
    ) -> CommissioningStatus:
        """Take a healthy, steady part of the signal as the reference of this machine, in place of an earlier one.

        The machine stays as it was if the part is refused: too short, a standstill, unlike everything in training, not
        steady, or rejected by the quality gate.

        Parameters
        ----------
        healthy
            Samples of the healthy machine.
        sample_rate
            Rate of the samples in Hz; required where the samples do not state it.
        channels, units
            Names and units of the channels in the order of the samples; by default those of the model.
        conditions
            Known operating conditions by name, a value or one per sample.
        channels_first
            Whether samples are (channels, samples); by default, the number of channels tells.
        """
        stated = SignalFormat(sample_rate, channels, units, channels_first)
        given = read_signal(healthy, self.bundle.manifest, stated, conditions=conditions)
        if sample_rate is None and not given.states_rate:
            raise DataError(
                f"the rate of the healthy samples is missing; pass sample_rate= (the model was trained at "
                f"{self.sample_rate:g} Hz)"
            )
        status, state = reference_of(given, self._bundle_for(given), self.config, self._device)
        self._signal.method.load_state_dict(state)
        # What was believed of the machine rested on another reference.
        self._signal.decision_maker.reset()
        return status

    def predict(
        self,
        samples: SignalInput,
        sample_rate: float | None = None,
        *,
        channels: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        conditions: Conditions | None = None,
        channels_first: bool | None = None,
    ) -> WindowVerdicts:
        """Diagnose samples as a signal of their own, and return one row per window; nothing changes.

        Verdict and alarm are joined along the samples, which are taken to follow each other without a gap, and so are
        windows: those that overlap are joined again where they do. The parameters are those of :meth:`commission`.
        """
        if isinstance(self._signal.method, Reference) and not self.commissioned:
            raise DataError(
                f"method {self.config.method!r} compares with a healthy reference of the machine, which it lacks; call "
                f"commission with healthy samples first"
            )
        stated = SignalFormat(sample_rate, channels, units, channels_first)
        given = read_signal(samples, self.bundle.manifest, stated, conditions=conditions)
        own = SignalDiagnoser(self._bundle_for(given), self.config, source=given.source, device=self._device)
        own.method.load_state_dict(self._signal.method.state_dict())
        stop_waiting(own.method)
        batches = list(diagnose_whole(own, given, paused=PREDICTION))
        if not batches:
            raise DataError(
                f"{given.source}: {given.samples.shape[1]} samples; expected at least one window of "
                f"{self.window_length}"
            )
        states = own.decision_maker.states
        return WindowVerdicts.concatenate(verdicts_of(batch, self.bundle.manifest, states) for batch in batches)

    def predict_proba(
        self,
        samples: SignalInput,
        sample_rate: float | None = None,
        *,
        channels: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        conditions: Conditions | None = None,
        channels_first: bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the class probabilities of every window on its own, (windows, classes); NaN for rejected windows."""
        return self.predict(
            samples, sample_rate, channels=channels, units=units, conditions=conditions, channels_first=channels_first
        ).probabilities

    def stream(
        self,
        blocks: Iterable[SignalInput],
        sample_rate: float | None = None,
        *,
        channels: Sequence[str] | None = None,
        units: str | Sequence[str] | None = None,
        conditions: Conditions | None = None,
        channels_first: bool | None = None,
    ) -> Iterator[WindowVerdicts]:
        """Watch blocks of consecutive samples of any size, and yield the rows of each batch of windows they complete.

        The next call continues where this one ends; samples that complete no batch yet are kept until then.
        ``conditions`` are those of the blocks, one value each or one for each sample of a block. The other parameters
        are those of :meth:`commission`.
        """
        stated = SignalFormat(sample_rate, channels, units, channels_first)
        manifest, states = self.bundle.manifest, self._signal.decision_maker.states
        for block in blocks:
            given = read_signal(block, manifest, stated, assumed_first=self._channels_first, conditions=conditions)
            if given.given_as_windows:
                raise DataError("windows instead of samples; a stream takes consecutive samples, predict takes windows")
            self._channels_first = given.channels_first
            self._signal.source = given.source
            for batch in self._signal.add(given.samples, conditions=given.conditions):
                yield verdicts_of(batch, manifest, states)

    def save_state(self, folder: str | PathLike[str]) -> Path:
        """Save reference, adaptation, beliefs and unfinished windows in a folder, beside earlier states of it."""
        return save_state(self._signal, Path(folder))

    def load_state(self, folder: str | PathLike[str]) -> None:
        """Resume from the newest undamaged state in a folder; one of another model or other settings is refused."""
        fresh = SignalDiagnoser(self.bundle, self.config, device=self._device)
        load_state(fresh, Path(folder))
        self._signal = fresh

    def __getstate__(self) -> dict[str, Any]:
        packed = {"bundle": pack(self.bundle), "state": pack_state(self._signal)}
        return {**packed, "config": self.config, "device": str(self._device), "channels_first": self._channels_first}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        device = state["device"]
        self.bundle, self.config, self._device = unpack(state["bundle"]).to(device), state["config"], device
        self.reset()
        unpack_state(self._signal, state["state"])
        self._channels_first = state["channels_first"]

    def _bundle_for(self, given: InputSignal) -> ModelBundle:
        """Return the bundle with the windows of a signal, which may overlap less than those of the training."""
        manifest = self.bundle.manifest
        if given.step == manifest.window.step:
            return self.bundle
        return replace(self.bundle, manifest=replace(manifest, window=replace(manifest.window, step=given.step)))


def load(
    folder: str | PathLike[str],
    *,
    method: str | None = None,
    profile: str | PathLike[str] | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Machine:
    """Load a model as a machine to commission, ask and watch.

    Parameters
    ----------
    folder
        The bundle.
    method
        Online method; by default that of the profile.
    profile
        Name or file of a profile; by default the one that suits the model.
    settings
        Settings that differ from those of the profile, as nested tables, such as
        ``{"method": {"commissioning": {"seconds": 60}}}``.
    seed
        Seed of the method.
    device
        Where the model runs.
    """
    bundle = ModelBundle.load(Path(folder), device)
    config = default_config(bundle, method=method, profile=profile, settings=settings, seed=seed)
    return Machine(bundle, config, device=device)
