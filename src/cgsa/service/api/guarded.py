"""Routes that say which role they need.

No route of the API can be made without a role. It is checked before anything of
the request's body is read, and what changes something is written down, refused
or not. A route whose work ends in a machine's journal need not be written down
again where it succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from cgsa.errors import ConfigError
from cgsa.service.auth import ROLES, SAFE_METHODS, NotAllowedError, Person, Role, check_meant, origin_of
from cgsa.service.context import ServiceContext, context_of
from cgsa.service.errors import KINDS, message_of, status_of
from cgsa.service.schemas import Error

ROLE = "x-role"
"""Where the description of the API says which role a route needs."""
JOURNALLED = "x-journalled"
USUAL = (400, 401, 403, 413, 422, 429)
"""Errors that every route may answer with."""
MAX_RESULT = 500
"""Characters that are written down of why something was refused."""


def needs(
    role: Role, *errors: int, answers: Mapping[int, Any] | None = None, journalled: bool = False
) -> dict[str, Any]:
    """Return what a route is made with: its role, and what it may answer beside the usual."""
    told: dict[int, Any] = {status: {"model": Error, "description": KINDS[status]} for status in (*USUAL, *errors)}
    told |= answers or {}
    security: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
    return {"responses": told, "openapi_extra": {ROLE: role, JOURNALLED: journalled, "security": security}}


def the_parts(request: Request) -> ServiceContext:
    """Return the parts of the service, for routes to depend on."""
    return context_of(request)


def the_person(request: Request) -> Person:
    """Return who asks, for routes to depend on."""
    person: Person = request.state.person
    return person


TheParts = Annotated[ServiceContext, Depends(the_parts)]
ThePerson = Annotated[Person, Depends(the_person)]


class GuardedRoute(APIRoute):
    """A route that lets through whoever has its role."""

    role: Role

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        about = settings.get("openapi_extra") or {}
        if about.get(ROLE) not in ROLES:
            raise ConfigError(f"route {path} has no role; expected one of {', '.join(ROLES)}")
        self.role = about[ROLE]
        self.journalled = bool(about.get(JOURNALLED))
        super().__init__(path, endpoint, **settings)
        if len(self.methods or ()) != 1:
            raise ConfigError(f"route {path} answers to {self.methods}; expected one method")

    @property
    def method(self) -> str:
        """The one method that it answers to."""
        return next(iter(self.methods or ()))

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        return self.method not in SAFE_METHODS

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.state.person = None
            try:
                await run_in_threadpool(self._admit, request)
                response = await handle(request)
            except Exception as error:
                if self.changes:
                    self._write_refusal(request, error)
                raise
            if self.changes and not self.journalled:
                self._write(request, "ok")
            return response

        return guarded

    def _admit(self, request: Request) -> None:
        parts = context_of(request)
        person = parts.guard.person_of(request)
        request.state.person = person
        parts.guard.require(person, self.role)
        if person is not None and not parts.people.draw(person.name):
            raise NotAllowedError(f"too many requests of {person.name}; slow down", 429)
        check_meant(request)

    def _write_refusal(self, request: Request, error: Exception) -> None:
        """Write down that something was refused; a client that tries it all day must not fill the disk."""
        person: Person | None = request.state.person
        status, alike = status_of(error), context_of(request).refusals
        key = (person.name if person else None, origin_of(request), self.name, status)
        if not alike.draw(key):
            return
        more = {"more": "further ones within a minute are not written down"} if alike.empty(key) else {}
        self._write(request, f"{status} {message_of(error)}"[:MAX_RESULT], **more)

    def _write(self, request: Request, result: str, **more: object) -> None:
        given = dict(request.path_params)
        machine = given.pop("machine", None)
        details = {name: str(value)[:MAX_RESULT] for name, value in given.items()}
        details |= getattr(request.state, "said", {})
        machine = None if machine is None else str(machine)[:64]
        context_of(request).guard.audit(
            request.state.person, self.name.replace("_", " "), machine, request, result, **details, **more
        )


def guarded_router() -> APIRouter:
    """Return a router whose routes need a role."""
    return APIRouter(route_class=GuardedRoute)
