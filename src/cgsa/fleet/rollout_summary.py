"""How two models compare on the same live signal, without labels: what a roll-out is decided by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cgsa.events import Diagnosis
from cgsa.live.store import RowSelection, Snapshot
from cgsa.live.store.pages import MAX_PAGE


@dataclass(frozen=True)
class ModelRecord:
    """What one model said about a machine."""

    machine: str
    """Name of its results."""
    seconds: float = 0.0
    """Signal that it has diagnosed."""
    accuracy: float | None = None
    """Estimated share of correct diagnoses, mean over the signal; None if the model cannot say."""
    alarm_share: float = 0.0
    """Share of the signal with an active alarm."""
    faulty_share: float = 0.0
    """Share of the signal in a state other than health."""


@dataclass(frozen=True)
class MachineComparison:
    """Two models on the signal of one machine, over the time that both have diagnosed."""

    machine: str
    in_charge: ModelRecord
    shadow: ModelRecord
    common_seconds: float
    disagreement: float | None
    """Share of the common time in which their states differ; None without common time."""


@dataclass(frozen=True)
class RolloutSummary:
    """All machines of a roll-out."""

    machines: tuple[MachineComparison, ...]

    @property
    def common_seconds(self) -> float:
        """Machine-seconds that both models have diagnosed."""
        return sum(one.common_seconds for one in self.machines)

    @property
    def disagreement(self) -> float | None:
        """Share of the common time in which states differ, over all machines."""
        total = self.common_seconds
        return sum(one.common_seconds * (one.disagreement or 0.0) for one in self.machines) / total if total else None


def summarise_rollout(snapshot: Snapshot, pairs: Mapping[str, str]) -> RolloutSummary:
    """Compare the models of machines and of their shadows; ``pairs`` has the shadow of each machine."""
    return RolloutSummary(tuple(_compare(snapshot, machine, shadow) for machine, shadow in sorted(pairs.items())))


def _compare(snapshot: Snapshot, machine: str, shadow: str) -> MachineComparison:
    theirs = [*_diagnoses(snapshot, shadow, float("-inf"))]
    if not theirs:
        return MachineComparison(machine, ModelRecord(machine), ModelRecord(shadow), 0.0, None)
    ours = [one for one in _diagnoses(snapshot, machine, theirs[0].begin) if one.begin >= theirs[0].begin]
    common, differing = _common_time(ours, theirs)
    return MachineComparison(
        machine, _record(machine, ours), _record(shadow, theirs), common, differing / common if common else None
    )


def _diagnoses(snapshot: Snapshot, machine: str, begin: float) -> Iterator[Diagnosis]:
    """Yield diagnoses in order of time."""
    cursor, more = None, True
    while more:
        pick = RowSelection(begin=begin, after=cursor, limit=MAX_PAGE, newest_first=False)
        page = snapshot.diagnoses(machine, pick=pick)
        yield from (row.diagnosis for row in page.rows)
        cursor, more = page.cursor, page.more


def _record(machine: str, diagnoses: list[Diagnosis]) -> ModelRecord:
    seconds = sum(_seconds(one) for one in diagnoses)
    if not seconds:
        return ModelRecord(machine)
    known = [(_seconds(one), one.trust.accuracy) for one in diagnoses if one.trust is not None]
    estimated = [(length, value) for length, value in known if value is not None]
    total = sum(length for length, _ in estimated)
    return ModelRecord(
        machine,
        seconds,
        sum(length * value for length, value in estimated) / total if total else None,
        sum(_seconds(one) for one in diagnoses if one.alarm is not None) / seconds,
        sum(_seconds(one) for one in diagnoses if _state(one) != next(iter(one.probabilities), None)) / seconds,
    )


def _common_time(ours: list[Diagnosis], theirs: list[Diagnosis]) -> tuple[float, float]:
    """Return the time that is in batches of both, and the part of it in which their states differ."""
    common = differing = 0.0
    index = 0
    for one in ours:
        # Batches of one model do not overlap by more than a window, so those that have ended are done with.
        while index < len(theirs) and theirs[index].end <= one.begin:
            index += 1
        later = index
        while later < len(theirs) and theirs[later].begin < one.end:
            other = theirs[later]
            shared = max(0.0, min(one.end, other.end) - max(one.begin, other.begin))
            common += shared
            differing += shared * (_state(one) != _state(other))
            later += 1
    return common, differing


def _seconds(diagnosis: Diagnosis) -> float:
    return diagnosis.end - diagnosis.begin


def _state(diagnosis: Diagnosis) -> str:
    return diagnosis.verdict if diagnosis.state is None else diagnosis.state
