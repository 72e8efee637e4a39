"""One page in one browser: its user, its theme and its time zone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, tzinfo
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Request
from fastapi.responses import RedirectResponse
from nicegui import events, ui

from cgsa.errors import CgsaError
from cgsa.service.context import ServiceContext
from cgsa.service.dashboard.theme import CSS, DARK, LIGHT, Palette
from cgsa.service.login import logout_address
from cgsa.service.rights import NotAllowedError, Person
from cgsa.service.sessions import COOKIE

CONTEXT_KEY = "cgsa.context"
"""Key under which the router stores the context of the service in the scope of a request."""
THEME_COOKIE = "cgsa-look"
_COOKIE_ATTRIBUTES = "max-age=31536000; SameSite=Strict"
PAGES = {"Machines": "/", "Alarms": "/alarms"}
"""Pages that every page leads to."""
REFRESH_SECONDS = 1.0
LOGIN_CHECK_TICKS = 5
"""Refreshes after which the page checks again whether the user is still logged in."""

_READ_BROWSER = """
return {
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  dark: document.body.classList.contains('body--dark'),
}
"""
_SEND_CHANGES = """
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setTimeout(() =>
  emitEvent('cgsa_theme', document.body.classList.contains('body--dark')), 100));
document.addEventListener('visibilitychange', () => emitEvent('cgsa_visible', !document.hidden));
"""
# The browser decides what a click changes, since a change of the system's theme may not have reached the server yet.
# It also sets the cookie at once, so that the next page has the chosen theme however soon it is requested.
_TOGGLE_THEME = f"""() => {{
  const dark = document.body.classList.contains('body--dark');
  document.cookie = '{THEME_COOKIE}=' + (dark ? 'light' : 'dark') + '; path=/; {_COOKIE_ATTRIBUTES}';
  emit(dark);
}}"""


class PageSession:
    """One page in one browser; the request for it authenticates the user, now and later."""

    def __init__(self, context: ServiceContext, request: Request, person: Person) -> None:
        self.context, self.request, self.person = context, request, person
        self.zone: tzinfo = UTC
        chosen = request.cookies.get(THEME_COOKIE)
        self.dark = chosen == "dark"
        self._chosen = self.dark if chosen in {"dark", "light"} else None
        self._visible = True
        self._ticks = 0
        self._problem: ui.label | None = None

    @property
    def palette(self) -> Palette:
        """Colours of charts in the theme of the page."""
        return DARK if self.dark else LIGHT

    def set_cookie(self, name: str, value: str, path: str = "/") -> None:
        """Set a cookie in the browser for a year."""
        cookie = f"{name}={quote(value, safe='')}; path={quote(path)}; {_COOKIE_ATTRIBUTES}"
        ui.run_javascript(f"document.cookie = {json.dumps(cookie)}")

    def build_frame(self, title: str) -> ui.element:
        """Build what all pages share, and return the element for the content of this one."""
        ui.add_css(CSS)
        theme = ui.dark_mode(self._chosen)
        ui.link("Skip to content", "#content").classes("skip")
        with ui.element("header").classes("top").props("role=banner"):
            ui.link("cgsa", "/").classes("brand").props('aria-label="cgsa, all machines"')
            with ui.element("nav").classes("pages").props('aria-label="Pages"'):
                for name, path in PAGES.items():
                    here = "aria-current=page" if self.request.url.path == path else ""
                    ui.link(name, path).props(here)
            if title not in PAGES:
                ui.label(title).classes("where")
            ui.label(f"{self.person.name}, {self.person.role}").classes("who")
            toggle = ui.button(icon="contrast", color=None)
            toggle.on("click", lambda event: self._toggle_theme(event, theme), js_handler=_TOGGLE_THEME)
            toggle.classes("act bare theme").props('flat dense aria-label="Switch between dark and light"')
            log_out = ui.button(icon="logout", color=None, on_click=self._log_out)
            log_out.classes("act bare").props('flat dense aria-label="Log out"')
        ui.on("cgsa_theme", lambda event: self._follow_system_theme(event, theme))
        ui.on("cgsa_visible", self._set_visible)
        content = ui.element("div").classes("page").props("id=content")
        with content:
            self._problem = ui.label().classes("problem").props("role=alert")
            self._problem.set_visibility(False)
        return content

    def refresh_every_second(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Refresh the page every second while it is visible."""

        async def tick() -> None:
            if self._ticks == 0:
                await self._read_browser()
            self._ticks += 1
            if not self._visible:
                return
            if self._ticks % LOGIN_CHECK_TICKS == 0 and await _current_person(self.context, self.request) is None:
                ui.navigate.to(login_path(self.request))
                return
            try:
                await refresh()
            except CgsaError as error:
                self._show_problem(str(error))
            else:
                self._show_problem("")

        ui.timer(REFRESH_SECONDS, tick)

    def _show_problem(self, text: str) -> None:
        if self._problem is not None:
            self._problem.set_text(text)
            self._problem.set_visibility(bool(text))

    async def _log_out(self) -> None:
        after = await logout_address(self.context, self.request.cookies.get(COOKIE, ""))
        await ui.run_javascript("await fetch('/logout', {method: 'POST', headers: {'X-CGSA': '1'}})", timeout=5.0)
        ui.navigate.to(after)

    async def _read_browser(self) -> None:
        ui.run_javascript(_SEND_CHANGES)
        try:
            browser = await ui.run_javascript(_READ_BROWSER, timeout=5.0)
            self.dark = bool(browser["dark"])
            self.zone = ZoneInfo(str(browser["zone"]))
        except (TimeoutError, TypeError, KeyError, ValueError, ZoneInfoNotFoundError):
            # Texts show times in UTC then; charts use the browser's own time zone in any case.
            return

    def _toggle_theme(self, event: events.GenericEventArguments, theme: ui.dark_mode) -> None:
        self.dark = not event.args
        theme.value = self._chosen = self.dark

    def _follow_system_theme(self, event: events.GenericEventArguments, theme: ui.dark_mode) -> None:
        if theme.value is None:
            self.dark = bool(event.args)

    def _set_visible(self, event: events.GenericEventArguments) -> None:
        self._visible = bool(event.args)


async def open_session(request: Request) -> PageSession | RedirectResponse:
    """Return the session of a page, or a redirection to the login page if the user is not logged in."""
    context: ServiceContext = request.scope[CONTEXT_KEY]
    person = await _current_person(context, request)
    if person is None or not person.may("viewer"):
        return RedirectResponse(login_path(request), status_code=303)
    return PageSession(context, request, person)


def login_path(request: Request) -> str:
    """Return the path of the login page, which leads back to the requested page."""
    return f"/login?next={quote(request.url.path, safe='')}"


async def _current_person(context: ServiceContext, request: Request) -> Person | None:
    try:
        return await asyncio.to_thread(context.authenticator.person_of, request)
    except NotAllowedError:
        return None
