"""From the claims of a provider about a person to their name, role and machines."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

from cgsa.service.oidc.config import OidcConfig
from cgsa.service.rights import NotAllowedError, Person

PREFIX = "oidc:"
"""Begin of the names of people of a provider; no token can have such a name."""
MAX_NAME = 59
"""Characters of a name; with the prefix as many as that of a token."""


def find_claim(claims: Mapping[str, object], path: str) -> object:
    """Return a claim by its name, or by names separated by dots that lead into tables; None if it is missing.

    >>> find_claim({"realm_access": {"roles": ["operator"]}}, "realm_access.roles")
    ['operator']
    >>> find_claim({"https://plant.example/groups": "press"}, "https://plant.example/groups")
    'press'
    """
    if path in claims:
        return claims[path]
    first, dot, rest = path.partition(".")
    below = claims.get(first)
    return find_claim(below, rest) if dot and isinstance(below, Mapping) else None


def person_of(claims: Mapping[str, object], config: OidcConfig) -> Person:
    """Return the person that claims describe, or say why they may not log in."""
    name = find_claim(claims, config.name_claim)
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise NotAllowedError(
            f"the provider states {reprlib.repr(name)} as {config.name_claim!r}; expected a name of at most "
            f"{MAX_NAME} printable characters (an administrator can set oidc.name_claim and oidc.scopes)"
        )
    groups = _texts(find_claim(claims, config.groups_claim))
    rights = config.rights_of(groups)
    if rights is None:
        stated = f"of the groups {reprlib.repr(sorted(groups))}" if groups else f"without {config.groups_claim!r}"
        raise NotAllowedError(
            f"{name} logged in at the provider, but is {stated}; none of them has rights here (oidc.rights)"
        )
    return Person(f"{PREFIX}{name.strip()}", rights.role, rights.machines)


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(one for one in values if isinstance(one, str))
