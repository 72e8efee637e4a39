"""What a page says first of a machine, and which machine asks for a look before the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Case, CaseState
from cgsa.live.worker import Worker, WorkerStatus
from cgsa.service.dashboard.activity import ActivitySnapshot
from cgsa.service.ranking import attention_rank

Mood: TypeAlias = Literal[
    "alarm", "over", "acknowledged", "shelved", "unknown", "no data", "suspect", "healthy", "waiting"
]
"""How a machine stands, in a word:

- ``alarm``: an alarm is raised and nobody has answered for it;
- ``over``: it went away before anybody did;
- ``acknowledged``, ``shelved``: somebody looks after it;
- ``unknown``, ``no data``, ``suspect``: the newest verdict, of which no alarm tells yet;
- ``waiting``: nothing has come so far.
"""
MOODS: tuple[Mood, ...] = get_args(Mood)
_MOODS_OF_CASES: Mapping[CaseState, Mood] = {
    "raised": "alarm",
    "acknowledged": "acknowledged",
    "cleared": "over",
    "closed": "healthy",
}
TRUSTED, DOUBTED = 0.8, 0.5
"""From here on, and below here, the estimated share of right windows is called good and low."""
LEAST_SILENCE = 3.0
"""Seconds without a batch that are no silence yet, however short batches are."""


@dataclass(frozen=True, eq=False)
class Summary:
    """How one machine and its watch stand."""

    status: WorkerStatus
    case: Case | None
    """The open case; none where all is well."""
    heard: ActivitySnapshot
    method: str
    classes: tuple[str, ...]
    batch_seconds: float

    @classmethod
    def of(cls, worker: Worker, heard: ActivitySnapshot) -> Summary:
        """Return how a worker stands; nothing is waited for."""
        watch, about = worker.watch, worker.watch.bundle.manifest
        case = watch.alarms.case
        return cls(
            status=worker.status(),
            case=case if case is not None and case.open else None,
            heard=heard,
            method=watch.config.method,
            classes=about.classes,
            batch_seconds=watch.config.batch_size * about.window.step / about.sample_rate,
        )

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return self.status.machine

    @property
    def healthy(self) -> str:
        """Name of the healthy class."""
        return self.classes[0]

    @property
    def verdict(self) -> str | None:
        """The newest state, joined over time; none before the first."""
        told = self.status.diagnosis
        return None if told is None else told.state or told.verdict

    @property
    def silent(self) -> bool:
        """Whether nothing has come for longer than batches take."""
        return self.status.diagnosis is not None and self.heard.silent > max(LEAST_SILENCE, 4 * self.batch_seconds)

    @property
    def mood(self) -> Mood:
        """How it stands, in a word."""
        if self.case is not None:
            if self.case.shelved_until is not None:
                return "shelved"
            return _MOODS_OF_CASES[self.case.state]
        return self._mood_of_verdict()

    @property
    def trust(self) -> float | None:
        """Estimated share of windows that are diagnosed rightly; none where nobody knows."""
        told = self.status.diagnosis
        return None if told is None or told.trust is None else told.trust.accuracy

    @property
    def concern(self) -> tuple[int, int, int, str]:
        """What machines are ranked by, the one to look at first being the smallest.

        Trust counts in coarse steps: it wavers, and rows that change places are hard to read.
        """
        kind, grave, _, machine = attention_rank(self.status, self.case)
        # Beyond what a status knows: who is silent, and who is not healthy though no alarm stands yet.
        kind = kind if self.mood == "healthy" else min(kind, 2)
        return kind, grave, trust_step(self.trust), machine

    def _mood_of_verdict(self) -> Mood:
        verdict = self.verdict
        if verdict is None:
            return "waiting"
        if verdict == NO_DATA or self.silent:
            return "no data"
        if verdict == UNKNOWN:
            return "unknown"
        return "healthy" if verdict == self.healthy else "suspect"


def trust_step(trust: float | None) -> int:
    """Return 0 for low trust, 1 for fair and 2 for good; what nobody knows is fair."""
    if trust is None:
        return 1
    return 0 if trust < DOUBTED else 1 if trust < TRUSTED else 2
