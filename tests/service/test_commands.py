from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from starlette.requests import Request

from cgsa.live.commands import Name
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.store import AuditEntry
from cgsa.service import commands
from cgsa.service.auth import Authenticator
from cgsa.service.commands import COMMAND_ROLES, send_audited
from cgsa.service.context import ServiceContext
from cgsa.service.errors import RefusedError
from cgsa.service.limits import RequestLimits
from cgsa.service.refusal_log import MAX_SIMILAR
from cgsa.service.rights import NotAllowedError, Role
from tests.machines import bundle
from tests.service.running_service import MACHINE, running_service


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServiceContext]:
    bundle().save(tmp_path / "model")
    with Plant(tmp_path / "plant", threads=1) as plant:
        plant.add(MachineConfig("one", tmp_path / "model", profile="paper"))
        yield ServiceContext.of(plant, Authenticator(plant.store), RequestLimits())


def request(context: ServiceContext, role: Role) -> Request:
    token = context.authenticator.create_token(f"a-{role}", role)
    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/machine/one", "query_string": b"", "headers": headers}
    return Request({**scope, "server": ("localhost", 80), "scheme": "http", "client": ("127.0.0.1", 5)})


def audited(context: ServiceContext) -> tuple[AuditEntry, ...]:
    context.plant.store.flush()
    with context.plant.store.read() as snapshot:
        return snapshot.audit().rows


def test_every_command_of_people_has_a_role_and_the_service_keeps_its_own() -> None:
    assert set(get_args(Name)) - set(COMMAND_ROLES) == {"silence", "remark", "clock", "refuse", "skip", "end_recording"}
    assert {name for name, role in COMMAND_ROLES.items() if role == "admin"} == {"reset", "roll_back"}
    assert "viewer" not in COMMAND_ROLES.values()


def test_a_command_is_carried_out_and_audited_under_the_name_of_the_person(context: ServiceContext) -> None:
    assert asyncio.run(send_audited(context, request(context, "operator"), "one", "freeze", "a look")) is True
    assert context.plant.worker("one").status().frozen
    (entry,) = audited(context)
    assert (entry.who, entry.what, entry.machine, entry.origin, entry.result) == (
        "a-operator",
        "freeze",
        "one",
        "127.0.0.1",
        "ok",
    )
    assert entry.details == {"text": "a look"}


def test_a_command_beyond_the_role_is_refused_and_audited(context: ServiceContext) -> None:
    with pytest.raises(NotAllowedError, match="needs operator"):
        asyncio.run(send_audited(context, request(context, "viewer"), "one", "freeze"))
    assert not context.plant.worker("one").status().frozen
    (entry,) = audited(context)
    assert entry.who == "a-viewer"
    assert entry.result == "403 a-viewer is viewer; that needs operator"


def test_a_revoked_token_sends_nothing(context: ServiceContext) -> None:
    connection = request(context, "admin")
    context.authenticator.revoke("a-admin")
    with pytest.raises(NotAllowedError, match="valid token"):
        asyncio.run(send_audited(context, connection, "one", "reset"))
    assert audited(context)[0].who == "nobody"


def test_a_command_that_does_not_apply_says_why(context: ServiceContext) -> None:
    with pytest.raises(RefusedError, match="no case is open"):
        asyncio.run(send_audited(context, request(context, "operator"), "one", "acknowledge", "seen"))
    (entry,) = audited(context)
    assert entry.details == {"text": "seen"}
    assert entry.result.startswith("409 ")
    assert "no case is open" in entry.result


def test_an_unknown_machine_is_refused(context: ServiceContext) -> None:
    with pytest.raises(RefusedError, match="no machine 'two'"):
        asyncio.run(send_audited(context, request(context, "operator"), "two", "freeze"))
    assert len(audited(context)) == 1


def test_repeated_refusals_do_not_fill_the_audit(context: ServiceContext) -> None:
    connection = request(context, "viewer")
    for _ in range(MAX_SIMILAR + 3):
        with pytest.raises(NotAllowedError):
            asyncio.run(send_audited(context, connection, "one", "freeze"))
    entries = audited(context)
    assert len(entries) == MAX_SIMILAR
    assert "not written down" in str(entries[0].details["more"])


def test_a_command_that_has_to_wait_is_accepted(context: ServiceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "COMMAND_SECONDS", 0.0)
    worker = context.plant.worker("one")
    connection = request(context, "operator")
    with monkeypatch.context() as busy:
        busy.setattr(worker, "work", lambda: False)
        assert asyncio.run(send_audited(context, connection, "one", "freeze")) is False
    assert isinstance(context.plant, Plant)
    context.plant.wait_until_idle()
    assert worker.status().frozen
    assert audited(context)[0].result == "ok"


def test_a_command_is_for_the_case_that_the_person_saw(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        context: ServiceContext = service.app.state.context
        connection = request(context, "operator")

        def close(case: int) -> bool:
            return asyncio.run(send_audited(context, connection, MACHINE, "close", case=case))

        service.feed(40)
        assert close(1)
        service.feed(40, first=40)
        with pytest.raises(RefusedError, match="case 1 of pump-1 is over; its newest is 2"):
            close(1)
        with pytest.raises(RefusedError, match="has no case 3"):
            close(3)
        newest = service.plant.worker(MACHINE).watch.alarms.case
        assert newest is not None
        assert (newest.number, newest.open) == (2, True)
        results = [(entry.result.partition(" ")[0], entry.details["case"]) for entry in service.audit()[:3]]
    assert results == [("404", 3), ("409", 1), ("ok", 1)]
