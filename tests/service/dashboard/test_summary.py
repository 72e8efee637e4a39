from __future__ import annotations

from dataclasses import replace

import pytest

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Case, CommissioningState, CommissioningStatus, WaitCause
from cgsa.service.dashboard.activity import ActivitySnapshot
from cgsa.service.dashboard.labels import STATUS_LABELS
from cgsa.service.dashboard.summary import DISPLAY_STATUSES, DisplayStatus, MachineSummary, trust_level
from cgsa.service.dashboard.theme import ICONS
from tests.service.dashboard.examples import CASE, diagnosis, summary


def commissioned(phase: CommissioningState, *, cause: WaitCause | None = None, state: str = "health") -> MachineSummary:
    one = summary(diagnosis(state=state))
    status = CommissioningStatus(phase, cause, "", 1.0, reference=False)
    return replace(one, status=replace(one.status, commissioning=status))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (summary(), "waiting"),
        (summary(diagnosis()), "healthy"),
        (summary(diagnosis(state="wear")), "suspect"),
        (summary(diagnosis(state=UNKNOWN)), "unknown"),
        (summary(diagnosis(state=NO_DATA)), "no data"),
        (commissioned("question"), "unconfirmed"),
        (commissioned("question", state="wear"), "suspect"),
        (commissioned("waiting", cause="standstill"), "unconfirmed"),
        (commissioned("waiting"), "healthy"),
        (commissioned("done"), "healthy"),
        (summary(diagnosis(), activity=ActivitySnapshot(silent_seconds=12.0)), "no data"),
        (summary(diagnosis(), activity=ActivitySnapshot(silent_seconds=3.9)), "healthy"),
        (summary(diagnosis(state="wear"), CASE), "alarm"),
        (summary(diagnosis(), replace(CASE, state="cleared")), "cleared"),
        (summary(diagnosis(), replace(CASE, state="acknowledged")), "acknowledged"),
        (summary(diagnosis(), replace(CASE, shelved_until=99.0)), "shelved"),
    ],
)
def test_display_status(one: MachineSummary, expected: DisplayStatus) -> None:
    assert one.display_status == expected


def test_every_status_has_a_label_and_an_icon_of_its_own() -> None:
    for found in (STATUS_LABELS, ICONS):
        assert set(found) == set(DISPLAY_STATUSES)
        assert len(set(found.values())) == len(DISPLAY_STATUSES)


def test_machines_that_need_attention_come_first() -> None:
    low: Case = replace(CASE, severity="low")
    order = [
        summary(diagnosis(), CASE, machine="grave"),
        summary(diagnosis(), low, machine="light"),
        summary(diagnosis(), replace(CASE, state="acknowledged"), machine="answered"),
        summary(diagnosis(state="wear"), machine="suspect", accuracy=0.2),
        summary(diagnosis(state=UNKNOWN), machine="unknown", accuracy=0.6),
        summary(diagnosis(), machine="doubted", accuracy=0.3),
        summary(diagnosis(), machine="a-good", accuracy=0.99),
        summary(diagnosis(), machine="b-good", accuracy=0.85),
    ]
    found = list(reversed(order))
    found.sort(key=lambda one: one.rank)
    assert [one.machine for one in found] == [one.machine for one in order]


def test_small_changes_of_trust_do_not_change_the_rank() -> None:
    assert [trust_level(trust) for trust in (0.0, 0.49, 0.5, 0.79, 0.8, 1.0, None)] == [0, 0, 1, 1, 2, 2, 1]
