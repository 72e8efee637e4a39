"""Change: tells whether a machine is still healthy, from a model that was trained on healthy recordings alone.

When monitoring starts, a healthy start is observed as soon as it is suitable: the
machine runs and is steady. If the start resembles the training, or is known to be
healthy, its mean features become a reference of the machine. If not, a person is
asked. From then on, a window is changed if it differs from all references of the
machine, and without any, if it differs from the training. Labels that people give to
intervals become further healthy references, or names for what changed. No weight is
ever changed.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from math import exp, isnan

import torch
from torch import Tensor

from cgsa.events import ChangedLine, ChangeReport, CommissioningState
from cgsa.nn.change import MOST_LOG_SCORE, OWN, ChangeModel
from cgsa.nn.frame_sums import RecentFrames
from cgsa.nn.lines import changed_lines
from cgsa.nn.spectra import ENVELOPE_HOP
from cgsa.nn.state import add_prefix, select_prefix
from cgsa.online.base import MethodConfig, StepOutput
from cgsa.online.commissioned import CommissionedMethod
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.online.healthy_start import ObservedRows, window_levels
from cgsa.online.prototypes import Prototypes
from cgsa.online.trend import BLOCKS as TREND_BLOCKS
from cgsa.online.trend import Trend

HISTORY_BLOCKS = 96
"""Blocks of the history that are kept: features are many, so that these are fewer than of scores."""
MAX_REFERENCES = 16
"""Healthy references of the machine that are kept; the oldest is discarded."""
SMOOTHING_SECONDS = 5.0
"""Time constant of the reported score, and of the spectra in which changed lines are sought."""
REPORTED_SHARE = 0.5
"""Share of the limit from which the report names what changed."""
SPECTRUM_LINES, ENVELOPE_LINES = 4, 2
"""Most lines of each kind in a report."""


@dataclass(frozen=True)
class ChangeMethodConfig(MethodConfig):
    """Settings of the method."""

    seconds: float = 1.0
    """How long the healthy start is observed, from the end of the first window on: seconds to hours."""
    healthy_start: bool = False
    """Whether the machine is known to be healthy when monitoring starts; if not, a person is asked where the start
    does not resemble the training."""
    steady: bool = False
    """Whether the machine runs only at conditions at which it has a reference: smaller changes are noticed then, but
    another condition counts as a change."""
    history_seconds: float = 2880.0
    """How far back an interval may be labelled, or a reference be taken from; a block is 1/96 of it."""
    trend_seconds: float = 86_400.0
    """Time over which the trend is measured; a block is 1/96 of it."""

    def __post_init__(self) -> None:
        self.check("seconds", valid=self.seconds > 0, expected="a positive number")
        self.check("history_seconds", valid=self.history_seconds > 0, expected="a positive number")
        self.check("trend_seconds", valid=self.trend_seconds > 0, expected="a positive number")


class Change(CommissionedMethod):
    """Healthy or changed, relative to the training and to the machine's own healthy start."""

    Config = ChangeMethodConfig
    summary = "healthy or changed, and what changed; for models of the healthy machine alone"
    needs = frozenset({"healthy_only"})

    def start(self) -> None:
        """Start without references, labels and history."""
        self._model: ChangeModel = deepcopy(self.bundle.require_change()).to(self.device)
        self._recent = RecentFrames()
        manifest = self.bundle.manifest
        self._step_seconds = manifest.window.step / manifest.sample_rate
        features = self._model.feature_count
        lines = sum(one.out_features for one in self._model.line_modules())
        self.memory = {
            "references": torch.zeros(0, features + lines, device=self.device),
            "score": torch.full((), torch.nan, device=self.device),
            "recent": torch.zeros(features + lines, device=self.device),
            **add_prefix("trend", Trend.empty(self.device).tensors()),
            **add_prefix("labels", Prototypes.empty(features, self.device).tensors()),
        }
        self.observe_start((1, features + lines))

    @property
    def change(self) -> ChangeReport | None:
        """How far the machine is from its healthy state, its trend, and what changed."""
        log_score = float(self.memory["score"])
        if isnan(log_score):
            return None
        score, per_hour = exp(min(log_score, MOST_LOG_SCORE)), self._trend.per_hour()
        lines = self._changed_lines() if score >= REPORTED_SHARE else ()
        named = self._nearest_label() if score >= 1 else None
        label, probability = named or (None, None)
        return ChangeReport(score, per_hour, lines, label, probability)

    def label(self, name: str, begin: float, end: float) -> None:
        """Keep an interval of the history under the name of its state; a healthy one becomes a reference."""
        if name == self.bundle.manifest.classes[0]:
            self._take_reference(self._between(begin, end), confirmed=True)
            return
        row = self._between(begin, end).scores.mean(dim=0)[0, : self._model.feature_count]
        self.memory |= add_prefix("labels", self._labels.add(name, row).tensors())

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the probabilities of healthy and changed with the current references."""
        rows = self._model.rows(x.to(self.device, torch.float32))
        return _probabilities(self._log_score(rows)[1])

    @property
    def _has_reference(self) -> bool:
        return len(self.memory["references"]) > 0

    def _describe(self, state: CommissioningState) -> str:
        own = len(self.memory["references"])
        match state:
            case "question":
                return "question: unlike the healthy machines of the training; confirm healthy, or mark as faulty"
            case "faulty":
                return "marked as faulty: no reference, compared with the training"
            case "withdrawn":
                return "reference taken back: compared with the training"
            case _:
                return f"commissioned: {own} healthy reference{'' if own == 1 else 's'} of this machine in use"

    def _discard_references(self) -> None:
        self.memory["references"] = self.memory["references"][:0]

    def _keep_reference(self, rows: ObservedRows, *, confirmed: bool) -> None:
        """Take the mean of some healthy rows as a further reference of the machine."""
        del confirmed  # A reference beside the training costs little: it is kept in any case.
        row = rows.scores.mean(dim=0)
        self.memory["references"] = torch.cat([self.memory["references"], row])[-MAX_REFERENCES:]

    def _appears_healthy(self, span: ObservedRows) -> bool:
        return float(span.distances.median()) <= 0

    @property
    def _trend(self) -> Trend:
        return Trend.from_tensors(select_prefix("trend", self.memory))

    @property
    def _labels(self) -> Prototypes:
        return Prototypes.from_tensors(select_prefix("labels", self.memory))

    def _log_score(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        own = self.memory["references"][:, : self._model.feature_count]
        return self._model.log_score(rows, own, steady=self.config.steady)

    def _output(self, x: Tensor) -> tuple[StepOutput, ObservedRows]:
        features = self._model.rows(x, self._recent)
        score, odds = self._log_score(features)
        frozen = self._model.log_score(features)[0] > 0 if self._has_reference else score > 0
        both = torch.cat([features, self._model.line_rows(x, self._recent)], dim=1)
        rows = ObservedRows(both[:, None], window_levels(x), score)
        evidence = {
            **self._start_evidence(rows),
            AGREES_WITH_SOURCE: (score > 0) == frozen,
            "score": score.clamp(max=MOST_LOG_SCORE).exp(),
        }
        return StepOutput(_probabilities(odds), torch.zeros_like(evidence["ready"]), evidence), rows

    def _remember(self, rows: ObservedRows) -> None:
        """Add a batch to the smoothed score and spectra and, if there is a clock, to history and trend."""
        weight = 1 - exp(-len(rows) * self._step_seconds / SMOOTHING_SECONDS)
        before, now, row = self.memory["score"], rows.distances.mean(), rows.scores.mean(dim=0)[0]
        first = bool(before.isnan())
        self.memory["score"] = now.clone() if first else before + weight * (now - before)
        self.memory["recent"] = row.clone() if first else torch.lerp(self.memory["recent"], row, weight)
        if self.interval is None:
            return
        history = self._history.add(rows, *self.interval, self.config.history_seconds / HISTORY_BLOCKS)
        kept = replace(history, blocks=history.blocks[-HISTORY_BLOCKS:], times=history.times[-HISTORY_BLOCKS:])
        self.memory |= add_prefix("history", kept.tensors())
        trend = self._trend.add(
            rows.distances.clamp(max=MOST_LOG_SCORE).exp(), *self.interval, self.config.trend_seconds / TREND_BLOCKS
        )
        self.memory |= add_prefix("trend", trend.tensors())

    def _between(self, begin: float, end: float) -> ObservedRows:
        """Return the history of an interval, the newest block included."""
        history = self._history
        return (history.close() if len(history.newest) else history).between(begin, end)

    def _nearest_label(self) -> tuple[str, float] | None:
        recent = self.memory["recent"][None, : self._model.feature_count]
        return self._labels.nearest(
            lambda row: self._model.metrics.log_distance(recent, row), float(self._model.limits[OWN])
        )

    def _changed_lines(self) -> tuple[ChangedLine, ...]:
        """Return what changed most: lines of whole windows against the latest reference, or bands against training."""
        manifest, model = self.bundle.manifest, self._model
        channels, rate = len(manifest.channels), manifest.sample_rate
        recent, references = self.memory["recent"], self.memory["references"]
        kinds: list[tuple[str, int, Tensor, Tensor]] = []
        if len(references):
            sizes = [model.feature_count, *(one.out_features for one in model.line_modules())]
            parts = zip(torch.split(recent, sizes)[1:], torch.split(references[-1], sizes)[1:], strict=True)
            kinds = [(one.kind, one.frame, *part) for one, part in zip(model.config.lines, parts, strict=True)]
        else:
            width, frame = model.sizes[0], model.config.features[0].frame
            kinds = [("spectrum", frame, recent[:width], model.metrics.kinds()[0].centre)]
        found = []
        for kind, frame, now, healthy in kinds:
            envelope = kind == "envelope"
            hertz = rate / (ENVELOPE_HOP if envelope else 1) / frame
            shape = (channels, -1)
            count = ENVELOPE_LINES if envelope else SPECTRUM_LINES
            for one in changed_lines(now.reshape(shape), healthy.reshape(shape), count):
                name = manifest.channels[one.channel]
                found.append(ChangedLine(name, (one.line + 1) * hertz, one.decibels, envelope))
        return tuple(found)


def _probabilities(odds: Tensor) -> Tensor:
    return torch.softmax(torch.stack([torch.zeros_like(odds), odds], dim=1), dim=1)
