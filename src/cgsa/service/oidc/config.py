"""Settings of the login with an identity provider: the table ``[oidc]`` of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from cgsa.errors import ConfigError, DataError
from cgsa.service.links.secret import Secret
from cgsa.service.rights import ROLES, Role, check_patterns

EVERYBODY = "*"
"""Stands for everybody whom the provider lets log in."""


@dataclass(frozen=True)
class GroupRights:
    """What the members of a group may do."""

    group: str
    """A value of the claim with the groups, or ``*`` for everybody."""
    role: Role
    """What they may do: viewer, operator or admin."""
    machines: tuple[str, ...] = ()
    """Names or patterns of machines; empty means all."""

    def __post_init__(self) -> None:
        if self.role not in ROLES or self.role == "sender":
            raise ConfigError(
                f"oidc.rights of {self.group!r}: role {self.role!r}; expected viewer, operator or admin, since a "
                "sender sees no pages"
            )
        try:
            check_patterns(self.machines)
        except DataError as error:
            raise ConfigError(f"oidc.rights of {self.group!r}: {error}") from error


@dataclass(frozen=True)
class OidcConfig:
    """An identity provider, and the rights of its groups."""

    issuer: str
    """Address of the provider, exactly as its discovery document states it."""
    client_id: str
    client_secret: Secret | None = None
    """None for a public client, which proves itself by PKCE alone."""
    label: str = "single sign-on"
    """What the button of the login page says after "Log in with"."""
    scopes: tuple[str, ...] = ("profile",)
    """Asked of the provider besides ``openid``."""
    name_claim: str = "preferred_username"
    """Claim with the name that pages and audit show; a dot leads into a table, as in ``realm_access.roles``."""
    groups_claim: str = "groups"
    """Claim with the groups or roles: a text or a list of texts."""
    rights: tuple[GroupRights, ...] = ()
    """The first entry whose group a person belongs to holds; without one, the person may not log in."""
    ca: str | None = None
    """File with the certificates to check that of the provider with; None takes those of the system."""

    def __post_init__(self) -> None:
        if not is_safe_address(self.issuer):
            raise ConfigError(f"oidc.issuer {self.issuer!r}; expected an https address without query")
        if not self.rights:
            raise ConfigError("oidc.rights is empty; expected at least one group with a role, or nobody could log in")

    def rights_of(self, groups: Sequence[str]) -> GroupRights | None:
        """Return what a member of these groups may do; None if nothing."""
        return next((one for one in self.rights if one.group == EVERYBODY or one.group in groups), None)


def is_safe_address(address: str) -> bool:
    """Return whether nobody on the way can read or change what is sent to an address.

    >>> is_safe_address("https://login.plant"), is_safe_address("http://127.0.0.1:9000"), is_safe_address("http://plant")
    (True, True, False)
    """
    parts = urlsplit(address)
    if parts.query or parts.fragment or not parts.hostname:
        return False
    if parts.scheme == "https":
        return True
    try:
        local = parts.hostname == "localhost" or ip_address(parts.hostname).is_loopback
    except ValueError:
        local = False
    return parts.scheme == "http" and local
