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
from cgsa.service.auth import FAILURES_PER_MINUTE, ROLES, Authenticator, NotAllowedError, Person, check_same_site
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
    for file in store.path.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("name", ["", "a b", ".ann", "ann\n", "x" * 65, "ann/../bob", "service", "nobody", "änn"])
def test_misleading_names_are_refused(authenticator: Authenticator, name: str) -> None:
    with pytest.raises(DataError, match="expected a name"):
        authenticator.create_token(name, "viewer")


def test_an_unknown_role_is_refused(authenticator: Authenticator) -> None:
    with pytest.raises(DataError, match="role 'root'; expected one of viewer, operator, admin"):
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


def test_roles_include_those_before_them(authenticator: Authenticator) -> None:
    for have, role in enumerate(ROLES):
        person = Person("ann", role)
        for asked, needed in enumerate(ROLES):
            if asked <= have:
                assert authenticator.require(person, needed) is person
            else:
                with pytest.raises(NotAllowedError, match=f"ann is {role}; that needs {needed}") as refused:
                    authenticator.require(person, needed)
                assert refused.value.status == 403
    with pytest.raises(NotAllowedError) as refused:
        authenticator.require(None, "viewer")
    assert refused.value.status == 401


def test_wrong_tokens_are_limited_by_name_and_address(authenticator: Authenticator) -> None:
    good, other = authenticator.create_token("ann", "admin"), authenticator.create_token("bob", "admin")
    wrong = f"cgsa.ann.{'A' * 43}"
    for _ in range(FAILURES_PER_MINUTE):
        assert authenticator.person_of(bearer(wrong)) is None
    for token in (wrong, good):
        with pytest.raises(NotAllowedError, match="too many wrong tokens") as refused:
            authenticator.person_of(bearer(token))
        assert refused.value.status == 429
    with pytest.raises(NotAllowedError):
        authenticator.log_in(good, connection())
    # Neighbours behind the same address, and the owner elsewhere, do not suffer.
    assert authenticator.person_of(bearer(other)) is not None
    assert authenticator.person_of(bearer(good, client="10.0.0.2")) is not None


def test_the_audit_has_who_what_where_and_the_result(authenticator: Authenticator, store: Store) -> None:
    authenticator.audit(Person("ann", "admin"), "reset", "pump", connection(client="10.1.2.3"), "ok", state=3)
    authenticator.audit(None, "reset", "pump", None, "422 \ud800")
    store.flush()
    with store.read() as snapshot:
        newest, oldest = snapshot.audit("pump").rows
    assert (oldest.who, oldest.what, oldest.origin, oldest.result) == ("ann", "reset", "10.1.2.3", "ok")
    assert oldest.details == {"state": 3}
    assert (newest.who, newest.origin, newest.result) == ("nobody", "", "422 ?")


def test_the_use_of_a_token_is_recorded_once_per_minute(store: Store) -> None:
    now = 100.0
    authenticator = Authenticator(store, sessions=Sessions(), clock=lambda: now)
    token = authenticator.create_token("ann", "admin")
    used = []
    for moment in (100.0, 130.0, 161.0):
        now = moment
        authenticator.by_token(token)
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
