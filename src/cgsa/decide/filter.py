"""Recursive Bayesian filter over the states of a machine that is healthy for long and then has a lasting fault.

The forward algorithm of a hidden Markov model, with class probabilities as
observations. It is causal: its output for a window never changes afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.errors import ConfigError, DataError
from cgsa.nn.markov import forward_posteriors, normalised, transition_matrix
from cgsa.nn.state import check_state

SECONDS_PER_DAY = 86_400.0
MAX_PAUSE_CHANGE = 0.05
"""Probability of a change that a pause between two measurements adds at most, however long it was: time alone must
raise no alarm."""


@dataclass(frozen=True)
class FilterConfig:
    """Settings of the filter."""

    false_alarms_per_day: float = 0.5
    """Target rate; it sets the probability of an onset, hence how much evidence an alarm needs."""
    verdict_change: float = 0.05
    """Probability that the state changes within one window length, as the fast chain assumes."""
    repair: float = 0.1
    """Probability that a fault disappears or becomes another one, relative to that of an onset."""
    start_healthy: float = 0.99
    """Probability of the healthy state before the first window."""
    least_probability: float = 1e-4
    """Least probability that a single window gives any class, however certain the model is: it may be wrong."""

    def __post_init__(self) -> None:
        if not 0 < self.false_alarms_per_day < math.inf:
            raise ConfigError(f"false_alarms_per_day {self.false_alarms_per_day:g}; expected above 0 and finite")
        if not 0 < self.verdict_change < 1:
            raise ConfigError(f"verdict_change {self.verdict_change:g}; expected above 0 and below 1")
        # Without repair a probability that reaches zero stays there, and the chains could underflow.
        if not (0 < self.repair <= 1 and 0 < self.start_healthy <= 1):
            raise ConfigError(
                f"repair {self.repair:g}, start_healthy {self.start_healthy:g}; expected above 0 and at most 1"
            )
        if not 0 < self.least_probability < 0.5:
            raise ConfigError(f"least_probability {self.least_probability:g}; expected above 0 and below 0.5")


@dataclass(frozen=True, eq=False)
class FilterOutput:
    """Posteriors after each window of a batch, given all windows up to it."""

    posterior: Tensor
    """(windows, states): from the fast chain, for the state now."""
    alarm_posterior: Tensor
    """(windows, states): from the slow chain, for alarms."""


class StateFilter:
    """Two chains over the same evidence: a fast one for the state now, a slow one for alarms that are rarely false.

    Each chain is updated by b_t ~ (b_{t-1} A) * e_t ** hop. Neighbouring
    windows overlap, so each adds only its new share of evidence. The posterior
    of the state now is the fast chain's belief of one window length ago, from
    before any sample of this window, times the full evidence of the window. So
    nothing counts twice, and one clear window decides at once.

    While calibrated evidence comes from a healthy machine, the alarm chain
    crosses 0.5 no more often than the target rate, however strong or weak the
    evidence is: the odds are those of Shiryaev and Roberts. Weak evidence
    crosses it back and forth, though, so an alarm once raised should stay
    active until the probability of a fault is much lower.

    Parameters
    ----------
    states
        Number of states; state 0 is healthy.
    hop
        Step from one window to the next, as a fraction of the window length.
    temperature
        Divisor of the log-probabilities that calibrates them.
    unknown
        Whether the last state is unknown, so that it may turn out to be one of the faults.
    """

    def __init__(
        self,
        config: FilterConfig,
        *,
        states: int,
        window_seconds: float,
        hop: float,
        temperature: float = 1.0,
        unknown: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        if states < 2 or not 0 < hop <= 1:
            raise ConfigError(f"{states} states at hop {hop:g}; expected at least 2 and above 0 up to 1")
        if not 0 < temperature < math.inf:
            raise ConfigError(f"temperature {temperature:g}; expected above 0 and finite")
        if config.least_probability * states >= 1:
            raise ConfigError(
                f"least_probability {config.least_probability:g} for {states} states; expected below {1 / states:g}"
            )
        onset = onset_probability(config, window_seconds)
        self._window_changes = onset, config.verdict_change
        self.window_seconds = window_seconds
        self.config = config
        self.states = states
        self.hop = hop
        self.temperature = temperature
        self.lag = round(1 / hop)
        """Steps per window length."""
        self.device = torch.device(device)
        change = (onset * hop, config.verdict_change * hop)
        self._unknown = unknown
        self.transitions = torch.stack([self._transition(one) for one in change])
        self.window_transition = self._transition(config.verdict_change)
        # The dynamic range of any product of the transition matrices; its square must be a normal double.
        smallest = float(self.transitions.min()) ** 2 * config.least_probability
        if smallest < 1e-150:
            raise ConfigError(
                f"false_alarms_per_day {config.false_alarms_per_day:g}, verdict_change {config.verdict_change:g}, "
                f"repair {config.repair:g}, least_probability {config.least_probability:g} at hop {hop:g}: "
                f"probabilities too close to 0 or 1 for double precision; expected less extreme ones"
            )
        self.reset()

    def reset(self) -> None:
        """Return to the prior before the first window."""
        start = torch.full((self.states,), (1 - self.config.start_healthy) / (self.states - 1), dtype=torch.float64)
        start[0] = self.config.start_healthy
        self._slow = start.to(self.device)
        self._fast = self._slow.repeat(self.lag, 1)
        """Beliefs of the fast chain over the last window length, oldest first."""

    @property
    def alarm_posterior(self) -> Tensor:
        """Posterior of the alarm chain after the windows so far."""
        return self._slow.clone()

    @torch.no_grad()
    def step(self, probabilities: Tensor, for_alarm: Tensor | None = None) -> FilterOutput:
        """Update with the state probabilities (windows, states) of the next windows, in stream order.

        The alarm chain uses ``for_alarm`` instead, if given. Invalid probabilities raise before the filter changes.
        """
        evidence = self._evidence(probabilities)
        alarm_evidence = evidence if for_alarm is None else self._evidence(for_alarm)
        start = torch.stack([self._slow, self._fast[-1]])
        likelihoods = torch.stack([alarm_evidence, evidence], dim=1).pow(self.hop)
        beliefs = forward_posteriors(start, self.transitions * likelihoods[:, :, None, :])
        slow, fast = beliefs[:, 0], torch.cat([self._fast, beliefs[:, 1]])
        # The first belief kept is that of one window length before the first window of the batch.
        prior = fast[: len(evidence)] @ self.window_transition
        self._slow, self._fast = slow[-1].clone(), fast[-self.lag :].clone()
        return FilterOutput(normalised(prior * evidence), slow.clone())

    @torch.no_grad()
    def elapse(self, seconds: float) -> None:
        """Account for a pause of the measurement, in which the state may have changed unseen.

        Each chain is moved on by the change that it assumes for that time, 1 - (1 - h) ** (seconds / window length)
        for its probability h per window length, but by ``MAX_PAUSE_CHANGE`` at most. The first window after the pause
        shares no sample with those before, so its prior is the newest belief.
        """
        windows = seconds / self.window_seconds
        changes = (min(-math.expm1(windows * math.log1p(-change)), MAX_PAUSE_CHANGE) for change in self._window_changes)
        slow, fast = (self._transition(one) for one in changes)
        self._slow = normalised(self._slow @ slow)
        self._fast = normalised(self._fast[-1] @ fast).repeat(self.lag, 1)

    def _transition(self, change: float) -> Tensor:
        return transition_matrix(change, self.config.repair, self.states, unknown=self._unknown).to(self.device)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, as copies."""
        return {"alarm": self._slow.clone(), "verdicts": self._fast.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Resume from a state that :meth:`state_dict` returned."""
        check_state(state, self.state_dict(), "filter")
        self._slow = state["alarm"].to(self.device, torch.float64, copy=True)
        self._fast = state["verdicts"].to(self.device, torch.float64, copy=True)

    def _evidence(self, probabilities: Tensor) -> Tensor:
        shape = tuple(probabilities.shape)
        if len(shape) != 2 or shape[0] == 0 or shape[1] != self.states:
            raise DataError(f"probabilities of shape {shape}; expected (windows, {self.states})")
        # NaN compares false. The tolerance leaves room for sums of half-precision numbers.
        valid = (probabilities >= 0).all(dim=1) & ((probabilities.double().sum(dim=1) - 1).abs() < 0.01)
        if not bool(valid.all()):
            bad = int((~valid).sum())
            raise DataError(f"{bad} of {len(valid)} windows have no probabilities; expected none below 0 and sums of 1")
        given = probabilities.to(self.device, torch.float64)
        return torch.softmax(given.log() / self.temperature, dim=1).clamp(min=self.config.least_probability)


def onset_probability(config: FilterConfig, window_seconds: float) -> float:
    """Return the probability of a fault onset within one window length, as the alarm chain assumes."""
    if not 0 < window_seconds < math.inf:
        raise ConfigError(f"windows of {window_seconds:g} s; expected above 0 and finite")
    onset = config.false_alarms_per_day * window_seconds / SECONDS_PER_DAY
    if onset >= 1:
        raise ConfigError(
            f"false_alarms_per_day {config.false_alarms_per_day:g} with windows of {window_seconds:g} s; "
            f"expected less than one false alarm per window, {SECONDS_PER_DAY / window_seconds:g} per day"
        )
    return onset


def expected_delay(config: FilterConfig, *, evidence: float, window_seconds: float, states: int = 2) -> float:
    """Return the seconds from a fault onset until the alarm chain finds the fault more likely than health.

    The odds of the fault start from zero. Each window adds those of an
    onset, o = h / (1 - h) / (states - 1), and multiplies by exp(evidence):
    after n windows they are o (exp(n evidence) - 1) / (1 - exp(-evidence)),
    and they cross 1 at n = ln(1 + (1 - exp(-evidence)) / o) / evidence.

    This neglects that evidence scatters from window to window, that windows at
    the onset contain only part of the fault, that windows overlap (with a small
    hop the delay is up to ln(evidence / (1 - exp(-evidence))) / evidence
    windows longer), the odds left over from before the onset, repair, and the
    probability of the other faults.

    Parameters
    ----------
    evidence
        Nats that each independent window adds for the fault and against health, as the filter counts them:
        after ``temperature``, and never above ``-ln(least_probability)``.
    states
        Number of states; all faults share the probability of an onset.
    """
    _check_evidence(evidence, states)
    onset = onset_probability(config, window_seconds)
    odds = onset / (1 - onset) / (states - 1)
    return math.log1p(-math.expm1(-evidence) / odds) / evidence * window_seconds


def false_alarms_for_delay(delay: float, *, evidence: float, window_seconds: float, states: int = 2) -> float:
    """Return the ``false_alarms_per_day`` at which a fault is expected to raise the alarm after ``delay`` seconds.

    The inverse of :func:`expected_delay`, which lists what both neglect. It
    answers how many false alarms a desired delay costs; the result belongs in
    :class:`FilterConfig`. Each further window of delay makes false alarms
    about exp(evidence) times rarer.

    >>> rate = false_alarms_for_delay(2.0, evidence=1.5, window_seconds=0.2)
    >>> round(expected_delay(FilterConfig(false_alarms_per_day=rate), evidence=1.5, window_seconds=0.2), 6)
    2.0
    """
    _check_evidence(evidence, states)
    if not (0 < delay < math.inf and 0 < window_seconds < math.inf):
        raise ConfigError(f"delay {delay:g} s with windows of {window_seconds:g} s; expected above 0 and finite")
    # (exp(n evidence) - 1) would overflow for long delays; written this way it cannot.
    gained = delay / window_seconds * evidence
    odds = math.expm1(-evidence) / math.expm1(-gained) * math.exp(-gained) * (states - 1)
    return odds / (1 + odds) * SECONDS_PER_DAY / window_seconds


def _check_evidence(evidence: float, states: int) -> None:
    if not 0 < evidence < math.inf or states < 2:
        raise ConfigError(f"evidence {evidence:g} for {states} states; expected above 0 and finite, and at least 2")
