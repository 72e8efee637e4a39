from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from cgsa.errors import DataError
from cgsa.live.store import Store, StoredToken
from cgsa.service.auth import FAILURES_PER_MINUTE, Authenticator, check_same_site
from cgsa.service.rights import ROLES, NotAllowedError, Person
from cgsa.service.sessions import COOKIE, Sessions


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as found:
        yield found


@pytest.fixture
def authenticator(store: Store) -> Authenticator:
    return Authenticator(store)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authenticator, str]]:
    with Store(tmp_path_factory.mktemp("shared") / "store.sqlite") as found:
        authenticator = Authenticator(found)
        yield authenticator, authenticator.create_token("ann", "admin")


def connection(method: str = "GET", client: str = "10.0.0.1", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "method": method, "headers": raw, "client": (client, 5)})


def bearer(token: str, **more: Any) -> HTTPConnection:
    return connection(authorization=f"Bearer {token}", **more)


def test_a_token_is_valid_until_it_is_revoked(authenticator: Authenticator) -> None:
    token = authenticator.create_token("ann@plant.example", "operator")
    assert authenticator.by_token(token) == Person("ann@plant.example", "operator")
    authenticator.revoke("ann@plant.example")
    assert authenticator.by_token(token) is None
    with pytest.raises(DataError, match=r"there is a token 'ann@plant\.example' already"):
        authenticator.create_token("ann@plant.example", "viewer")


def test_nothing_of_a_secret_is_stored(authenticator: Authenticator, store: Store) -> None:
    token = authenticator.create_token("ann", "admin")
    again = authenticator.create_token("bob", "admin")
    secret = token.rpartition(".")[2]
    assert len(secret) == 43  # 256 bits
    store.flush()
    with store.read() as snapshot:
        kept = snapshot.tokens()
    assert secret not in repr(kept)
    assert kept[0].digest.split("$")[1] != kept[1].digest.split("$")[1], "each has its own salt"
    assert token != again
    for file in store.files[0].parent.iterdir():
        assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("name", ["", "a b", ".ann", "ann\n", "x" * 65, "ann/../bob", "service", "nobody", "änn"])
def test_misleading_names_are_refused(authenticator: Authenticator, name: str) -> None:
    with pytest.raises(DataError, match="expected a name"):
        authenticator.create_token(name, "viewer")


def test_an_unknown_role_is_refused(authenticator: Authenticator) -> None:
    with pytest.raises(DataError, match="role 'root'; expected one of sender, viewer, operator, admin"):
        authenticator.create_token("ann", "root")  # type: ignore[arg-type] # as a caller without types would


@given(st.text(max_size=80), st.data())
def test_no_other_text_is_a_valid_token(shared: tuple[Authenticator, str], text: str, data: st.DataObject) -> None:
    authenticator, token = shared
    assert authenticator.by_token(text) is None
    place = data.draw(st.integers(0, len(token) - 1))
    changed = token[:place] + data.draw(st.characters()) + token[place + 1 :]
    assert (authenticator.by_token(changed) is None) == (changed != token)
    for other in (token[:-1], token + "A", token.replace("ann", "bob"), f"{token} ", token.upper()):
        assert authenticator.by_token(other) is None


def test_a_malformed_digest_matches_no_secret(authenticator: Authenticator, store: Store) -> None:
    secret = "A" * 43
    for number, digest in enumerate(("", "sha256", "sha256$zz$00", "sha256$00$", "plain$00$" + secret)):
        store.add_token(StoredToken(f"t{number}", "admin", digest, 0.0))
        assert authenticator.by_token(f"cgsa.t{number}.{secret}") is None
    store.add_token(StoredToken("rootish", "root", "sha256$00$00", 0.0))
    assert authenticator.by_token(f"cgsa.rootish.{secret}") is None


def test_a_person_is_identified_by_header_or_else_by_cookie(authenticator: Authenticator) -> None:
    ann, bob = authenticator.create_token("ann", "admin"), authenticator.create_token("bob", "viewer")
    cookie = f"{COOKIE}={authenticator.log_in(bob)}"
    assert authenticator.person_of(bearer(ann)) == Person("ann", "admin")
    assert authenticator.person_of(connection(cookie=cookie)) == Person("bob", "viewer")
    assert authenticator.person_of(connection(authorization="Bearer nonsense", cookie=cookie)) is None
    assert authenticator.person_of(connection(authorization=f"Basic {ann}")) is None
    assert authenticator.person_of(connection()) is None


