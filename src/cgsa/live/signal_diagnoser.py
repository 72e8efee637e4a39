"""The diagnosis of one machine's signal: samples in, one diagnosis per batch of windows out.

Samples are cut into windows, the quality gate rejects those that cannot be what
the machine did, those at standstill are left out, and a
:class:`~cgsa.diagnosis.diagnoser.Diagnoser` diagnoses the others. A
:class:`~cgsa.live.levels.monitor.LevelMonitor` measures the levels of the
channels beside it. Files and live machines come the same way, so both get the same verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cgsa.config import as_table
from cgsa.data.recording import FloatArray
from cgsa.data.windows import overlapping_windows
from cgsa.decide.decision import DecisionMaker
from cgsa.decide.filter import FilterConfig
from cgsa.diagnosis.diagnoser import Diagnoser, WindowDiagnoses
from cgsa.events import OFF, Diagnosis
from cgsa.ledger.columns import Columns, LabelColumn, LedgerInfo
from cgsa.ledger.rows import describe, with_rejected
from cgsa.live.intake.quality import WINDOW_REASONS, Codes, QualityConfig, QualityGate
from cgsa.live.intake.windower import WindowBatch, Windower
from cgsa.live.levels.config import LevelConfig
from cgsa.live.levels.monitor import LevelMonitor
from cgsa.live.standstill import MACHINE_OFF, StandstillConfig, StandstillDetector
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod
from cgsa.online.commissioned import CommissionedMethod
from cgsa.online.healthy_start import MIN_SUITABLE_SHARE, SENSOR, STANDSTILL
from cgsa.profile import Profile

_REASONS = (*WINDOW_REASONS, MACHINE_OFF)
"""Why a window is not diagnosed, by its code."""


@dataclass(frozen=True)
class DiagnosisConfig:
    """How the signal of one machine is diagnosed."""

    method: str = "reference"
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the method that differ from its defaults."""
    seed: int = 0
    batch_size: int = 256
    decide: FilterConfig = field(default_factory=FilterConfig)
    quality: QualityConfig = field(default_factory=QualityConfig)
    levels: LevelConfig = field(default_factory=LevelConfig)
    standstill: StandstillConfig = field(default_factory=StandstillConfig)

    @classmethod
    def from_profile(cls, profile: Profile, method: str | None = None, *, seed: int = 0) -> Self:
        """Return the settings of a profile, with its default method unless another one is named."""
        chosen = method or profile.default_method
        settings, batch_size = profile.method_settings(chosen), profile.stream.batch_size
        return cls(chosen, settings, seed=seed, batch_size=batch_size, decide=profile.decide)


@dataclass(frozen=True, eq=False)
class DiagnosedBatch:
    """One batch of windows, diagnosed."""

    event: Diagnosis
    rows: Columns
    """Ledger rows, one per window."""
    fault: str | None
    """The most frequent sensor fault and its channels; None if the quality gate accepted every window."""
    learnt: int
    """Windows that were used for adaptation."""
    level_notes: tuple[str, ...] = ()
    """Limits of levels that are exceeded from now on, or no longer, and levels that rise from now on."""
    still: int = 0
    """Windows at standstill."""
    switched: bool = False
    """Whether the machine was switched on or off."""
    diagnoses: WindowDiagnoses | None = None
    """Diagnoses of the windows that the quality gate accepted; None if it accepted none."""


