from __future__ import annotations

from cgsa.service.sessions import Sessions


def test_a_session_expires() -> None:
    now = 0.0
    sessions = Sessions(lifetime=10.0, clock=lambda: now)
    secret = sessions.open("ann")
    assert sessions.name_of(secret) == "ann"
    now = 9.9
    assert sessions.name_of(secret) == "ann"
    now = 10.0
    assert sessions.name_of(secret) is None


def test_sessions_end_one_by_one_or_all_of_a_name() -> None:
    sessions = Sessions()
    first, second, other = sessions.open("ann"), sessions.open("ann"), sessions.open("bob")
    sessions.close(first)
    assert [sessions.name_of(one) for one in (first, second, other)] == [None, "ann", "bob"]
    sessions.close_all("ann")
    assert [sessions.name_of(one) for one in (second, other)] == [None, "bob"]
    sessions.close("never there")


def test_the_number_of_sessions_is_limited() -> None:
    sessions = Sessions(capacity=2)
    opened = [sessions.open(name) for name in ("ann", "bob", "cleo")]
    assert [sessions.name_of(one) for one in opened] == [None, "bob", "cleo"]


def test_session_ids_are_long_random_and_not_stored() -> None:
    sessions = Sessions()
    first, second = sessions.open("ann"), sessions.open("ann")
    assert first != second
    assert len(first) >= 43
    assert first not in repr(vars(sessions))
    assert sessions.name_of("\ud800") is None