def test_revoking_a_token_ends_its_sessions_at_once(authenticator: Authenticator) -> None:
    value = authenticator.log_in(authenticator.create_token("ann", "admin"))
    assert authenticator.by_session(value) == Person("ann", "admin")
    authenticator.revoke("ann")
    assert authenticator.by_session(value) is None


def test_a_token_that_another_process_revoked_ends_its_sessions_too(authenticator: Authenticator, store: Store) -> None:
    value = authenticator.log_in(authenticator.create_token("ann", "admin"))
    store.revoke_token("ann", 1.0)
    assert authenticator.by_session(value) is None


def test_logging_out_ends_the_session(authenticator: Authenticator) -> None:
    value = authenticator.log_in(authenticator.create_token("ann", "admin"))
    authenticator.log_out(value)
    assert authenticator.by_session(value) is None


def test_a_role_that_does_not_include_the_needed_one_is_refused(authenticator: Authenticator) -> None:
    for role in ROLES:
        person = Person("ann", role)
        for needed in ROLES:
            if person.may(needed):
                assert authenticator.require(person, needed) is person
            else:
                with pytest.raises(NotAllowedError, match=f"ann is {role}; that needs {needed}") as refused:
                    authenticator.require(person, needed)
                assert refused.value.status == 403
    with pytest.raises(NotAllowedError) as refused:
        authenticator.require(None, "any")
    assert refused.value.status == 401


def test_wrong_tokens_never_shut_out_a_right_one(authenticator: Authenticator) -> None:
    good, other = authenticator.create_token("ann", "admin"), authenticator.create_token("bob", "admin")
    wrong = f"cgsa.ann.{'A' * 43}"
    for _ in range(FAILURES_PER_MINUTE):
        assert authenticator.person_of(bearer(wrong)) is None
    for _ in range(3):
        with pytest.raises(NotAllowedError, match="too many wrong tokens") as refused:
            authenticator.person_of(bearer(wrong))
        assert refused.value.status == 429
        assert 0 < (refused.value.retry_after or 0) <= 60
    for token in (good, other):
        assert authenticator.person_of(bearer(token)) is not None
        assert authenticator.by_session(authenticator.log_in(token, connection())) is not None


def test_a_token_expires_with_its_sessions(store: Store) -> None:
    now = 1000.0
    authenticator = Authenticator(store, clock=lambda: now)
    token = authenticator.create_token("ann", "viewer", lifetime=60.0)
    session = authenticator.log_in(token)
    now = 1059.9
    assert authenticator.by_token(token) is not None
    assert authenticator.by_session(session) is not None
    now = 1060.0
    assert authenticator.by_token(token) is None
    assert authenticator.by_session(session) is None
    with pytest.raises(DataError, match="'ann' has expired; state how long"):
        authenticator.rotate("ann")
    renewed = authenticator.rotate("ann", lifetime=60.0)
    assert authenticator.by_token(renewed) == Person("ann", "viewer")
    assert authenticator.by_token(token) is None


def test_both_secrets_of_a_rotated_token_are_valid_for_a_while(store: Store) -> None:
    now = 1000.0
    authenticator = Authenticator(store, clock=lambda: now)
    old = authenticator.create_token("ann", "sender", machines=["press-*"])
    new = authenticator.rotate("ann", overlap=50.0)
    assert authenticator.by_token(old) == authenticator.by_token(new) == Person("ann", "sender", ("press-*",))
    now = 1050.0
    assert authenticator.by_token(old) is None
    assert authenticator.by_token(new) is not None
    newest = authenticator.rotate("ann")
    assert [authenticator.by_token(one) is None for one in (old, new, newest)] == [True, True, False]


def test_a_session_ends_with_the_secret_it_began_with(store: Store) -> None:
    now = 1000.0
    authenticator = Authenticator(store, clock=lambda: now)
    session = authenticator.log_in(authenticator.create_token("ann", "viewer"))
    renewed = authenticator.log_in(authenticator.rotate("ann", overlap=50.0))
    assert authenticator.by_session(session) is not None
    now = 1050.0
    assert authenticator.by_session(session) is None
    assert authenticator.by_session(renewed) is not None


