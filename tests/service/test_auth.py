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
from cgsa.service.auth import FAILURES_A_MINUTE, ROLES, Authenticator, NotAllowedError, Person, check_meant
from cgsa.service.sessions import COOKIE, Sessions


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as found:
        yield found


@pytest.fixture
def guard(store: Store) -> Authenticator:
    return Authenticator(store)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authenticator, str]]:
    with Store(tmp_path_factory.mktemp("shared") / "store.sqlite") as found:
        guard = Authenticator(found)
        yield guard, guard.create_token("ann", "admin")


def connection(method: str = "GET", client: str = "10.0.0.1", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "method": method, "headers": raw, "client": (client, 5)})


def bearer(token: str, **more: Any) -> HTTPConnection:
    return connection(authorization=f"Bearer {token}", **more)


def test_a_token_lets_its_owner_in_until_it_is_revoked(guard: Authenticator) -> None:
    token = guard.create_token("ann@plant.example", "operator")
    assert guard.by_token(token) == Person("ann@plant.example", "operator")
    guard.revoke("ann@plant.example")
    assert guard.by_token(token) is None
    with pytest.raises(DataError, match=r"there is a token 'ann@plant\.example' already"):
        guard.create_token("ann@plant.example", "viewer")


def test_nothing_of_a_secret_is_stored(guard: Authenticator, store: Store) -> None:
    token = guard.create_token("ann", "admin")
    again = guard.create_token("bob", "admin")
    secret = token.rpartition(".")[2]
    assert len(secret) == 43  # 256 bits
    store.flush()
    with store.read() as snapshot:
        kept = snapshot.tokens()
    assert secret not in repr(kept)
    assert kept[0].digest.split("$")[1] != kept[1].digest.split("$")[1], "each has its own salt"
    assert token != again
    for file in store.path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("name", ["", "a b", ".ann", "ann\n", "x" * 65, "ann/../bob", "service", "nobody", "änn"])
def test_names_that_could_mislead_are_refused(guard: Authenticator, name: str) -> None:
    with pytest.raises(DataError, match="expected a name"):
        guard.create_token(name, "viewer")


def test_an_unknown_role_is_refused(guard: Authenticator) -> None:
    with pytest.raises(DataError, match="role 'root'; expected one of viewer, operator, admin"):
        guard.create_token("ann", "root")  # type: ignore[arg-type] # as a caller without types would


@given(st.text(max_size=80), st.data())
def test_no_other_text_lets_anybody_in(shared: tuple[Authenticator, str], text: str, data: st.DataObject) -> None:
    guard, token = shared
    assert guard.by_token(text) is None
    place = data.draw(st.integers(0, len(token) - 1))
    changed = token[:place] + data.draw(st.characters()) + token[place + 1 :]
    assert (guard.by_token(changed) is None) == (changed != token)
    for other in (token[:-1], token + "A", token.replace("ann", "bob"), f"{token} ", token.upper()):
        assert guard.by_token(other) is None


def test_a_digest_that_was_tampered_with_lets_nobody_in(guard: Authenticator, store: Store) -> None:
    secret = "A" * 43
    for number, digest in enumerate(("", "sha256", "sha256$zz$00", "sha256$00$", "plain$00$" + secret)):
        store.add_token(StoredToken(f"t{number}", "admin", digest, 0.0))
        assert guard.by_token(f"cgsa.t{number}.{secret}") is None
    store.add_token(StoredToken("rootish", "root", "sha256$00$00", 0.0))
    assert guard.by_token(f"cgsa.rootish.{secret}") is None


def test_who_asks_is_told_by_header_or_cookie_and_never_by_both(guard: Authenticator) -> None:
    ann, bob = guard.create_token("ann", "admin"), guard.create_token("bob", "viewer")
    cookie = f"{COOKIE}={guard.log_in(bob)}"
    assert guard.person_of(bearer(ann)) == Person("ann", "admin")
    assert guard.person_of(connection(cookie=cookie)) == Person("bob", "viewer")
    assert guard.person_of(connection(authorization="Bearer nonsense", cookie=cookie)) is None
    assert guard.person_of(connection(authorization=f"Basic {ann}")) is None
    assert guard.person_of(connection()) is None


