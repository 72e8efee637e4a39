"""``cgsa token``: who may use a service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cgsa.cli.console import AsJson, out, print_json, print_table, talk
from cgsa.cli.service_folder import Folder, require_package, store_place
from cgsa.errors import ConfigError

if TYPE_CHECKING:
    from cgsa.live.store import StoredToken
    from cgsa.service.auth import Authenticator

DAY = 86_400.0


def token_command(
    folder: Folder,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the token; omit it to list all.")] = None,
    role: Annotated[
        str | None,
        typer.Option(help="[b]sender[/b], [b]viewer[/b] (the default), [b]operator[/b] or [b]admin[/b]."),
    ] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(help="A machine, or a pattern such as press-*, that it is valid for; repeat it for several."),
    ] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires; by default it never does.")] = None,
    *,
    rotate: Annotated[bool, typer.Option("--rotate", help="Give the token a new secret.")] = False,
    overlap: Annotated[
        float, typer.Option(help="With [b]--rotate[/b]: days in which the present secret stays valid, too.")
    ] = 0.0,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the token.")] = False,
    json: AsJson = False,
) -> None:
    """Create, list, rotate or revoke tokens; while the service runs, use its API instead.

    A [b]sender[/b] posts blocks, and reads nothing but how they are received. A [b]viewer[/b] sees everything, an
    [b]operator[/b] also sends blocks and commands, an [b]admin[/b] also resets models and manages tokens.

    [b]cgsa token plant gateway --role sender --machine press-* --days 365[/b]

    [b]cgsa token plant gateway --rotate --overlap 7[/b]
    """
    require_package("fastapi")
    from cgsa.live.store import Store
    from cgsa.service.auth import Authenticator
    from cgsa.service.rights import ROLES

    _check_options(name, rotate=rotate, revoke=revoke, overlap=overlap, new=[role, machine, None if rotate else days])
    lifetime = None if days is None else days * DAY
    with Store(store_place(folder)) as store:
        authenticator = Authenticator(store)
        if name is None:
            _list_tokens(authenticator, as_json=json)
        elif revoke:
            authenticator.revoke(name)
            talk.print(f"token {name} is revoked")
        elif rotate:
            secret = authenticator.rotate(name, overlap=overlap * DAY, lifetime=lifetime)
            _show_secret({"name": name, "token": secret}, as_json=json)
        else:
            found = next((known for known in ROLES if known == (role or "viewer")), None)
            if found is None:
                raise ConfigError(f"role {role!r}; expected one of {', '.join(ROLES)}")
            secret = authenticator.create_token(name, found, machines=machine or (), lifetime=lifetime)
            _show_secret({"name": name, "role": found, "token": secret}, as_json=json)


def _check_options(name: str | None, *, rotate: bool, revoke: bool, overlap: float, new: list[object]) -> None:
    """Refuse options that do not go together."""
    given = [one for one in new if one is not None]
    if (rotate and revoke) or (overlap and not rotate) or ((rotate or revoke) and given) or (name is None and given):
        raise ConfigError(
            "these options do not go together: --role and --machine create a token, --rotate goes with --overlap and "
            "--days, and --revoke stands alone"
        )
    if name is None and (rotate or revoke):
        raise ConfigError("which token? pass its name")


def _show_secret(about: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json(about)
    else:
        talk.print("shown only once:")
        out.print(about["token"], soft_wrap=True)


def _list_tokens(authenticator: Authenticator, *, as_json: bool) -> None:
    found = authenticator.tokens()
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "role": one.role,
                    "state": _state(authenticator, one),
                    "machines": list(one.machines),
                    "expires": one.expires,
                    "last_used": one.last_used,
                }
                for one in found
            ]
        )
        return
    rows = [
        (
            one.name,
            one.role,
            ", ".join(one.machines) or "all",
            _state(authenticator, one),
            _date(one.expires, "never"),
            _date(one.last_used, "never"),
        )
        for one in found
    ]
    print_table(("name", "role", "machines", "state", "expires", "last used"), rows)


def _state(authenticator: Authenticator, token: StoredToken) -> str:
    if token.revoked is not None:
        return "revoked"
    return "good" if authenticator.is_valid(token) else "expired"


def _date(time: float | None, missing: str) -> str:
    return missing if time is None else f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}"
