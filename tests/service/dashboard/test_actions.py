from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from starlette.requests import Request

from cgsa.errors import DataError
from cgsa.live.commands import Name
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import AuditEntry
from cgsa.service.auth import Authenticator, NotAllowedError, Role
from cgsa.service.dashboard.actions import NEEDS, carry_out, may
from cgsa.service.dashboard.hall import PageContext
from cgsa.service.dashboard.page_session import PageSession, login_path
from tests.machines import bundle


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[PageContext]:
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1) as plant:
        plant.add(MachineConfig("one", tmp_path / "model", profile="paper"))
        yield PageContext(plant, Authenticator(plant.store))


def visit(hall: PageContext, role: Role) -> tuple[PageSession, str]:
    name = f"a-{role}"
    header = (b"authorization", f"Bearer {hall.guard.create_token(name, role)}".encode())
    scope = {"type": "http", "method": "GET", "path": "/machine/one", "query_string": b"", "headers": [header]}
    request = Request({**scope, "server": ("localhost", 80), "scheme": "http", "client": ("127.0.0.1", 5)})
    person = hall.guard.person_of(request)
    assert person is not None
    return PageSession(hall, request, person), name


def audited(hall: PageContext) -> tuple[AuditEntry, ...]:
    hall.plant.store.flush()
    with hall.plant.store.read() as snapshot:
        return snapshot.audit().rows


def test_every_command_of_people_has_a_role_and_the_service_keeps_its_own() -> None:
    assert set(get_args(Name)) - set(NEEDS) == {"silence", "remark"}
    assert {name for name, role in NEEDS.items() if role == "admin"} == {"reset", "roll_back"}
    assert "viewer" not in NEEDS.values()


def test_a_command_is_carried_out_in_the_name_of_the_person_and_written_down(hall: PageContext) -> None:
    page, name = visit(hall, "operator")
    assert asyncio.run(carry_out(page, "one", "freeze")) == "Done"
    assert hall.plant.worker("one").watch.frozen
    (entry,) = audited(hall)
    assert (entry.who, entry.what, entry.machine, entry.origin, entry.result) == (
        name,
        "freeze",
        "one",
        "127.0.0.1",
        "ok",
    )


def test_what_a_role_may_not_is_refused_on_the_server_and_written_down(hall: PageContext) -> None:
    page, name = visit(hall, "viewer")
    assert not may(page, "freeze")
    with pytest.raises(NotAllowedError, match="needs operator"):
        asyncio.run(carry_out(page, "one", "freeze"))
    assert not hall.plant.worker("one").watch.frozen
    (entry,) = audited(hall)
    assert entry.who == name
    assert entry.result.startswith("refused: a-viewer is viewer")


def test_who_was_let_in_once_is_asked_again(hall: PageContext) -> None:
    page, name = visit(hall, "admin")
    assert may(page, "reset")
    hall.guard.revoke(name)
    with pytest.raises(NotAllowedError, match="good token"):
        asyncio.run(carry_out(page, "one", "reset"))
    assert audited(hall)[0].who == "nobody"


def test_a_command_that_makes_no_sense_says_why(hall: PageContext) -> None:
    page, _ = visit(hall, "operator")
    with pytest.raises(DataError, match="no case is open"):
        asyncio.run(carry_out(page, "one", "acknowledge", "seen"))
    (entry,) = audited(hall)
    assert entry.details == {"text": "seen"}
    assert "no case is open" in entry.result


def test_a_machine_that_is_gone_is_said_to_be(hall: PageContext) -> None:
    page, _ = visit(hall, "operator")
    with pytest.raises(DataError, match="no machine 'two'"):
        asyncio.run(carry_out(page, "two", "freeze"))
    assert len(audited(hall)) == 1


def test_whoever_has_to_log_in_comes_back(hall: PageContext) -> None:
    page, _ = visit(hall, "viewer")
    assert login_path(page.request) == "/login?next=%2Fmachine%2Fone"
