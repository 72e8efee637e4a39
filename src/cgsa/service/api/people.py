"""People: who asks, who may ask, and who did what."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from starlette.requests import Request

from cgsa.errors import DataError
from cgsa.service.api.guarded import TheParts, ThePerson, guarded_router, needs
from cgsa.service.api.parameters import OfMachine, Rows
from cgsa.service.auth import NAME
from cgsa.service.context import ServiceContext
from cgsa.service.errors import RefusedError
from cgsa.service.schemas import Audit, FreshToken, Me, NewToken, Page, Tokens

router = guarded_router()


@router.get("/me", tags=["people"], **needs("viewer"))
def show_me(person: ThePerson) -> Me:
    """Return who asks, and what they may."""
    return Me.model_validate(person)


@router.get("/tokens", tags=["people"], **needs("admin", 503))
def list_tokens(parts: TheParts) -> Tokens:
    """Return all tokens, good or revoked, without their secrets."""
    return Tokens.model_validate({"tokens": parts.guard.tokens()})


@router.post("/tokens", tags=["people"], status_code=201, **needs("admin", 409, 503))
def create_token(wanted: NewToken, request: Request, parts: TheParts) -> FreshToken:
    """Make a token; its secret is in this answer and nowhere else."""
    request.state.said = {"name": wanted.name, "role": wanted.role}
    try:
        token = parts.guard.create_token(wanted.name, wanted.role)
    except DataError as error:
        raise _refusal(parts, error) from error
    return FreshToken(name=wanted.name, role=wanted.role, token=token)


@router.delete("/tokens/{name}", tags=["people"], status_code=204, **needs("admin", 404, 503))
def revoke_token(name: Annotated[str, Path(max_length=64, pattern=f"^{NAME}$")], parts: TheParts) -> Response:
    """End a token for good, and all sessions that began with it."""
    if name not in {token.name for token in parts.guard.tokens() if token.revoked is None}:
        raise RefusedError(404, f"there is no good token {name!r}")
    try:
        parts.guard.revoke(name)
    except DataError as error:
        raise _refusal(parts, error) from error
    return Response(status_code=204)


@router.get("/audit", tags=["people"], **needs("admin", 503))
def list_audit(
    parts: TheParts,
    rows: Rows,
    machine: OfMachine = None,
    who: Annotated[str | None, Query(max_length=64)] = None,
) -> Page[Audit]:
    """Return who did what, refused or not."""
    with parts.plant.store.read() as snapshot:
        return Page[Audit].model_validate(snapshot.audit(machine, who=who, pick=rows))


def _refusal(parts: ServiceContext, error: DataError) -> RefusedError:
    """Return what to answer where the store would not take something."""
    return RefusedError(409 if parts.plant.store.problem is None else 503, str(error))
