"""The login with an identity provider in a browser: to the provider, and back with a session."""

from __future__ import annotations

from html import escape
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cgsa.errors import CgsaError
from cgsa.service.context import context_of
from cgsa.service.login import login_page, safe_next, set_session_cookie
from cgsa.service.oidc.attempt import MAX_SECONDS
from cgsa.service.oidc.client import CALLBACK, OidcClient

COOKIE = "cgsa-oidc"
"""Cookie of a login that has begun."""
BEGIN = "/login/oidc"


def oidc_router(client: OidcClient) -> APIRouter:
    """Return the routes of the login with a provider."""
    router = APIRouter(include_in_schema=False)

    @router.get(BEGIN)
    async def begin(request: Request, target: Annotated[str, Query(alias="next")] = "/") -> Response:
        """Send the browser to the provider."""
        try:
            address, cookie = await client.begin(safe_next(target))
        except CgsaError as error:
            context_of(request).audit(request, None, "log in", error=error)
            return login_page(request, target, error)
        response = RedirectResponse(address, 303)
        _set_cookie(response, request, cookie, round(MAX_SECONDS))
        return response

    @router.get(CALLBACK)
    async def complete(request: Request) -> Response:
        """Begin a session for the person whom the provider sends back."""
        context = context_of(request)
        try:
            login = await client.complete(request.cookies.get(COOKIE, ""), request.query_params)
        except CgsaError as error:
            context.audit(request, None, "log in", error=error)
            return login_page(request, "/", error)
        value = context.authenticator.log_in_person(login.person, login.id_token)
        known = {"issuer": client.config.issuer, "subject": login.subject, "role": login.person.role}
        context.authenticator.audit(login.person, "log in", None, request, **known)
        # Not a redirection: the request began at the provider, so a browser would not send the session's cookie, which
        # only requests that begin here carry.
        response = HTMLResponse(
            f'<!doctype html><title>cgsa</title><meta http-equiv="refresh" content="0;url={escape(login.target)}">'
            f'<p>You are logged in. <a href="{escape(login.target)}">Continue</a></p>',
            headers={"Cache-Control": "no-store"},
        )
        set_session_cookie(response, request, value, round(context.authenticator.sessions.lifetime))
        _set_cookie(response, request, "", 0)
        return response

    return router


def _set_cookie(response: Response, request: Request, value: str, seconds: int) -> None:
    # Lax, since the provider's redirection must carry it.
    response.set_cookie(
        COOKIE,
        value,
        max_age=seconds,
        path=BEGIN,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
