"""Routes that say which role they need.

No route of the API can be made without a role. The role is checked before the body of a request is read, and every
request that changes something is audited, refused or not. A route whose work ends in a machine's journal is not audited
if it succeeds: the journal has it.
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
from cgsa.service.auth import ROLES, SAFE_METHODS, NotAllowedError, Person, Role, check_same_site
from cgsa.service.context import MAX_RESULT, ServiceContext, context_of
from cgsa.service.errors import KINDS
from cgsa.service.schemas import ErrorAnswer

ROLE = "x-role"
"""Where the description of the API says which role a route needs."""
JOURNALLED = "x-journalled"
USUAL = (400, 401, 403, 413, 422, 429)
"""Errors that every route may answer with."""


def needs(
    role: Role, *errors: int, answers: Mapping[int, Any] | None = None, journalled: bool = False
) -> dict[str, Any]:
    """Return the settings of a route: its role, and its possible answers beside the usual ones."""
    responses: dict[int, Any] = {
        status: {"model": ErrorAnswer, "description": KINDS[status]} for status in (*USUAL, *errors)
    }
    security: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
    extra = {ROLE: role, JOURNALLED: journalled, "security": security}
    return {"responses": responses | dict(answers or {}), "openapi_extra": extra}


def _person(request: Request) -> Person:
    person: Person = request.state.person
    return person


Context = Annotated[ServiceContext, Depends(context_of)]
CurrentPerson = Annotated[Person, Depends(_person)]


class RoleRoute(APIRoute):
    """A route that admits whoever has its role."""

    role: Role

    def __init__(self, path: str, endpoint: Callable[..., object], **settings: Any) -> None:
        extra = settings.get("openapi_extra") or {}
        if extra.get(ROLE) not in ROLES:
            raise ConfigError(f"route {path} has no role; expected one of {', '.join(ROLES)}")
        self.role = extra[ROLE]
        self.journalled = bool(extra.get(JOURNALLED))
        super().__init__(path, endpoint, **settings)
        if len(self.methods or ()) != 1:
            raise ConfigError(f"route {path} answers to {self.methods}; expected one method")

    @property
    def method(self) -> str:
        """Its one method."""
        return next(iter(self.methods or ()))

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        return self.method not in SAFE_METHODS

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_admitted(request: Request) -> Response:
            request.state.person = None
            try:
                await run_in_threadpool(self._admit, request)
                response = await handle(request)
            except Exception as error:
                if self.changes:
                    self._audit(request, error)
                raise
            if self.changes and not self.journalled:
                self._audit(request)
            return response

        return handle_admitted

    def _admit(self, request: Request) -> None:
        context = context_of(request)
        person = request.state.person = context.authenticator.person_of(request)
        context.authenticator.require(person, self.role)
        if person is not None and not context.requests.draw(person.name):
            raise NotAllowedError(f"too many requests of {person.name}; slow down", 429)
        check_same_site(request)

    def _audit(self, request: Request, error: Exception | None = None) -> None:
        parameters = {name: str(value)[:MAX_RESULT] for name, value in request.path_params.items()}
        machine = parameters.pop("machine", None)
        details = {**parameters, **getattr(request.state, "audit_details", {})}
        context_of(request).audit(request, request.state.person, self.name, machine, error=error, details=details)


def role_router() -> APIRouter:
    """Return a router whose routes need a role."""
    return APIRouter(route_class=RoleRoute)
