"""Joins windows over time into a state of the machine and an alarm: a filter over the states with two chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .package import Doubles, EdgePackage, Flags


@dataclass(frozen=True)
class JoinedBatch:
    """What is decided after the last window of a batch, and what is known of each window."""

    state: str
    alarm: str | None
    window_probabilities: Doubles
    """(windows, states): calibrated, before the filter."""


class StateChains:
    """The fast chain follows the state now; the slow one, on which alarms are based, is rarely wrong."""

    def __init__(self, package: EdgePackage) -> None:
        found = package.description["decision"]
        self.states: list[str] = found["states"]
        self._temperature: float = found["temperature"]
        self.limit: float | None = found["distance_limit"]
        """Distance from which a window belongs to no known state; None if the model knows none."""
        self._sharpness, self._least = found["unknown_sharpness"], found["least_probability"]
        self._least_distance, self._unchanged = found["least_distance"], found["unchanged"]
        self._hop, self._lag, self._counts = found["hop"], found["lag"], found["running_means"]
        self._raise, self._clear = found["alarm"]["raise"], found["alarm"]["clear"]
        self._slow_step, self._fast_step, self._window_step = (
            np.array(found["transitions"][name]) for name in ("alarm", "state", "window")
        )
        self._slow = np.array(found["start"])
        self._fast = np.tile(self._slow, (self._lag, 1))
        self._distances = np.zeros(max(self._counts) - 1)
        self._changes = np.full(self._counts[0] - 1, self._unchanged)
        self._active = False

    def add(
        self, probabilities: Doubles, distance: Doubles | None, ready: Flags, change: Doubles | None = None
    ) -> JoinedBatch:
        """Decide the next windows; those that are not ready leave everything as it was."""
        with np.errstate(divide="ignore"):
            given = softmax(np.log(probabilities) / self._temperature)
        views, changed = [given, given], np.zeros(len(given))
        if self.limit is not None:
            far = np.zeros(len(given)) if distance is None else distance
            logs = self._mean_change(np.zeros(len(given)) if change is None else change, ready)
            changed = sigmoid(self._sharpness * logs)
            now, slow = (self._with_unknown(given, one) for one in self._mean_distances(far, ready))
            views = [now, _without_changed_health(slow, changed)]
        state = self._slow
        for now, slow, moved, counts in zip(*views, changed, ready, strict=True):
            state = self._slow
            if counts:
                prior = self._fast[0] @ self._window_step
                evidence, for_alarm = self._evidence(now), self._evidence(slow)
                self._slow = _normalised(self._slow @ self._slow_step * for_alarm**self._hop)
                newest = _normalised(self._fast[-1] @ self._fast_step * evidence**self._hop)
                self._fast = np.concatenate([self._fast[1:], newest[None]])
                state = _without_changed_health(_normalised(prior * evidence), moved)
            if self._slow[0] < self._raise:
                self._active = True
            elif self._slow[0] > self._clear:
                self._active = False
        alarm = self.states[1 + int(self._slow[1:].argmax())] if self._active else None
        return JoinedBatch(self.states[int(state.argmax())], alarm, _without_changed_health(views[0], changed))

    def _evidence(self, probabilities: Doubles) -> Doubles:
        return np.asarray(np.maximum(probabilities, self._least))

    def _mean_distances(self, distance: Doubles, ready: Flags) -> list[Doubles]:
        """Return geometric means of the distances over a few and over many window lengths."""
        history = np.concatenate([self._distances, np.log(np.maximum(distance[ready], self._least_distance))])
        means = []
        for count in self._counts:
            smoothed = distance.copy()
            smoothed[ready] = np.exp(running_means(history, count)[len(self._distances) :])
            means.append(smoothed)
        self._distances = history[len(history) - len(self._distances) :]
        return means

    def _mean_change(self, change: Doubles, ready: Flags) -> Doubles:
        """Return means of the logarithm of the change over a few window lengths."""
        logs: Doubles = np.log(np.maximum(change, self._least_distance)).clip(self._unchanged, -self._unchanged)
        history = np.concatenate([self._changes, logs[ready]])
        logs[ready] = running_means(history, self._counts[0])[len(self._changes) :]
        self._changes = history[len(history) - len(self._changes) :]
        return logs

    def _with_unknown(self, given: Doubles, distance: Doubles) -> Doubles:
        """Return probabilities with one more state: that the window belongs to none of the classes."""
        logs = self._sharpness * np.log(np.maximum(distance, self._least_distance) / self.limit)
        unknown = sigmoid(logs)[:, None]
        return np.concatenate([given * (1 - unknown), unknown], axis=1)


def running_means(values: Doubles, count: int) -> Doubles:
    """Return the mean of each value and the ``count - 1`` values before it, or of all of them if there are fewer."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(sums))
    begins = np.maximum(ends - count, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins))


def softmax(values: Doubles) -> Doubles:
    """Return the softmax over the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def sigmoid(values: Doubles) -> Doubles:
    """Return the logistic function."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)))


def _without_changed_health(probabilities: Doubles, changed: Doubles) -> Doubles:
    """Return probabilities, unknown last, in which a machine that is not as at its healthy start is not healthy."""
    found = probabilities.copy()
    moved = found[..., 0] * changed
    found[..., 0] -= moved
    found[..., -1] += moved
    return found


def _normalised(weights: Doubles) -> Doubles:
    return np.asarray(weights / weights.sum())
