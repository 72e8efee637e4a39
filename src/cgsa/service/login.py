"""Logging in with a browser: a page that takes a token, and gives a session cookie for it.

A link to log in carries the token behind ``#``. Browsers keep that part to
themselves, so it stands in no log; the page puts it into its form.
"""

from __future__ import annotations

import base64
import hashlib
import html
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cgsa.service.auth import Authenticator, NotAllowedError, check_meant
from cgsa.service.sessions import COOKIE

_SCRIPT = """
const token = decodeURIComponent(location.hash.slice(1));
if (token) {
  history.replaceState(null, "", location.pathname + location.search);
  document.forms[0].token.value = token;
  document.forms[0].submit();
}
"""
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { display: grid; min-height: 90vh; place-content: center; margin: 1rem; }
form { display: grid; gap: .75rem; width: min(24rem, 90vw); }
h1 { font-size: 1.25rem; margin: 0; }
p { margin: 0; }
input, button { font: inherit; padding: .6rem .7rem; border-radius: .4rem; border: 1px solid GrayText; }
button { background: #1f5fbf; border-color: #1f5fbf; color: #fff; cursor: pointer; }
"""
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Log in - cgsa</title>
<style>{style}</style>
<form method="post" action="/login">
<h1>cgsa</h1>
<label for="token">Your token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus maxlength="200">
<input name="next" type="hidden" value="{next}">
<button>Log in</button>
<p role="alert">{said}</p>
</form>
<script>{script}</script>
</html>
"""


def _source(text: str) -> str:
    """Return how a policy names a script or style that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {_source(_SCRIPT)}; style-src {_source(_STYLE)}; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing but what stands in the page itself."""

MAX_NEXT = 1000
"""Characters of an address to go to after a login."""

router = APIRouter(include_in_schema=False)


def login_link(base: str, token: str) -> str:
    """Return a link that logs in whoever opens it.

    >>> login_link("http://127.0.0.1:8000/", "cgsa.ann.secret")
    'http://127.0.0.1:8000/login#cgsa.ann.secret'
    """
    return f"{base.rstrip('/')}/login#{token}"


def safe_next(target: str) -> str:
    """Return where to go after a login: a page of this service, or else the first one.

    >>> safe_next("/machine/pump"), safe_next("//evil.example"), safe_next("https://evil.example")
    ('/machine/pump', '/', '/')
    """
    # Browsers take a backslash for a slash, and strip blanks and control characters.
    odd = len(target) > MAX_NEXT or "\\" in target or any(ord(sign) <= 32 or ord(sign) == 127 for sign in target)
    return target if target.startswith("/") and not target.startswith("//") and not odd else "/"


@router.get("/login")
async def show_login(next: str = "/") -> Response:  # noqa: A002 - the name in the address
    """Show the page that takes a token."""
    return _page(next)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session for whoever shows a good token."""
    guard: Authenticator = request.app.state.guard
    said = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=10)
    target = said.get("next", ["/"])[0]
    try:
        check_meant(request)
        value = await run_in_threadpool(guard.log_in, said.get("token", [""])[0], request)
        person = await run_in_threadpool(guard.by_session, value)
    except NotAllowedError as error:
        guard.audit(None, "log in", None, request, f"{error.status} {error}")
        return _page(target, str(error), error.status)
    guard.audit(person, "log in", None, request)
    response = RedirectResponse(safe_next(target), 303)
    _set_cookie(response, request, value, round(guard.sessions.lifetime))
    return response


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session."""
    guard: Authenticator = request.app.state.guard
    check_meant(request)
    value = request.cookies.get(COOKIE, "")
    person = await run_in_threadpool(guard.by_session, value)
    if person is not None:
        guard.log_out(value)
        guard.audit(person, "log out", None, request)
    response = RedirectResponse("/login", 303)
    _set_cookie(response, request, "", 0)
    return response


def _set_cookie(response: Response, request: Request, value: str, seconds: int) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _page(target: str, said: str = "", status: int = 200) -> Response:
    text = _PAGE.format(
        style=_STYLE, script=_SCRIPT, next=html.escape(safe_next(target), quote=True), said=html.escape(said)
    )
    return HTMLResponse(text, status, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-store"})
