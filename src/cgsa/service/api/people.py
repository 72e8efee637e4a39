"""People: who sends requests, their tokens, and the audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from starlette.requests import Request

from cgsa.errors import DataError
from cgsa.live.store import AuditEntry, RowPage, StoredToken
from cgsa.service.api.parameters import MachineFilter, Rows
from cgsa.service.api.routing import Context, CurrentPerson, needs, role_router
from cgsa.service.auth import NAME
from cgsa.service.context import ServiceContext
from cgsa.service.errors import RefusedError
from cgsa.service.rights import Person
from cgsa.service.schemas import IssuedToken, RotationForm, TokenForm, Tokens

router = role_router()

SessionName = Annotated[str, Path(max_length=64)]
TokenName = Annotated[str, Path(max_length=64, pattern=f"^{NAME}$")]


@router.get("/me", tags=["people"], **needs("any", scope="none"))
def show_me(person: CurrentPerson) -> Person:
    """Return the name, role and machines of whoever sends the request."""
    return person


@router.get("/tokens", tags=["people"], **needs("admin", scope="all"))
def list_tokens(context: Context) -> Tokens:
    """Return all tokens, valid or not, without their secrets."""
    return Tokens.model_validate({"tokens": context.authenticator.tokens()})


@router.post("/tokens", tags=["people"], status_code=201, **needs("admin", 409, scope="all"))
def create_token(wanted: TokenForm, request: Request, context: Context) -> IssuedToken:
    """Create a token; its secret is in this answer and nowhere else."""
    request.state.audit_details = wanted.model_dump(exclude_defaults=True)
    try:
        token = context.authenticator.create_token(
            wanted.name, wanted.role, machines=wanted.machines, lifetime=wanted.lifetime
        )
    except DataError as error:
        raise _refusal(context, error) from error
    return IssuedToken(name=wanted.name, role=wanted.role, token=token)


@router.post("/tokens/{name}/rotate", tags=["people"], **needs("admin", 404, 409, scope="all"))
def rotate_token(name: TokenName, wanted: RotationForm, request: Request, context: Context) -> IssuedToken:
    """Give a token a new secret, which is in this answer and nowhere else; the present one stays valid for a while."""
    request.state.audit_details = wanted.model_dump(exclude_defaults=True)
    role = _existing(context, name).role
    try:
        token = context.authenticator.rotate(name, overlap=wanted.overlap, lifetime=wanted.lifetime)
    except DataError as error:
        raise _refusal(context, error) from error
    return IssuedToken(name=name, role=role, token=token)


@router.delete("/tokens/{name}", tags=["people"], status_code=204, **needs("admin", 404, scope="all"))
def revoke_token(name: TokenName, context: Context) -> Response:
    """Revoke a token, and end all sessions that began with it."""
    _existing(context, name)
    try:
        context.authenticator.revoke(name)
    except DataError as error:
        raise _refusal(context, error) from error
    return Response(status_code=204)


@router.delete("/sessions/{name}", tags=["people"], status_code=204, **needs("admin", 404, scope="all"))
def end_sessions(name: SessionName, context: Context) -> Response:
    """End all sessions of a token or of a person, such as one who lost their rights at the identity provider."""
    if not context.authenticator.sessions.close_all(name):
        raise RefusedError(404, f"there is no session of {name!r}")
    return Response(status_code=204)


@router.get("/audit", tags=["people"], **needs("admin", scope="all"))
def list_audit(
    context: Context, rows: Rows, machine: MachineFilter = None, who: Annotated[str | None, Query(max_length=64)] = None
) -> RowPage[AuditEntry]:
    """Return who did what, including refused requests."""
    with context.plant.store.read() as snapshot:
        return snapshot.audit(machine, who=who, pick=rows)


def _existing(context: ServiceContext, name: str) -> StoredToken:
    """Return a token that was not revoked, or refuse the request."""
    found = next((one for one in context.authenticator.tokens() if one.name == name and one.revoked is None), None)
    if found is None:
        raise RefusedError(404, f"there is no valid token {name!r}")
    return found


def _refusal(context: ServiceContext, error: DataError) -> RefusedError:
    """Return the answer if the store refuses a change."""
    return RefusedError(409 if context.plant.store.problem is None else 503, str(error))
