"""One page in one browser: who looks at it, in what light, and by which clock."""

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
from cgsa.service.auth import NotAllowedError, Person
from cgsa.service.context import ServiceContext
from cgsa.service.dashboard.theme import CSS, Palette, palette

KEY = "cgsa.context"
"""Where the router leaves the context of the service in the scope of a request."""
LOOK_COOKIE = "cgsa-look"
_FOR_A_YEAR = "max-age=31536000; SameSite=Strict"
SECONDS = 1.0
"""Between two looks at the board."""
CHECKED_EVERY = 5
"""Looks after which it is asked again whether the person may still see it."""

_BROWSER = """
return {
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  dark: document.body.classList.contains('body--dark'),
}
"""
_LISTEN = """
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setTimeout(() =>
  emitEvent('cgsa_look', document.body.classList.contains('body--dark')), 100));
document.addEventListener('visibilitychange', () => emitEvent('cgsa_seen', !document.hidden));
"""
# What the page looks like is known best where it was clicked: news of a change of the system may be under way. The
# choice is kept there at once, so that it is the next page's however soon that is asked for.
_CLICKED = f"""() => {{
  const dark = document.body.classList.contains('body--dark');
  document.cookie = '{LOOK_COOKIE}=' + (dark ? 'light' : 'dark') + '; path=/; {_FOR_A_YEAR}';
  emit(dark);
}}"""


class PageSession:
    """One page in one browser.

    Parameters
    ----------
    context
        The service.
    request
        What the browser asked with; it shows who the person is, now and later.
    person
        Who looks at the page.
    """

    def __init__(self, context: ServiceContext, request: Request, person: Person) -> None:
        self.context, self.request, self.person = context, request, person
        self.zone: tzinfo = UTC
        chosen = request.cookies.get(LOOK_COOKIE)
        self.dark = chosen == "dark"
        self._chosen = None if chosen not in {"dark", "light"} else self.dark
        self._seen = True
        self._looks = 0
        self._problem: ui.label | None = None

    @property
    def look(self) -> Palette:
        """Colours of charts in the light of the page."""
        return palette(dark=self.dark)

    def keep(self, cookie: str, value: str, path: str = "/") -> None:
        """Let the browser remember something for a year."""
        kept = f"{cookie}={quote(value, safe='')}; path={quote(path)}; {_FOR_A_YEAR}"
        ui.run_javascript(f"document.cookie = {json.dumps(kept)}")

    def build_frame(self, where: str) -> ui.element:
        """Draw what all pages have, and return the place for what they have not in common."""
        ui.add_css(CSS)
        switch = ui.dark_mode(self._chosen)
        ui.link("Skip to the content", "#content").classes("skip")
        with ui.element("header").classes("top").props("role=banner"):
            ui.link("cgsa", "/").classes("brand").props('aria-label="cgsa, all machines"')
            ui.label(where).classes("where")
            ui.label(f"{self.person.name}, {self.person.role}").classes("who")
            turn = ui.button(icon="contrast", color=None)
            turn.on("click", lambda event: self._turn(event, switch), js_handler=_CLICKED)
            turn.classes("act bare look").props('flat dense aria-label="Switch between dark and light"')
            leave = ui.button(icon="logout", color=None, on_click=_log_out)
            leave.classes("act bare").props('flat dense aria-label="Log out"')
        ui.on("cgsa_look", lambda event: self._set_look(event, switch))
        ui.on("cgsa_seen", self._set_seen)
        content = ui.element("div").classes("page").props("id=content")
        with content:
            self._problem = ui.label().classes("problem").props("role=alert")
            self._problem.set_visibility(False)
        return content

    def every_second(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Let the page follow what happens, as long as somebody sees it."""

        async def tick() -> None:
            if self._looks == 0:
                await self._meet_browser()
            self._looks += 1
            if not self._seen:
                return
            if self._looks % CHECKED_EVERY == 0 and await _person(self.context, self.request) is None:
                ui.navigate.to(login_path(self.request))
                return
            try:
                await refresh()
            except CgsaError as error:
                self._say(str(error))
            else:
                self._say("")

        ui.timer(SECONDS, tick)

    def _say(self, problem: str) -> None:
        if self._problem is not None:
            self._problem.set_text(problem)
            self._problem.set_visibility(bool(problem))

    async def _meet_browser(self) -> None:
        ui.run_javascript(_LISTEN)
        try:
            about = await ui.run_javascript(_BROWSER, timeout=5.0)
            self.dark = bool(about["dark"])
            self.zone = ZoneInfo(str(about["zone"]))
        except (TimeoutError, TypeError, KeyError, ValueError, ZoneInfoNotFoundError):
            # Times are told in UTC then, which the browser's own charts do better.
            return

    def _turn(self, event: events.GenericEventArguments, switch: ui.dark_mode) -> None:
        self.dark = not event.args
        switch.value = self._chosen = self.dark

    def _set_look(self, event: events.GenericEventArguments, switch: ui.dark_mode) -> None:
        if switch.value is None:
            self.dark = bool(event.args)

    def _set_seen(self, event: events.GenericEventArguments) -> None:
        self._seen = bool(event.args)


async def enter(request: Request) -> PageSession | RedirectResponse:
    """Let somebody in who may look, and send others to log in."""
    context: ServiceContext = request.scope[KEY]
    person = await _person(context, request)
    if person is None:
        return RedirectResponse(login_path(request), status_code=303)
    return PageSession(context, request, person)


def login_path(request: Request) -> str:
    """Return where to log in, and where to go after that."""
    return f"/login?next={quote(request.url.path, safe='')}"


async def _person(context: ServiceContext, request: Request) -> Person | None:
    try:
        return await asyncio.to_thread(context.authenticator.person_of, request)
    except NotAllowedError:
        return None


async def _log_out() -> None:
    await ui.run_javascript("await fetch('/logout', {method: 'POST', headers: {'X-CGSA': '1'}})", timeout=5.0)
    ui.navigate.to("/login")
