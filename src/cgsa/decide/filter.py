"""Decisions joined over time, for machines that are healthy for long and then have one fault that stays.

A causal hidden-Markov filter over class probabilities. It looks back only, so
what it says of a window never changes afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cgsa.errors import ConfigError, DataError
from cgsa.nn.state import check_fits

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class FilterConfig:
    """Settings of the filter."""

    false_alarms_per_day: float = 0.5
    """Wanted; it sets the chance of an onset, hence how much evidence an alarm takes."""
    verdict_change: float = 0.05
    """Chance that the state changes within one window's length, as the verdict believes it."""
    repair: float = 0.1
    """A fault goes away, or turns into another, this much more seldom than one sets in."""
    start_healthy: float = 0.99
    """Belief in the healthy state before the first window."""
    least_probability: float = 1e-4
    """No class is given less by a single window, however sure the model is: it may be wrong."""

    def __post_init__(self) -> None:
        if not 0 < self.false_alarms_per_day < math.inf:
            raise ConfigError(f"false_alarms_per_day {self.false_alarms_per_day:g}; expected above 0 and finite")
        if not 0 < self.verdict_change < 1:
            raise ConfigError(f"verdict_change {self.verdict_change:g}; expected above 0 and below 1")
        # Without any repair a belief once lost is lost for good, and the chains could run out of numbers.
        if not (0 < self.repair <= 1 and 0 < self.start_healthy <= 1):
            raise ConfigError(
                f"repair {self.repair:g}, start_healthy {self.start_healthy:g}; expected above 0 and at most 1"
            )
        if not 0 < self.least_probability < 0.5:
            raise ConfigError(f"least_probability {self.least_probability:g}; expected above 0 and below 0.5")


@dataclass(frozen=True, eq=False)
class Joined:
    """What the filter says of each window of a batch, in the light of all before it."""

    verdict: Tensor
    """(windows, states): quick; what is most likely now."""
    alarm: Tensor
    """(windows, states): slow; what an alarm may rest on."""


