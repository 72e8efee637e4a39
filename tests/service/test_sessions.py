from __future__ import annotations

from cgsa.service.sessions import Sessions


def name_of(sessions: Sessions, secret: str) -> str | None:
    session = sessions.find(secret)
    return None if session is None else session.name


def test_a_session_expires() -> None:
    now = 0.0
    sessions = Sessions(lifetime=10.0, clock=lambda: now)
    secret = sessions.open("ann", "digest")
    assert name_of(sessions, secret) == "ann"
    now = 9.9
    assert name_of(sessions, secret) == "ann"
    now = 10.0
    assert name_of(sessions, secret) is None


def test_sessions_end_one_by_one_or_all_of_a_name() -> None:
    sessions = Sessions()
    first, second, other = (
        sessions.open("ann", "digest"),
        sessions.open("ann", "digest"),
        sessions.open("bob", "digest"),
    )
    sessions.close(first)
    assert [name_of(sessions, one) for one in (first, second, other)] == [None, "ann", "bob"]
    sessions.close_all("ann")
    assert [name_of(sessions, one) for one in (second, other)] == [None, "bob"]
    sessions.close("never there")


def test_the_number_of_sessions_is_limited() -> None:
    sessions = Sessions(capacity=2)
    opened = [sessions.open(name, "digest") for name in ("ann", "bob", "cleo")]
    assert [name_of(sessions, one) for one in opened] == [None, "bob", "cleo"]


def test_session_ids_are_long_random_and_not_stored() -> None:
    sessions = Sessions()
    first, second = sessions.open("ann", "digest"), sessions.open("ann", "digest")
    assert first != second
    assert len(first) >= 43
    assert first not in repr(vars(sessions))
    assert name_of(sessions, "\ud800") is None


def test_nobody_logs_others_out_by_logging_in_often() -> None:
    sessions = Sessions(capacity=10, per_name=2)
    other = sessions.open("bob", "digest")
    own = [sessions.open("ann", "digest") for _ in range(20)]
    assert name_of(sessions, other) == "bob"
    assert [name_of(sessions, one) for one in own] == [None] * 18 + ["ann"] * 2
