"""From what a method says of single windows to what a person is told: a verdict, and an alarm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from cgsa.decide.alarms import latched
from cgsa.decide.filter import FilterConfig, StageFilter
from cgsa.decide.unknown import with_unknown
from cgsa.nn.bundle import Manifest
from cgsa.nn.joined import ALARM_LENGTHS, LENGTHS, joined_mean
from cgsa.nn.state import check_fits

TINY = 1e-12
UNKNOWN = "unknown"
"""Name of the state that no training held."""


@dataclass(frozen=True, eq=False)
class Decided:
    """What is decided of each window of a batch."""

    single: Tensor
    """(windows, states): how likely every state is by the window alone, calibrated."""
    verdict: Tensor
    """(windows, states): how likely every state is now, unknown last where it can be told."""
    belief: Tensor
    """(windows, states): the same, believed more slowly; alarms rest on it."""
    alarm: Tensor
    """(windows,): whether the alarm stands."""

    @classmethod
    def joined(cls, parts: Sequence[Decided]) -> Decided:
        """Return what was decided of batches in a row, as of one."""
        return cls(*(torch.cat([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    @property
    def state(self) -> Tensor:
        """The state of the verdict."""
        return self.verdict.argmax(dim=1)

    @property
    def alarm_state(self) -> Tensor:
        """The fault that is told of while the alarm stands, else 0, healthy."""
        return torch.where(self.alarm, 1 + self.belief[:, 1:].argmax(dim=1), 0)


class Decision:
    """Joins the windows of one stream; it sees no label and changes no model.

    Parameters
    ----------
    config
        Settings of the filter.
    manifest
        Of the model that diagnoses: classes, windows, and its calibration where it has one.
    device
        Where to work. Batches are small, and a CPU is quicker for them than a GPU.
    """

    def __init__(self, config: FilterConfig, manifest: Manifest, *, device: torch.device | str = "cpu") -> None:
        calibration = manifest.calibration
        self.limit = None if calibration is None else calibration.distance
        self._temperature = 1.0 if calibration is None else calibration.temperature
        self.states = (*manifest.classes, *([] if self.limit is None else [UNKNOWN]))
        """Names of the states."""
        self.device = torch.device(device)
        window = manifest.window
        self._counts = [max(1, round(lengths * window.length / window.step)) for lengths in (LENGTHS, ALARM_LENGTHS)]
        self._filter = StageFilter(
            config,
            states=len(self.states),
            window_seconds=window.length / manifest.sample_rate,
            hop=min(1.0, window.step / window.length),
            device=device,
        )
        self.reset()

    def reset(self) -> None:
        """Go back to before the first window."""
        self._filter.reset()
        self._standing = torch.zeros((), dtype=torch.bool, device=self.device)
        # Before it is watched, a machine is taken for one as near as those of the training: at distance 1.
        self._distances = torch.zeros(max(self._counts) - 1, dtype=torch.float64, device=self.device)

    @torch.no_grad()
    def step(self, probabilities: Tensor, evidence: Mapping[str, Tensor] | None = None) -> Decided:
        """Decide the next windows in stream order from their class probabilities and a method's evidence.

        Of the evidence, ``distance`` tells what is unknown, and windows that are not ``ready`` are left out: while a
        method takes its reference, the machine is healthy by agreement, and what the model says of it is void.
        """
        told = evidence or {}
        ready = told.get("ready", torch.ones(len(probabilities), dtype=torch.bool)).to(self.device)
        begun = int((~ready).sum())
        given = torch.softmax(probabilities.to(self.device, torch.float64).log() / self._temperature, dim=1)
        patient = given
        if self.limit is not None:
            # A method that tells no distance is taken at its word.
            distance = told.get("distance", torch.zeros(len(given))).to(self.device, torch.float64)
            given, patient = (with_unknown(given, joined, self.limit) for joined in self._joined(distance, ready))
        before = self._filter.belief.repeat(begun, 1)
        if begun == len(given):
            return Decided(given, before, before.clone(), self._standing.expand(begun).clone())
        joined = self._filter.step(given[ready], patient[ready])
        verdict, belief = torch.cat([before, joined.verdict]), torch.cat([before, joined.alarm])
        alarm = latched(belief[:, 0], self._standing)
        self._standing = alarm[-1].clone()
        return Decided(given, verdict, belief, alarm)

    def _joined(self, distance: Tensor, ready: Tensor) -> list[Tensor]:
        """Return the geometric means of distances over few and over many window lengths, from the reference on."""
        kept = len(self._distances)
        history = torch.cat([self._distances, distance[ready].clamp(min=TINY).log()])
        found = []
        for count in self._counts:
            joined = distance.clone()
            joined[ready] = joined_mean(history, count)[kept:].exp()
            found.append(joined)
        self._distances = history[len(history) - kept :]
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, as copies."""
        own = {"standing": self._standing.clone(), "distances": self._distances.clone()}
        return {**self._filter.state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state that :meth:`state_dict` returned."""
        check_fits(state, self.state_dict(), "decision")
        self._filter.load_state_dict(state)
        self._distances = state["distances"].to(self.device, torch.float64, copy=True)
        self._standing = state["standing"].to(self.device, torch.bool, copy=True)
