"""From a method's output for single windows to a state of the machine and an alarm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from cgsa.decide.alarms import latch_alarm
from cgsa.decide.filter import FilterConfig, StateFilter
from cgsa.decide.unknown import add_unknown_state, without_changed_health
from cgsa.nn.bundle import Manifest
from cgsa.nn.smoothing import ALARM_LENGTHS, STATE_LENGTHS, running_mean
from cgsa.nn.state import check_state

LEAST_DISTANCE = 1e-12
UNCHANGED = -1.0
"""Logarithm of the change of a machine that is as it was at its healthy start."""
UNKNOWN = "unknown"
"""Name of the state that is absent from training."""


@dataclass(frozen=True, eq=False)
class Decision:
    """The decision for each window of a batch."""

    window_probabilities: Tensor
    """(windows, states): calibrated probability of each state from the window itself, before the filter."""
    posterior: Tensor
    """(windows, states): probability of each state now, given all windows so far; unknown last, if it is a state."""
    alarm_posterior: Tensor
    """(windows, states): the same from the slow chain, which the alarm is based on."""
    alarm: Tensor
    """(windows,): whether the alarm is active."""

    @classmethod
    def concatenate(cls, parts: Sequence[Decision]) -> Decision:
        """Return the decisions for successive batches as one."""
        return cls(*(torch.cat([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    @property
    def state(self) -> Tensor:
        """The most likely state."""
        return self.posterior.argmax(dim=1)

    @property
    def alarm_state(self) -> Tensor:
        """The fault that an active alarm reports; 0, healthy, while there is none."""
        return torch.where(self.alarm, 1 + self.alarm_posterior[:, 1:].argmax(dim=1), 0)


class DecisionMaker:
    """Decides the state of one machine over time; it reads no label and changes no model.

    Batches are small, so a CPU is a faster ``device`` than a GPU.
    """

    def __init__(self, config: FilterConfig, manifest: Manifest, *, device: torch.device | str = "cpu") -> None:
        calibration = manifest.calibration
        self.distance_limit = None if calibration is None else calibration.unknown_limit
        """Distance from training beyond which a window is unknown; None without a calibration."""
        self.temperature = 1.0 if calibration is None else calibration.temperature
        self.states = (*manifest.classes, *([] if self.distance_limit is None else [UNKNOWN]))
        """Names of the states."""
        self.device = torch.device(device)
        window = manifest.window
        self.running_means = [
            max(1, round(many * window.length / window.step)) for many in (STATE_LENGTHS, ALARM_LENGTHS)
        ]
        self.chains = StateFilter(
            config,
            states=len(self.states),
            window_seconds=window.length / manifest.sample_rate,
            hop=min(1.0, window.step / window.length),
            unknown=self.distance_limit is not None,
            device=device,
        )
        self.reset()

    def reset(self) -> None:
        """Return to the state before the first window."""
        self.chains.reset()
        self._alarm = torch.zeros((), dtype=torch.bool, device=self.device)
        # Before monitoring starts, a machine counts as close to training, distance 1, and as unchanged.
        self._log_distances = torch.zeros(max(self.running_means) - 1, dtype=torch.float64, device=self.device)
        self._log_changes = torch.full_like(self._log_distances[: self.running_means[0] - 1], UNCHANGED)

    @torch.no_grad()
    def step(self, probabilities: Tensor, evidence: Mapping[str, Tensor] | None = None) -> Decision:
        """Decide the next windows, in stream order, from their class probabilities and a method's evidence.

        Three kinds of evidence count. ``distance`` tells what is unknown, and ``change`` what is no longer healthy.
        Windows that are not ``ready`` leave the posterior as it was: while a method acquires its reference, the
        machine is healthy by agreement, and the model's output for it is meaningless.
        """
        evidence = evidence or {}
        ready = evidence.get("ready", torch.ones(len(probabilities), dtype=torch.bool)).to(self.device)
        given = torch.softmax(probabilities.to(self.device, torch.float64).log() / self.temperature, dim=1)
        given_for_alarm, shown, change = given, given, None
        if self.distance_limit is not None:
            # Without a distance, every window counts as known.
            distance = evidence.get("distance", torch.zeros(len(given))).to(self.device, torch.float64)
            change = self._smoothed_change(evidence.get("change", torch.zeros(len(given))), ready)
            given, given_for_alarm = (
                add_unknown_state(given, smoothed, self.distance_limit)
                for smoothed in self._smoothed_distances(distance, ready)
            )
            given_for_alarm, shown = (without_changed_health(one, change) for one in (given_for_alarm, given))
        before = self.chains.alarm_posterior[None]
        if not bool(ready.any()):
            kept = before.repeat(len(given), 1)
            return Decision(shown, kept, kept.clone(), self._alarm.expand(len(given)).clone())
        filtered = self.chains.step(given[ready], given_for_alarm[ready])
        # Each window gets the posterior after the last window that was ready, be it this one or an earlier one.
        alarm_posterior = torch.cat([before, filtered.alarm_posterior])[ready.cumsum(dim=0)]
        posterior = alarm_posterior.clone()
        posterior[ready] = filtered.posterior
        if change is not None:
            # Not as evidence for the state now: what counts as unknown would first have to become a fault, which delays
            # its name.
            posterior[ready] = without_changed_health(filtered.posterior, change[ready])
        alarm = latch_alarm(alarm_posterior[:, 0], self._alarm)
        self._alarm = alarm[-1].clone()
        return Decision(shown, posterior, alarm_posterior, alarm)

    def elapse(self, seconds: float) -> None:
        """Account for a pause of the measurement; see :meth:`StateFilter.elapse`."""
        self.chains.elapse(seconds)

    def _smoothed_distances(self, distance: Tensor, ready: Tensor) -> list[Tensor]:
        """Return running geometric means of the distances, over a few and over many window lengths."""
        kept = len(self._log_distances)
        history = torch.cat([self._log_distances, distance[ready].clamp(min=LEAST_DISTANCE).log()])
        means = []
        for count in self.running_means:
            smoothed = distance.clone()
            smoothed[ready] = running_mean(history, count)[kept:].exp()
            means.append(smoothed)
        self._log_distances = history[len(history) - kept :]
        return means

    def _smoothed_change(self, change: Tensor, ready: Tensor) -> Tensor:
        """Return running means of the logarithm of the change over a few window lengths."""
        # A single wild window says no more than one well beyond the limit.
        logs = change.to(self.device, torch.float64).clamp(min=LEAST_DISTANCE).log().clamp(UNCHANGED, -UNCHANGED)
        kept = len(self._log_changes)
        history = torch.cat([self._log_changes, logs[ready]])
        logs[ready] = running_mean(history, self.running_means[0])[kept:]
        self._log_changes = history[len(history) - kept :]
        return logs

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, as copies."""
        own = {
            "standing": self._alarm.clone(),
            "distances": self._log_distances.clone(),
            "changes": self._log_changes.clone(),
        }
        return {**self.chains.state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        # States of versions that compared nothing with a healthy start have no changes.
        state = {"changes": torch.full_like(self._log_changes, UNCHANGED), **state}
        check_state(state, self.state_dict(), "decision")
        self.chains.load_state_dict(state)
        self._log_distances = state["distances"].to(self.device, torch.float64, copy=True)
        self._log_changes = state["changes"].to(self.device, torch.float64, copy=True)
        self._alarm = state["standing"].to(self.device, torch.bool, copy=True)
