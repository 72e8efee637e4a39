from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nicegui import Client, ui
from starlette.requests import Request

from cgsa.events import Case
from cgsa.live.commands import Command
from cgsa.service.dashboard.actions import DialogAnswer
from cgsa.service.dashboard.machine import alarm_panel
from cgsa.service.dashboard.machine.alarm_panel import AlarmPanel
from cgsa.service.dashboard.page_session import PageSession
from tests.service.running_service import MACHINE, RunningService, running_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(tmp_path) as found:
        found.feed(40)
        yield found


def newest(service: RunningService) -> Case:
    case = service.plant.worker(MACHINE).watch.alarms.case
    assert case is not None
    return case


def page(service: RunningService) -> PageSession:
    headers = [(b"authorization", f"Bearer {service.tokens['operator']}".encode())]
    request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers})
    person = service.authenticator.person_of(request)
    assert person is not None
    return PageSession(service.app.state.context, request, person)


COMMANDS: dict[str, Callable[[AlarmPanel], Awaitable[None]]] = {
    "acknowledge": AlarmPanel._acknowledge,
    "shelve": AlarmPanel._shelve,
    "close": AlarmPanel._close,
    "comment": AlarmPanel._comment,
    "label": AlarmPanel._label,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dialog_never_changes_a_case_that_opened_meanwhile(
    service: RunningService, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def answer_late(*_: Any, **__: Any) -> DialogAnswer:
        """While the person reads the dialog, another closes the case and the next one opens."""

        def change() -> None:
            service.plant.worker(MACHINE).command(Command("close", "another")).result(10)
            service.feed(40, first=40)

        await asyncio.to_thread(change)
        return DialogAnswer("done with it", ("15 minutes", "the last minute"))

    monkeypatch.setattr(alarm_panel, "ask", answer_late)
    messages: list[str] = []
    monkeypatch.setattr(ui, "notify", lambda text, **_: messages.append(text))

    async def visit() -> None:
        with Client(ui.page("/alarm-panel-test"), request=None):
            panel = AlarmPanel(page(service), MACHINE)
            await panel.refresh()
            await COMMANDS[name](panel)

    asyncio.run(visit())
    case = newest(service)
    assert (case.number, case.state, case.shelved_until) == (2, "raised", None)
    service.plant.store.flush()
    with service.plant.store.read() as snapshot:
        assert snapshot.comments(case=2).rows == ()
        assert snapshot.labels(case=2).rows == ()
    assert messages == [f"case 1 of {MACHINE} is over; its newest is 2"]
    assert service.audit()[0].result == f"409 case 1 of {MACHINE} is over; its newest is 2"


def test_commands_are_for_the_case_that_is_shown(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(*_: Any, **__: Any) -> DialogAnswer:
        return DialogAnswer("seen")

    monkeypatch.setattr(alarm_panel, "ask", answer)
    monkeypatch.setattr(ui, "notify", lambda *_, **__: None)

    async def visit() -> None:
        with Client(ui.page("/alarm-panel-test"), request=None):
            panel = AlarmPanel(page(service), MACHINE)
            await panel.refresh()
            await panel._acknowledge()
            await panel._close()
            await panel.refresh()
            await panel._comment()

    asyncio.run(visit())
    assert newest(service).state == "closed"
    assert [entry.details["case"] for entry in service.audit()[:3]] == [1, 1, 1]
    service.plant.store.flush()
    with service.plant.store.read() as snapshot:
        assert [(one.case, one.text) for one in snapshot.comments().rows] == [(1, "seen")]
