"""Login with a browser: a page that exchanges a token for a session cookie.

A login link carries the token after ``#``. Browsers do not send that part, so it appears in no log; a script of the
page puts it into the form.
"""

from __future__ import annotations

import base64
import hashlib
import math
from importlib import resources
from typing import Annotated
from urllib.parse import parse_qs

import jinja2
from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cgsa.errors import CgsaError
from cgsa.service.auth import check_same_site
from cgsa.service.context import ServiceContext, context_of
from cgsa.service.errors import RefusedError, status_of
from cgsa.service.rights import NotAllowedError
from cgsa.service.sessions import COOKIE

_SOURCE = (resources.files("cgsa.service") / "login.html").read_text(encoding="utf-8")
_PAGE = jinja2.Environment(autoescape=True).from_string(_SOURCE)


def _hashed(tag: str) -> str:
    """Return the hash by which a policy names the script or style of the page."""
    content = _SOURCE.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {_hashed('script')}; style-src {_hashed('style')}; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Allows nothing but the script and style of the page itself."""

MAX_NEXT = 1000
"""Characters of the address to open after login."""

router = APIRouter(include_in_schema=False)


def login_link(base: str, token: str) -> str:
    """Return a link that logs in whoever opens it.

    >>> login_link("http://127.0.0.1:8000/", "cgsa.ann.secret")
    'http://127.0.0.1:8000/login#cgsa.ann.secret'
    """
    return f"{base.rstrip('/')}/login#{token}"


def safe_next(target: str) -> str:
    """Return the address to open after login: a page of this service, or else the start page.

    >>> safe_next("/machine/pump"), safe_next("//evil.example"), safe_next("https://evil.example")
    ('/machine/pump', '/', '/')
    """
    # Browsers treat a backslash as a slash, and strip blanks and control characters.
    unsafe = len(target) > MAX_NEXT or "\\" in target or any(ord(c) <= 32 or ord(c) == 127 for c in target)
    return target if target.startswith("/") and not target.startswith("//") and not unsafe else "/"


@router.get("/login")
async def show_login(request: Request, target: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Show the login page."""
    return login_page(request, target)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session if the token is valid."""
    context = context_of(request)
    authenticator = context.authenticator
    form = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=10)
    target = form.get("next", ["/"])[0]
    try:
        check_same_site(request)
        value = await run_in_threadpool(authenticator.log_in, form.get("token", [""])[0], request)
        person = await run_in_threadpool(authenticator.by_session, value)
    except NotAllowedError as error:
        context.audit(request, None, "log in", error=error)
        return login_page(request, target, error)
    authenticator.audit(person, "log in", None, request)
    response = RedirectResponse(safe_next(target), 303)
    set_session_cookie(response, request, value, round(authenticator.sessions.lifetime))
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session."""
    authenticator = context_of(request).authenticator
    check_same_site(request)
    value = request.cookies.get(COOKIE, "")
    person = await run_in_threadpool(authenticator.by_session, value)
    if person is not None:
        authenticator.log_out(value)
        authenticator.audit(person, "log out", None, request)
    response = RedirectResponse("/login", 303)
    set_session_cookie(response, request, "", 0)
    return response


async def logout_address(context: ServiceContext, value: str) -> str:
    """Return the page to open after a session: where its person logs out of the identity provider, or the login."""
    session = context.authenticator.sessions.find(value)
    if session is not None and session.person is not None and context.oidc is not None:
        try:
            found = await context.oidc.logout_address(session.credential)
        except CgsaError:
            found = None  # the session here ends in any case
        if found is not None:
            return found
    return "/login"


def set_session_cookie(response: Response, request: Request, value: str, seconds: int) -> None:
    """Let an answer give the browser a session, or take it away."""
    response.set_cookie(
        COOKIE, value, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )


def login_page(request: Request, target: str, error: CgsaError | None = None) -> Response:
    """Return the login page, with the reason if a login was refused."""
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
    if isinstance(error, NotAllowedError | RefusedError) and error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    provider = context_of(request).oidc
    text = _PAGE.render(
        next=safe_next(target), message=error or "", provider=None if provider is None else provider.config.label
    )
    return HTMLResponse(text, 200 if error is None else status_of(error), headers)
