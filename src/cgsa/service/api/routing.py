"""Routes that say which role they need, and how they honour the machines that a token is valid for.

No route of the API can be made without both. They are checked before the body of a request is read, and every
request that changes something is audited, refused or not. A route whose work ends in a machine's journal is not audited
if it succeeds: the journal has it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from inspect import iscoroutinefunction
from typing import Annotated, Any, Literal, TypeAlias, get_args

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from cgsa.errors import ConfigError
from cgsa.service.auth import SAFE_METHODS, check_same_site
from cgsa.service.context import MAX_RESULT, ServiceContext, context_of, unknown_machine
from cgsa.service.errors import KINDS
from cgsa.service.rights import ROLES, NeededRole, NotAllowedError, Person
from cgsa.service.schemas import ErrorAnswer

ROLE = "x-role"
"""Where the description of the API says which role a route needs."""
SCOPE = "x-scope"
"""Where it says how a route honours the machines of a token."""
JOURNALLED = "x-journalled"
Scope: TypeAlias = Literal["path", "listed", "body", "none", "all"]
"""What a route does for a token that is valid for some machines only.

``path``: the machine in its path is unknown to other tokens. ``listed``: it answers with what belongs to its machines.
``body``: its body names the machine, which is unknown to other tokens. ``none``: nothing in it belongs to a machine.
``all``: it belongs to all machines, so only a token for all of them is accepted.
"""
NEEDED_ROLES = ("any", *ROLES)
USUAL = (400, 401, 403, 413, 422, 429, 503)
"""Errors that every route may answer with."""


def needs(
    role: NeededRole, *errors: int, scope: Scope, answers: Mapping[int, Any] | None = None, journalled: bool = False
) -> dict[str, Any]:
    """Return the settings of a route: its role, its scope, and its possible answers beside the usual ones."""
    responses: dict[int, Any] = {
        status: {"model": ErrorAnswer, "description": KINDS[status]} for status in (*USUAL, *errors)
    }
    security: list[dict[str, list[str]]] = [{"token": []}, {"session": []}]
    extra = {ROLE: role, SCOPE: scope, JOURNALLED: journalled, "security": security}
    return {"responses": responses | dict(answers or {}), "openapi_extra": extra}


async def _person(request: Request) -> Person:
    person: Person = request.state.person
    return person


async def _context(request: Request) -> ServiceContext:
    # Coroutines, since FastAPI calls each dependency that is a function in another thread.
    return context_of(request)


Context = Annotated[ServiceContext, Depends(_context)]
CurrentPerson = Annotated[Person, Depends(_person)]


class RoleRoute(APIRoute):
    """A route that admits whoever has its role."""

    role: NeededRole
    scope: Scope

    def __init__(self, path: str, endpoint: Callable[..., object], **settings: Any) -> None:
        extra = settings.get("openapi_extra") or {}
        if extra.get(ROLE) not in NEEDED_ROLES:
            raise ConfigError(f"route {path} has no role; expected one of {', '.join(NEEDED_ROLES)}")
        if extra.get(SCOPE) not in get_args(Scope) or (extra[SCOPE] == "path") != ("{machine}" in path):
            raise ConfigError(f"route {path} has no scope that fits it; expected one of {', '.join(get_args(Scope))}")
        self.role, self.scope = extra[ROLE], extra[SCOPE]
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

    def endpoint_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what calls the endpoint for an admitted request."""
        return super().get_route_handler()

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = self.endpoint_handler()

        async def handle_admitted(request: Request) -> Response:
            request.state.person = None
            try:
                person = self._admit(request)
                async with self._read_slot(request, person):
                    response = await handle(request)
            except Exception as error:
                if self.changes:
                    self._audit(request, error)
                raise
            if self.changes and not self.journalled:
                self._audit(request)
            return response

        return handle_admitted

    def _admit(self, request: Request) -> Person:
        authenticator = context_of(request).authenticator
        request.state.person = authenticator.person_of(request)
        person = authenticator.require(request.state.person, self.role)
        if self.scope == "all" and person.machines:
            covered = ", ".join(person.machines)
            raise NotAllowedError(f"{person.name} is limited to {covered}; that needs a token for all machines", 403)
        if self.scope == "path" and not person.covers(request.path_params["machine"]):
            raise unknown_machine(request.path_params["machine"])
        check_same_site(request)
        return person

    def _read_slot(self, request: Request, person: Person) -> AbstractAsyncContextManager[None]:
        """Return the place among the reads that the answer needs; coroutines only wait for others."""
        if self.changes or iscoroutinefunction(self.endpoint):
            return nullcontext()
        return context_of(request).reads.slot(person.name)

    def _audit(self, request: Request, error: Exception | None = None) -> None:
        parameters = {name: str(value)[:MAX_RESULT] for name, value in request.path_params.items()}
        machine = parameters.pop("machine", None)
        details = {**parameters, **getattr(request.state, "audit_details", {})}
        context_of(request).audit(request, request.state.person, self.name, machine, error=error, details=details)


class DirectRoute(RoleRoute):
    """A route for requests that come hundreds of times per second.

    Its endpoint gets the request, the context and the person, and returns the response itself: FastAPI's dependencies
    and models would take longer than its work.
    """

    def endpoint_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what calls the endpoint for an admitted request."""

        async def handle(request: Request) -> Response:
            response: Response = await self.endpoint(request, context_of(request), request.state.person)
            return response

        return handle


def role_router(route_class: type[RoleRoute] = RoleRoute) -> APIRouter:
    """Return a router whose routes need a role."""
    return APIRouter(route_class=route_class)