class SignalDiagnoser:
    """Diagnoses the signal of one machine.

    ``source`` names the recording or machine in events and ledger rows; it may be changed between batches.
    ``make_method`` makes the method that the settings name, if it is to be made in another way than usual.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        config: DiagnosisConfig,
        *,
        source: str = "",
        device: torch.device | str = "cpu",
        make_method: Callable[[], OnlineMethod] | None = None,
    ) -> None:
        self.bundle, self.config, self.source = bundle, config, source
        manifest = bundle.manifest
        usual_method = partial(METHODS[config.method], bundle, config.settings, seed=config.seed, device=device)
        self.method = (make_method or usual_method)()
        self.decision_maker = DecisionMaker(config.decide, manifest)
        self.batches = self.windows = 0
        """Diagnosed so far; both number the next batch."""
        self._diagnoser = Diagnoser(self.method, self.decision_maker)
        scaling, channels = bundle.channel_scaling, len(manifest.channels)
        mean, deviation = (scaling.get_buffer(name).cpu().numpy() for name in ("mean", "deviation"))
        usual = manifest.usual_equal_samples
        self._quality = QualityGate(
            config.quality, manifest.window, channels, scale=(mean, deviation), equal_samples=usual
        )
        self._windower = Windower(
            manifest.window, config.batch_size, channels, manifest.sample_rate, len(manifest.conditions)
        )
        samples = (config.batch_size - 1) * manifest.window.step + manifest.window.length
        self.levels = LevelMonitor(config.levels, manifest, batch_samples=samples)
        self.standstill = StandstillDetector(config.standstill, manifest)

    @property
    def now(self) -> float:
        """Time of the last sample in seconds."""
        return self._windower.now

    @property
    def holds_windows(self) -> bool:
        """Whether whole windows wait for the rest of their batch."""
        return self._windower.complete_windows > 0

    @property
    def identity(self) -> dict[str, object]:
        """Everything that a saved state depends on: it can be restored only under the same."""
        return {
            "method": self.config.method,
            "settings": as_table(self.method.config),
            "seed": self.config.seed,
            "batch_size": self.config.batch_size,
            "decide": as_table(self.config.decide),
        }

    def start_at(self, time: float, *, paused: str | None = None) -> list[DiagnosedBatch]:
        """Start a new segment of signal at ``time``; return the diagnosis of the windows that were left of the last.

        No window spans two segments.
        """
        return [self._diagnose(batch, paused) for batch in self._windower.restart(time)]

    def elapse(self, seconds: float) -> None:
        """Account for a pause of the measurement between two segments, in which the machine was not watched."""
        self.decision_maker.elapse(seconds)
        self.standstill.elapse(seconds)

    def add(
        self,
        samples: FloatArray,
        *,
        conditions: Mapping[str, FloatArray | float] | None = None,
        paused: str | None = None,
    ) -> list[DiagnosedBatch]:
        """Add the next samples, (channels, samples); return the diagnosis of every batch that they complete.

        ``conditions`` has the known operating conditions by the names of the model, as a value for all samples or one
        for each; others are ignored. ``paused`` says why no window may be used for adaptation; by default the method
        chooses.
        """
        known = self._condition_rows(conditions or {}, samples.shape[1])
        return [self._diagnose(batch, paused) for batch in self._windower.add(samples, known)]

    def ledger_info(self) -> LedgerInfo:
        """Return what the ledger of this stream says about method and model."""
        return describe(self.method, self.config.method, batch_size=self.config.batch_size)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next diagnosis depends on, as copies; the counters are not part of it."""
        return {
            **add_prefix("method", self.method.state_dict()),
            **add_prefix("decision", self.decision_maker.state_dict()),
            **add_prefix("cutter", self._windower.state_dict()),
            **add_prefix("windows", self._quality.state_dict()),
            **add_prefix("levels", self.levels.state_dict()),
            **add_prefix("standstill", self.standstill.state_dict()),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        self.method.load_state_dict(select_prefix("method", state))
        self.decision_maker.load_state_dict(select_prefix("decision", state))
        self._windower.load_state_dict(select_prefix("cutter", state))
        self._quality.load_state_dict(select_prefix("windows", state))
        self.levels.load_state_dict(select_prefix("levels", state))
        self.standstill.load_state_dict(select_prefix("standstill", state))

    def _condition_rows(self, conditions: Mapping[str, FloatArray | float], samples: int) -> FloatArray | None:
        """Return the conditions of the model at each sample, (conditions, samples); None if none is known."""
        names = [condition.name for condition in self.bundle.manifest.conditions]
        if not self.method.uses_conditions or not conditions.keys() & set(names):
            return None
        rows = [np.broadcast_to(conditions.get(name, np.nan), samples) for name in names]
        # A value too large for single precision becomes infinite, which no method takes for a condition.
        with np.errstate(over="ignore"):
            return np.stack(rows).astype(np.float32)

    def _diagnose(self, batch: WindowBatch, paused: str | None) -> DiagnosedBatch:
        manifest = self.bundle.manifest
        spec, rate = manifest.window, manifest.sample_rate
        time = batch.time + np.arange(batch.windows) * spec.step / rate
        flags = self._quality.check(batch.samples)
        was_off = self.standstill.off
        still = self.standstill.step(batch.samples, flags, time)
        used, codes = flags.good & ~still, np.where(still, len(WINDOW_REASONS), flags.worst)
        rejected = Counter(_REASONS[code] for code in codes if code)
        found, rows, learnt = None, None, 0
        span = float(time[0]), float(time[-1]) + spec.length / rate
        if used.any():
            self.method.interval = span
            x = overlapping_windows(torch.from_numpy(batch.samples), spec.length, spec.step)
            x = x if used.all() else x[torch.from_numpy(used)]
            known = None if batch.conditions is None else torch.from_numpy(batch.conditions[used])
            found = self._diagnoser.step(x, learn=paused is None, conditions=known)
            rows = self._diagnoser.rows(found, first=0, time=time[used], source=self.source, paused=paused)
            learnt = 0 if found.output.accepted is None else int(found.output.accepted.sum())
        if paused is None and isinstance(self.method, CommissionedMethod) and used.mean() < MIN_SUITABLE_SHARE:
            self.method.interrupt(STANDSTILL if still.sum() > (~used).sum() / 2 else SENSOR)
        # A ledger lists the reasons that may occur: batches of a running machine are stored as they always were.
        quality = LabelColumn(codes.astype(np.int32), _REASONS if still.any() else WINDOW_REASONS)
        event = self._diagnoser.event(
            found, number=self.batches, source=self.source, span=span, flagged=dict(rejected), paused=paused
        )
        if found is None and still.any():
            event = replace(event, verdict=OFF, state=OFF)
        monitored = self.levels.step(batch.samples, flags, *span)
        rows = with_rejected(rows, quality, first=self.windows, time=time, source=self.source)
        self.batches, self.windows = self.batches + 1, self.windows + batch.windows
        event = replace(event, levels=monitored.report, operation=self.standstill.operation)
        del rejected[MACHINE_OFF]
        return DiagnosedBatch(
            event,
            rows,
            _sensor_fault(flags.codes[:, ~still], rejected, manifest.channels),
            learnt,
            monitored.notes,
            int(still.sum()),
            switched=was_off != self.standstill.off,
            diagnoses=found,
        )


def _sensor_fault(codes: Codes, rejected: Counter[str], channels: tuple[str, ...]) -> str | None:
    """Return the flaw of most rejected windows and its channels; None if there is none."""
    if not rejected:
        return None
    reason = rejected.most_common(1)[0][0]
    where = (codes == WINDOW_REASONS.index(reason)).any(axis=1)
    return f"{reason} on {', '.join(name for name, bad in zip(channels, where, strict=True) if bad)}"