def test_revoking_a_token_ends_its_sessions_at_once(guard: Authenticator) -> None:
    value = guard.log_in(guard.create_token("ann", "admin"))
    assert guard.by_session(value) == Person("ann", "admin")
    guard.revoke("ann")
    assert guard.by_session(value) is None


def test_a_token_that_another_process_revoked_ends_its_sessions_too(guard: Authenticator, store: Store) -> None:
    value = guard.log_in(guard.create_token("ann", "admin"))
    store.revoke_token("ann", 1.0)
    assert guard.by_session(value) is None


def test_logging_out_ends_the_session(guard: Authenticator) -> None:
    value = guard.log_in(guard.create_token("ann", "admin"))
    guard.log_out(value)
    assert guard.by_session(value) is None


def test_roles_include_those_before_them(guard: Authenticator) -> None:
    for have, role in enumerate(ROLES):
        person = Person("ann", role)
        for asked, needed in enumerate(ROLES):
            if asked <= have:
                assert guard.require(person, needed) is person
            else:
                with pytest.raises(NotAllowedError, match=f"ann is {role}; that needs {needed}") as refused:
                    guard.require(person, needed)
                assert refused.value.status == 403
    with pytest.raises(NotAllowedError) as refused:
        guard.require(None, "viewer")
    assert refused.value.status == 401


def test_wrong_tokens_are_slowed_down_by_name_and_place(guard: Authenticator) -> None:
    good, other = guard.create_token("ann", "admin"), guard.create_token("bob", "admin")
    wrong = f"cgsa.ann.{'A' * 43}"
    for _ in range(FAILURES_A_MINUTE):
        assert guard.person_of(bearer(wrong)) is None
    for token in (wrong, good):
        with pytest.raises(NotAllowedError, match="too many wrong tokens") as refused:
            guard.person_of(bearer(token))
        assert refused.value.status == 429
    with pytest.raises(NotAllowedError):
        guard.log_in(good, connection())
    # Neighbours behind the same address, and the owner elsewhere, do not suffer.
    assert guard.person_of(bearer(other)) is not None
    assert guard.person_of(bearer(good, client="10.0.0.2")) is not None


def test_the_audit_tells_who_what_where_and_the_outcome(guard: Authenticator, store: Store) -> None:
    guard.audit(Person("ann", "admin"), "reset", "pump", connection(client="10.1.2.3"), "ok", state=3)
    guard.audit(None, "reset", "pump", None, "422 \ud800")
    store.flush()
    with store.read() as snapshot:
        newest, oldest = snapshot.audit("pump").rows
    assert (oldest.who, oldest.what, oldest.origin, oldest.result) == ("ann", "reset", "10.1.2.3", "ok")
    assert oldest.details == {"state": 3}
    assert (newest.who, newest.origin, newest.result) == ("nobody", "", "422 ?")


def test_the_use_of_a_token_is_written_once_a_minute(store: Store) -> None:
    now = 100.0
    guard = Authenticator(store, sessions=Sessions(), clock=lambda: now)
    token = guard.create_token("ann", "admin")
    used = []
    for moment in (100.0, 130.0, 161.0):
        now = moment
        guard.by_token(token)
        store.flush()
        used.append(guard.tokens()[0].last_used)
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
def test_a_cookie_counts_only_for_what_was_meant(headers: dict[str, str], meant: bool) -> None:  # noqa: FBT001 - a table
    check_meant(connection("GET", **headers))
    if meant:
        check_meant(connection("POST", **headers))
    else:
        for method in ("POST", "DELETE", "PUT", "PATCH"):
            with pytest.raises(NotAllowedError, match="another site"):
                check_meant(connection(method, **headers))
