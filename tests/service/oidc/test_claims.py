from __future__ import annotations

import re

import pytest

from cgsa.service.auth import NAME
from cgsa.service.oidc.claims import MAX_NAME, PREFIX, find_claim, person_of
from cgsa.service.oidc.config import GroupRights, OidcConfig
from cgsa.service.rights import NotAllowedError, Person

CONFIG = OidcConfig("https://login.plant", "cgsa", rights=(GroupRights("press", "operator", ("press-*",)),))


@pytest.mark.parametrize("groups", ["press", ["x", "press"], ["press", 7]])
def test_groups_are_a_text_or_a_list(groups: object) -> None:
    claims = {"preferred_username": "Ann Smith", "groups": groups}
    assert person_of(claims, CONFIG) == Person("oidc:Ann Smith", "operator", ("press-*",))


@pytest.mark.parametrize("groups", [None, [], "pres", ["PRESS"], {"press": True}, 7])
def test_anything_else_gives_no_rights(groups: object) -> None:
    with pytest.raises(NotAllowedError, match="ann logged in at the provider, but is"):
        person_of({"preferred_username": "ann", "groups": groups}, CONFIG)


@pytest.mark.parametrize("name", [None, "", "  ", 7, "a\nb", "a\x1b[2J", "x" * (MAX_NAME + 1), "\u202eann"])
def test_a_name_must_be_fit_to_be_shown(name: object) -> None:
    with pytest.raises(NotAllowedError, match="expected a name of at most") as found:
        person_of({"preferred_username": name, "groups": "press"}, CONFIG)
    assert found.value.status == 403


def test_no_token_can_be_named_as_a_person_of_the_provider() -> None:
    assert not re.fullmatch(NAME, f"{PREFIX}ann")


def test_a_claim_in_a_table() -> None:
    claims = {"a.b": 1, "a": {"b": 2, "c": {"d": 3}}}
    assert [find_claim(claims, path) for path in ("a.b", "a.c.d", "a.c.e", "a.b.c", "x")] == [1, 3, None, None, None]