def test_only_valid_tokens_are_rotated_and_within_reason(authenticator: Authenticator) -> None:
    authenticator.create_token("ann", "viewer")
    authenticator.revoke("ann")
    for name in ("ann", "nobody.there"):
        with pytest.raises(DataError, match="no valid token"):
            authenticator.rotate(name)
    for lifetime in (0.0, -1.0, float("nan"), 1e12):
        with pytest.raises(DataError, match="expected more than 0"):
            authenticator.create_token("bob", "viewer", lifetime=lifetime)
    authenticator.create_token("bob", "viewer")
    with pytest.raises(DataError, match="overlap of -1 s"):
        authenticator.rotate("bob", overlap=-1.0)


def test_a_sender_sees_no_pages(authenticator: Authenticator) -> None:
    with pytest.raises(NotAllowedError, match="gateway is sender, and may see no pages") as refused:
        authenticator.log_in(authenticator.create_token("gateway", "sender"))
    assert refused.value.status == 403


def test_tokens_stay_valid_while_the_store_cannot_be_read(
    authenticator: Authenticator, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = authenticator.create_token("ann", "admin")
    assert authenticator.by_token(token) is not None

    def broken() -> None:
        raise DataError("store.sqlite: cannot be read")

    monkeypatch.setattr(store, "read", broken)
    monkeypatch.setattr(store, "token_changes", store.token_changes + 1)
    assert authenticator.by_token(token) is not None


def test_the_audit_quotes_no_control_characters(authenticator: Authenticator, store: Store) -> None:
    said = "x\n2026-11-19 ann reset ok\x1b[2J\u202e"
    authenticator.audit(None, "label", said, connection(client=said), said, text=said, more=[{said: said}])
    store.flush()
    with store.read() as snapshot:
        (entry,) = snapshot.audit().rows
    escaped = r"x\n2026-11-19 ann reset ok\x1b[2J\u202e"
    assert (entry.machine, entry.origin, entry.result) == (escaped, escaped, escaped)
    assert entry.details == {"text": escaped, "more": [{escaped: escaped}]}


def test_the_audit_has_who_what_where_and_the_result(authenticator: Authenticator, store: Store) -> None:
    authenticator.audit(Person("ann", "admin"), "reset", "pump", connection(client="10.1.2.3"), "ok", state=3)
    authenticator.audit(None, "reset", "pump", None, "422 \ud800")
    store.flush()
    with store.read() as snapshot:
        newest, oldest = snapshot.audit("pump").rows
    assert (oldest.who, oldest.what, oldest.origin, oldest.result) == ("ann", "reset", "10.1.2.3", "ok")
    assert oldest.details == {"state": 3}
    assert (newest.who, newest.origin, newest.result) == ("nobody", "", r"422 \ud800")


def test_the_use_of_a_token_is_recorded_once_per_minute(store: Store) -> None:
    now = 100.0
    authenticator = Authenticator(store, sessions=Sessions(), clock=lambda: now)
    token = authenticator.create_token("ann", "admin")
    used = []
    for moment in (100.0, 130.0, 161.0):
        now = moment
        authenticator.person_of(bearer(token))
        store.flush()
        used.append(authenticator.tokens()[0].last_used)
    assert used == [100.0, 100.0, 161.0]


@pytest.mark.parametrize(
    ("headers", "meant"),
    [
        ({}, False),
        ({"x_cgsa": "1"}, True),
        ({"x_cgsa": "0"}, False),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://pump:8000", "host": "pump:8000"}, False),
        ({"origin": "http://pump:8000", "host": "pump:8000"}, True),
        ({"origin": "http://pump:8001", "host": "pump:8000"}, False),
        ({"origin": "null", "host": "pump:8000"}, False),
        ({"origin": "null", "host": ""}, False),
        ({"origin": "http://[", "host": "["}, True),
        ({"origin": "http://["}, False),
        ({"origin": "http://evil.example", "host": "pump:8000"}, False),
        ({"authorization": "Bearer x", "origin": "http://evil.example"}, True),
    ],
)
def test_a_cookie_counts_only_for_requests_of_own_pages(headers: dict[str, str], meant: bool) -> None:  # noqa: FBT001 - a table
    check_same_site(connection("GET", **headers))
    if meant:
        check_same_site(connection("POST", **headers))
    else:
        for method in ("POST", "DELETE", "PUT", "PATCH"):
            with pytest.raises(NotAllowedError, match="another site"):
                check_same_site(connection(method, **headers))
