"""The login with a real provider, step by step as a browser does it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http.cookies import SimpleCookie

import httpx
import pytest

from cgsa.service.login import logout_address
from cgsa.service.oidc.routes import COOKIE as ATTEMPT
from cgsa.service.sessions import COOKIE
from tests.service.oidc.provider import log_in
from tests.service.running_service import RunningService


@pytest.fixture
def browser(service: RunningService) -> Iterator[httpx.Client]:
    with service.client(None, follow_redirects=False) as client:
        yield client


def test_the_login_page_offers_both_ways(browser: httpx.Client) -> None:
    text = browser.get("/login", params={"next": "/machine/a&b"}).text
    assert '<a href="/login/oidc?next=/machine/a%26b">Log in with Plant login</a>' in text
    assert 'name="token"' in text


def test_a_person_logs_in_with_the_rights_of_their_group(service: RunningService, browser: httpx.Client) -> None:
    answer = log_in(browser, "ann:guests:operators", "/machine/pump-1")
    assert answer.status_code == 200
    assert 'content="0;url=/machine/pump-1"' in answer.text, "the page leads on by itself"
    cookie = SimpleCookie(next(one for one in answer.headers.get_list("set-cookie") if one.startswith(COOKIE)))[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert browser.get("/api/me").json() == {"name": "oidc:ann", "role": "operator", "machines": ["pump-?"]}
    assert browser.get("/api/audit").status_code == 403
    assert browser.get("/").status_code == 200
    (entry,) = [one for one in service.audit(who="oidc:ann") if one.what == "log in"]
    assert entry.details["subject"] == "ann:guests:operators"
    assert entry.details["role"] == "operator"


def test_the_first_matching_entry_holds(browser: httpx.Client) -> None:
    log_in(browser, "bob:operators:press")
    assert browser.get("/api/me").json() == {"name": "oidc:bob", "role": "operator", "machines": ["press-*"]}


def test_what_a_person_does_has_their_name(service: RunningService, browser: httpx.Client) -> None:
    service.feed(40)
    log_in(browser, "ann:operators")
    path = "/api/machines/pump-1/cases/1/acknowledge"
    assert browser.post(path, json={}).status_code == 403, "a page of another site cannot use the session"
    assert browser.post(path, json={"text": "on my way"}, headers={"X-CGSA": "1"}).status_code == 200
    case = service.plant.worker("pump-1").watch.alarms.case
    assert case is not None
    assert case.acknowledged_by == "oidc:ann"


def test_tokens_work_beside_it(service: RunningService) -> None:
    with service.client("viewer") as client:
        assert client.get("/api/me").json()["name"] == "the-viewer"


@pytest.mark.parametrize("person", ["eve", "eve:strangers"])
def test_a_person_without_rights_is_told_so(service: RunningService, browser: httpx.Client, person: str) -> None:
    answer = log_in(browser, person)
    assert answer.status_code == 403
    assert "eve logged in at the provider, but is" in answer.text
    assert COOKIE not in browser.cookies
    assert browser.get("/api/me").status_code == 401
    assert service.audit()[0].result.startswith("403 eve logged in")


def test_whoever_aborts_at_the_provider_comes_back_to_the_login(browser: httpx.Client) -> None:
    answer = log_in(browser, "ann:guests", agrees=False)
    assert answer.status_code == 401
    assert "the provider refuses the login" in answer.text
    assert "End-User aborted interaction" in answer.text
    assert "Log in with Plant login" in answer.text


def test_an_answer_belongs_to_the_browser_that_asked(service: RunningService, browser: httpx.Client) -> None:
    """Nobody can make another browser log in as themselves, nor use a code twice."""
    with service.client(None, follow_redirects=False) as other:
        answer = log_in(other, "mallory:guests")
        assert answer.status_code == 200
        callback = str(answer.url)
    stolen = browser.get(callback)
    assert stolen.status_code == 401
    assert "this login was not begun here" in stolen.text
    browser.get("/login/oidc")
    assert browser.get(callback).status_code == 401, "a login of its own does not help"
    for cookie in ("", "0.x.Lw", "nonsense", "\xe9"):
        headers = [(b"cookie", f"{ATTEMPT}={cookie}".encode("latin-1"))]
        assert browser.get("/login/oidc/callback?state=x&code=y", headers=headers).status_code == 401


def test_a_code_that_was_made_up_is_refused_by_the_provider(browser: httpx.Client) -> None:
    begun = browser.get("/login/oidc")
    state = httpx.URL(begun.headers["Location"]).params["state"]
    issuer = httpx.URL(begun.headers["Location"]).copy_with(path="/", query=None)
    answer = browser.get(
        "/login/oidc/callback", params={"state": state, "code": "made-up", "iss": str(issuer).rstrip("/")}
    )
    assert answer.status_code == 503
    assert "invalid_grant" in answer.text


def test_an_admin_ends_the_sessions_of_a_person(service: RunningService, browser: httpx.Client) -> None:
    log_in(browser, "gone:guests")
    assert browser.get("/api/me").status_code == 200
    with service.client("admin") as admin:
        assert admin.delete("/api/sessions/oidc:gone").status_code == 204
        assert admin.delete("/api/sessions/oidc:gone").status_code == 404
    assert browser.get("/api/me").status_code == 401
    assert [one.what for one in service.audit()[:2]] == ["end sessions", "end sessions"]


async def _logout_address(service: RunningService, value: str) -> str:
    return await logout_address(service.app.state.context, value)


def test_logging_out_leads_to_the_provider(service: RunningService, browser: httpx.Client) -> None:
    log_in(browser, "ann:guests")
    address = asyncio.run(_logout_address(service, browser.cookies[COOKIE]))
    assert browser.post("/logout", headers={"X-CGSA": "1"}).headers["Location"] == "/login"
    assert browser.get("/api/me").status_code == 401
    page = browser.get(address)
    assert page.status_code == 200
    assert "Do you want to sign-out" in page.text
    with_token = service.authenticator.log_in(service.tokens["viewer"])
    assert asyncio.run(_logout_address(service, with_token)) == "/login"
