from __future__ import annotations

from dataclasses import replace

import pytest

from cgsa.decide.decision import UNKNOWN
from cgsa.events import NO_DATA, Case
from cgsa.service.dashboard.activity import ActivitySnapshot
from cgsa.service.dashboard.labels import MOOD_WORDS
from cgsa.service.dashboard.summary import MOODS, Mood, Summary, trust_step
from cgsa.service.dashboard.theme import ICONS
from tests.service.dashboard.told import CASE, diagnosis, summary


@pytest.mark.parametrize(
    ("one", "mood"),
    [
        (summary(), "waiting"),
        (summary(diagnosis()), "healthy"),
        (summary(diagnosis(state="wear")), "suspect"),
        (summary(diagnosis(state=UNKNOWN)), "unknown"),
        (summary(diagnosis(state=NO_DATA)), "no data"),
        (summary(diagnosis(), heard=ActivitySnapshot(silent=12.0)), "no data"),
        (summary(diagnosis(), heard=ActivitySnapshot(silent=3.9)), "healthy"),
        (summary(diagnosis(state="wear"), CASE), "alarm"),
        (summary(diagnosis(), replace(CASE, state="cleared")), "over"),
        (summary(diagnosis(), replace(CASE, state="acknowledged")), "acknowledged"),
        (summary(diagnosis(), replace(CASE, shelved_until=99.0)), "shelved"),
    ],
)
def test_mood(one: Summary, mood: Mood) -> None:
    assert one.mood == mood


def test_every_mood_has_a_word_and_a_shape_of_its_own() -> None:
    for found in (MOOD_WORDS, ICONS):
        assert set(found) == set(MOODS)
        assert len(set(found.values())) == len(MOODS)


def test_ranked_by_concern() -> None:
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
    found.sort(key=lambda one: one.concern)
    assert [one.machine for one in found] == [one.machine for one in order]


def test_trust_that_wavers_a_little_changes_no_place() -> None:
    assert [trust_step(trust) for trust in (0.0, 0.49, 0.5, 0.79, 0.8, 1.0, None)] == [0, 0, 1, 1, 2, 2, 1]
