from __future__ import annotations

from cgsa.events import NO_DATA, Case, CaseState, Diagnosis, Severity, Trust
from cgsa.live.watch import WatchCounts
from cgsa.live.worker_status import WorkerStatus
from cgsa.service.ranking import attention_rank


def status(machine: str, verdict: str | None = "healthy", accuracy: float | None = 0.9) -> WorkerStatus:
    trust = Trust(None, None, accuracy, "")
    told = None if verdict is None else Diagnosis(0, machine, 0, 1, 9, verdict, {}, None, None, verdict, None, trust)
    return WorkerStatus(machine, "normal", told, "learning", 0.0, 0, WatchCounts(), 0.0, None)


def case(state: CaseState, severity: Severity = "high", shelved_until: float | None = None) -> Case:
    return Case(1, state, severity, "wear", ("wear",), 0.0, 0.0, shelved_until=shelved_until)


def test_machines_are_ranked_by_urgency() -> None:
    expected = [
        (status("raised"), case("raised")),
        (status("raised but low"), case("raised", "low")),
        (status("acknowledged"), case("acknowledged")),
        (status("shelved"), case("raised", "low", shelved_until=9.0)),
        (status("never heard of", None), None),
        (status("no data", NO_DATA, 0.5), None),
        (status("unknown", "unknown", 0.6), None),
        (status("doubtful", accuracy=0.3), None),
        (status("fine", accuracy=0.9), case("closed")),
    ]
    turned = expected[::-1]
    found = sorted(turned, key=lambda one: attention_rank(*one))
    assert [one.machine for one, _ in found] == [one.machine for one, _ in expected]
