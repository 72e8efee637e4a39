from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from nicegui import ui
from starlette.requests import Request

from cgsa.live.plant import MachineConfig, Plant
from cgsa.service.auth import Authenticator
from cgsa.service.context import ServiceContext
from cgsa.service.dashboard.actions import may_send, send
from cgsa.service.dashboard.page_session import PageSession, login_path
from cgsa.service.limits import RequestLimits
from cgsa.service.rights import Role
from tests.machines import bundle


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServiceContext]:
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1) as plant:
        plant.add(MachineConfig("one", tmp_path / "model", profile="paper"))
        yield ServiceContext.of(plant, Authenticator(plant.store), RequestLimits())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Notifications on the page: type and text."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(ui, "notify", lambda text, *, type, **_: found.append((type, text)))  # noqa: A006 - NiceGUI's name
    return found


def session(context: ServiceContext, role: Role) -> PageSession:
    header = (b"authorization", f"Bearer {context.authenticator.create_token(f'a-{role}', role)}".encode())
    scope = {"type": "http", "method": "GET", "path": "/machine/one", "query_string": b"", "headers": [header]}
    request = Request({**scope, "server": ("localhost", 80), "scheme": "http", "client": ("127.0.0.1", 5)})
    person = context.authenticator.person_of(request)
    assert person is not None
    return PageSession(context, request, person)


def test_a_page_offers_what_the_role_may_send(context: ServiceContext) -> None:
    viewer, operator, admin = (session(context, role) for role in ("viewer", "operator", "admin"))
    assert [may_send(page, "freeze") for page in (viewer, operator, admin)] == [False, True, True]
    assert [may_send(page, "reset") for page in (viewer, operator, admin)] == [False, False, True]


def test_the_result_of_a_command_is_shown(context: ServiceContext, shown: list[tuple[str, str]]) -> None:
    page = session(context, "operator")
    assert asyncio.run(send(page, "one", "freeze")) is True
    assert asyncio.run(send(page, "one", "freeze")) is False
    assert shown == [("positive", "Done"), ("negative", "learning of one is already frozen")]


def test_a_role_is_checked_again_on_the_server(context: ServiceContext, shown: list[tuple[str, str]]) -> None:
    page = session(context, "operator")
    context.authenticator.revoke("a-operator")
    assert may_send(page, "freeze")
    assert asyncio.run(send(page, "one", "freeze")) is False
    assert not context.plant.worker("one").status().frozen
    assert shown[0][0] == "negative"
    assert "valid token" in shown[0][1]


def test_a_command_that_has_to_wait_is_said_to(
    context: ServiceContext, shown: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cgsa.service.commands.COMMAND_SECONDS", 0.0)
    monkeypatch.setattr(context.plant.worker("one"), "work", lambda: False)
    assert asyncio.run(send(session(context, "operator"), "one", "freeze")) is True
    assert shown[0][0] == "warning"
    monkeypatch.undo()
    assert isinstance(context.plant, Plant)
    context.plant.wait_until_idle()


def test_the_login_path_leads_back_to_the_page(context: ServiceContext) -> None:
    assert login_path(session(context, "viewer").request) == "/login?next=%2Fmachine%2Fone"