class StageFilter:
    """Two chains over the same evidence: one for a quick verdict, one for an alarm that is seldom false.

    Each chain moves by b_t ~ (b_{t-1} A) * e_t ** hop. Neighbouring windows
    overlap, so one window adds only its new share of evidence. The verdict
    takes the belief from before anything in the window was seen, one window
    length ago, times all that the window says. So nothing counts twice, and
    one clear window decides at once.

    While calibrated evidence comes from a healthy machine, the alarm chain
    passes 0.5 no more often than wanted, however strong or weak the evidence
    is: the odds are those of Shiryaev and Roberts. Weak evidence passes it to
    and fro, though, so an alarm once raised should stand until the chain
    believes much less.

    Parameters
    ----------
    config
        Settings of the filter.
    states
        How many classes there are; class 0 is healthy.
    window_seconds
        Length of a window.
    hop
        Step from one window to the next as a share of their length.
    temperature
        What the log-probabilities are divided by, to make them calibrated.
    device
        Where the filter works.
    """

    def __init__(
        self,
        config: FilterConfig,
        *,
        states: int,
        window_seconds: float,
        hop: float,
        temperature: float = 1.0,
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
        onset = onset_chance(config, window_seconds)
        self.config = config
        self.states = states
        self.hop = hop
        self.temperature = temperature
        self.lag = round(1 / hop)
        """Steps in the length of a window."""
        self.device = torch.device(device)
        chances = (onset * hop, config.verdict_change * hop)
        self._moves = torch.stack([transition(chance, config.repair, states) for chance in chances]).to(self.device)
        self._window_move = transition(config.verdict_change, config.repair, states).to(self.device)
        # Any product of the chains' matrices spans no more than this; its square must be a normal double.
        span = float(self._moves.min()) ** 2 * config.least_probability
        if span < 1e-150:
            raise ConfigError(
                f"false_alarms_per_day {config.false_alarms_per_day:g}, verdict_change {config.verdict_change:g}, "
                f"repair {config.repair:g}, least_probability {config.least_probability:g} at hop {hop:g}: "
                f"chances too small, or too near to 1, for double precision; expected less extreme ones"
            )
        self.reset()

    def reset(self) -> None:
        """Go back to the belief before the first window."""
        start = torch.full((self.states,), (1 - self.config.start_healthy) / (self.states - 1), dtype=torch.float64)
        start[0] = self.config.start_healthy
        self._alarm = start.to(self.device)
        self._verdicts = self._alarm.repeat(self.lag, 1)

    @property
    def belief(self) -> Tensor:
        """What the alarm chain believes after the windows so far."""
        return self._alarm.clone()

    @torch.no_grad()
    def step(self, probabilities: Tensor, for_alarm: Tensor | None = None) -> Joined:
        """Join the probabilities (windows, states) of the next windows, in stream order, to all before them.

        The alarm chain takes ``for_alarm`` instead, where it is given. Probabilities that cannot be used raise before
        anything of the filter changes.
        """
        evidence = self._evidence(probabilities)
        patient = evidence if for_alarm is None else self._evidence(for_alarm)
        start = torch.stack([self._alarm, self._verdicts[-1]])
        beliefs = propagate_beliefs(
            start, self._moves * torch.stack([patient, evidence], dim=1).pow(self.hop)[:, :, None, :]
        )
        alarm, verdicts = beliefs[:, 0], torch.cat([self._verdicts, beliefs[:, 1]])
        # The first state held is that of one window length before the first window of the batch.
        before = verdicts[: len(evidence)] @ self._window_move
        self._alarm, self._verdicts = alarm[-1].clone(), verdicts[-self.lag :].clone()
        return Joined(_normalised(before * evidence), alarm.clone())

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, as copies."""
        return {"alarm": self._alarm.clone(), "verdicts": self._verdicts.clone()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        check_fits(state, self.state_dict(), "filter")
        self._alarm = state["alarm"].to(self.device, torch.float64, copy=True)
        self._verdicts = state["verdicts"].to(self.device, torch.float64, copy=True)

    def _evidence(self, probabilities: Tensor) -> Tensor:
        self._check_probabilities(probabilities)
        given = probabilities.to(self.device, torch.float64)
        return torch.softmax(given.log() / self.temperature, dim=1).clamp(min=self.config.least_probability)

    def _check_probabilities(self, probabilities: Tensor) -> None:
        shape = tuple(probabilities.shape)
        if len(shape) != 2 or shape[0] == 0 or shape[1] != self.states:
            raise DataError(f"probabilities of shape {shape}; expected (windows, {self.states})")
        # NaN compares false. The slack leaves room for sums of half-precision numbers.
        sound = (probabilities >= 0).all(dim=1) & ((probabilities.double().sum(dim=1) - 1).abs() < 0.01)
        if not bool(sound.all()):
            bad = int((~sound).sum())
            raise DataError(f"{bad} of {len(sound)} windows have no probabilities; expected none below 0 and sums of 1")


def onset_chance(config: FilterConfig, window_seconds: float) -> float:
    """Return the chance, as the alarm believes it, that a fault sets in within one window's length."""
    if not 0 < window_seconds < math.inf:
        raise ConfigError(f"windows of {window_seconds:g} s; expected above 0 and finite")
    chance = config.false_alarms_per_day * window_seconds / SECONDS_PER_DAY
    if chance >= 1:
        raise ConfigError(
            f"false_alarms_per_day {config.false_alarms_per_day:g} with windows of {window_seconds:g} s; "
            f"expected less than one false alarm a window, {SECONDS_PER_DAY / window_seconds:g} a day"
        )
    return chance


def transition(chance: float, repair: float, states: int) -> Tensor:
    """Return A: from healthy any fault sets in with ``chance``; from a fault all others share ``chance * repair``."""
    leave = torch.full((states,), chance * repair, dtype=torch.float64)
    leave[0] = chance
    moves = (leave / (states - 1))[:, None].repeat(1, states)
    moves.diagonal().copy_(1 - leave)
    return moves


def propagate_beliefs(start: Tensor, moves: Tensor) -> Tensor:
    """Return the beliefs start M_1 ... M_t after each move, normalised, without a walk from window to window.

    Moves are joined in pairs, the pairs are followed in the same way, and that
    gives every second belief; each of the others is one move further. All
    numbers are positive, so nothing cancels and the pairs need only be scaled.

    Parameters
    ----------
    start
        Beliefs before the first move, (chains, states).
    moves
        The matrices M_t, (windows, chains, states, states).
    """
    before = start[None]
    beliefs = start.new_empty(moves.shape[:3])
    if len(moves) > 1:
        pairs = moves[:-1:2] @ moves[1::2]
        beliefs[1::2] = propagate_beliefs(start, pairs / pairs.amax(dim=(-2, -1), keepdim=True))
        before = torch.cat([before, beliefs[1:-1:2]])
    beliefs[::2] = _normalised((before[:, :, None] @ moves[::2])[:, :, 0])
    return beliefs


def expected_delay(config: FilterConfig, *, evidence: float, window_seconds: float, states: int = 2) -> float:
    """Return the seconds from a fault until the alarm chain believes in it more than in health.

    The odds of the fault start from nothing. Each window adds those of an
    onset, o = h / (1 - h) / (states - 1), and multiplies by exp(evidence):
    after n windows they are o (exp(n evidence) - 1) / (1 - exp(-evidence)),
    and they pass 1 at n = ln(1 + (1 - exp(-evidence)) / o) / evidence.

    This neglects that evidence scatters from window to window, that windows at
    the onset hold only a part of the fault, that they overlap (with a small hop
    the delay is up to ln(evidence / (1 - exp(-evidence))) / evidence windows
    longer), the odds left over from before the onset, repair, and belief in
    the other faults.

    Parameters
    ----------
    config
        Settings of the filter.
    evidence
        Nats that every independent window brings for the fault and against health, as the filter counts them:
        after ``temperature``, and never above ``-ln(least_probability)``.
    window_seconds
        Length of a window.
    states
        How many classes there are; all faults share the chance of an onset.
    """
    _check_evidence(evidence, states)
    chance = onset_chance(config, window_seconds)
    odds = chance / (1 - chance) / (states - 1)
    return math.log1p(-math.expm1(-evidence) / odds) / evidence * window_seconds


def false_alarms_for_delay(delay: float, *, evidence: float, window_seconds: float, states: int = 2) -> float:
    """Return the ``false_alarms_per_day`` at which a fault is expected to raise the alarm after ``delay`` seconds.

    The inverse of :func:`expected_delay`, which tells what both neglect: ask
    here what a wanted delay costs in false alarms, and put the answer into
    :class:`FilterConfig`. Every further window of patience makes false alarms
    about exp(evidence) times rarer.

    >>> rate = false_alarms_for_delay(2.0, evidence=1.5, window_seconds=0.2)
    >>> round(expected_delay(FilterConfig(false_alarms_per_day=rate), evidence=1.5, window_seconds=0.2), 6)
    2.0
    """
    _check_evidence(evidence, states)
    if not (0 < delay < math.inf and 0 < window_seconds < math.inf):
        raise ConfigError(f"delay {delay:g} s with windows of {window_seconds:g} s; expected above 0 and finite")
    # (exp(n evidence) - 1) would overflow for patient alarms; written this way it cannot.
    gained = delay / window_seconds * evidence
    odds = math.expm1(-evidence) / math.expm1(-gained) * math.exp(-gained) * (states - 1)
    return odds / (1 + odds) * SECONDS_PER_DAY / window_seconds


def _check_evidence(evidence: float, states: int) -> None:
    if not 0 < evidence < math.inf or states < 2:
        raise ConfigError(f"evidence {evidence:g} for {states} states; expected above 0 and finite, and at least 2")


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(dim=-1, keepdim=True)
