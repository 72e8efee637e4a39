from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterator
from http.cookies import SimpleCookie

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.service.login import MAX_NEXT, safe_next
from cgsa.service.sessions import COOKIE
from tests.service.running_service import RunningService


@pytest.fixture
def browser(service: RunningService) -> Iterator[httpx.Client]:
    with service.client(None, follow_redirects=False) as client:
        yield client


def submit(browser: httpx.Client, token: str, **said: str) -> httpx.Response:
    headers = {"Origin": str(browser.base_url).rstrip("/")}
    return browser.post("/login", data={"token": token, **said}, headers=headers)


def test_a_valid_token_opens_a_session_until_logout(service: RunningService, browser: httpx.Client) -> None:
    answer = submit(browser, service.tokens["viewer"], next="/machine/pump-1")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/machine/pump-1")
    cookie = SimpleCookie(answer.headers["Set-Cookie"])[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["secure"], cookie["path"]) == (True, "strict", "", "/")
    assert int(cookie["max-age"]) > 0
    assert service.tokens["viewer"] not in answer.headers["Set-Cookie"]
    assert browser.get("/api/me").json() == {"name": "the-viewer", "role": "viewer", "machines": []}
    kept = browser.cookies[COOKIE]
    assert browser.post("/logout").status_code == 403, "no page of another site logs anybody out"
    assert browser.post("/logout", headers={"X-CGSA": "1"}).headers["Location"] == "/login"
    assert COOKIE not in browser.cookies
    browser.cookies[COOKIE] = kept
    assert browser.get("/api/me").status_code == 401, "the session is over, not only its cookie"
    done = [(entry.who, entry.what, entry.result) for entry in service.audit()[:2]]
    assert done == [("the-viewer", "log out", "ok"), ("the-viewer", "log in", "ok")]


def test_over_tls_the_cookie_is_secure(service: RunningService) -> None:
    async def go() -> str:
        transport = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://pump.example") as client:
            headers = {"Origin": "https://pump.example"}
            answer = await client.post("/login", data={"token": service.tokens["viewer"]}, headers=headers)
            return answer.headers["Set-Cookie"]

    assert "Secure" in asyncio.run(go())


def test_a_wrong_token_opens_no_session(service: RunningService, browser: httpx.Client) -> None:
    for token in ("", "nonsense", f"cgsa.the-admin.{'A' * 43}"):
        answer = submit(browser, token)
        assert answer.status_code == 401
        assert "Set-Cookie" not in answer.headers
        assert "this token is unknown" in answer.text
    assert service.audit()[0].result == "401 this token is unknown or no longer valid"


def test_too_many_wrong_tokens_are_refused(browser: httpx.Client) -> None:
    wrong = f"cgsa.guess.{'A' * 43}"
    statuses = [submit(browser, wrong).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2


def test_other_sites_cannot_log_in(service: RunningService, browser: httpx.Client) -> None:
    data = {"token": service.tokens["admin"]}
    for headers in ({}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = browser.post("/login", data=data, headers=headers)
        assert answer.status_code == 403
        assert "Set-Cookie" not in answer.headers


def test_the_page_allows_nothing_but_its_own_script_and_style(browser: httpx.Client) -> None:
    answer = browser.get("/login", params={"next": '/"><script>alert(1)</script>'})
    policy = answer.headers["Content-Security-Policy"]
    for tag in ("script", "style"):
        found = re.findall(f"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        assert len(found) == 1
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert 'value="/&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in answer.text


@pytest.mark.parametrize(
    "target",
    [
        "//evil",
        "https://evil",
        "/\\evil",
        "\\\\evil",
        "evil",
        "",
        "/\t/evil",
        "/\n/evil",
        " /x",
        "javascript:x",
        "/" * 2 + "x",
    ],
)
def test_login_never_redirects_to_another_site(service: RunningService, browser: httpx.Client, target: str) -> None:
    assert safe_next(target) == "/"
    assert submit(browser, service.tokens["viewer"], next=target).headers["Location"] == "/"


@given(st.text(max_size=20))
def test_the_page_after_login_is_always_our_own(target: str) -> None:
    found = safe_next(target)
    assert found in {target, "/"}
    assert re.fullmatch(r"/(?![/\\])[^\\\s\x00-\x20\x7f]*", found)
    assert safe_next("/" + "x" * MAX_NEXT) == "/"
