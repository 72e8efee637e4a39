from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nicegui import Client, ui

from cgsa.events import CommissioningStatus
from cgsa.live.commands import COMMISSIONING_NAMES
from cgsa.service.dashboard.actions import DialogAnswer
from cgsa.service.dashboard.machine import commissioning_panel
from cgsa.service.dashboard.machine.commissioning_panel import CommissioningPanel
from tests.machines import ensemble_bundle
from tests.service.dashboard.machine.test_alarm_panel import page
from tests.service.running_service import MACHINE, RunningService, running_service
from tests.starts import steady

Action = Callable[[CommissioningPanel], Awaitable[None]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(tmp_path, model=ensemble_bundle()) as found:
        found.feed_samples(steady("health", strange=2.0))
        yield found


def visit(service: RunningService, *actions: Action) -> tuple[str, set[str]]:
    """Take actions on the page; return the text and the commands that it then shows."""
    shown: list[tuple[str, set[str]]] = []

    async def go() -> None:
        with Client(ui.page("/commissioning-panel-test"), request=None):
            panel = CommissioningPanel(page(service), MACHINE)
            for action in actions:
                await action(panel)
            await panel.refresh()
            offered = {str(name) for name, one in panel._buttons.items() if one.visible}
            shown.append((panel._text.text, offered if panel._card.visible else set()))

    asyncio.run(go())
    return shown[0]


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the page reports; every dialog is confirmed with its first choices."""
    messages: list[str] = []

    async def answer(*_: Any, lists: Any = (), **__: Any) -> DialogAnswer:
        return DialogAnswer("inspected", tuple(choices[0] for _, choices in lists))

    monkeypatch.setattr(commissioning_panel, "ask", answer)
    monkeypatch.setattr(ui, "notify", lambda text, **_: messages.append(text))
    return messages


def status(service: RunningService) -> CommissioningStatus:
    found = service.plant.worker(MACHINE).watch.commissioning
    assert found is not None
    return found


def test_a_question_is_shown_and_answered(service: RunningService) -> None:
    text, offered = visit(service)
    assert text == "Question: looks like wear; confirm healthy, or mark as faulty"
    assert offered == COMMISSIONING_NAMES - {"withdraw_reference"}
    text, offered = visit(service, CommissioningPanel._confirm)
    assert text == "Commissioned: reference of this machine in use"
    assert offered == {"commission", "take_reference", "withdraw_reference"}
    text, _ = visit(service, CommissioningPanel._withdraw)
    assert text.startswith("Reference taken back")


def test_a_machine_is_marked_as_faulty_or_commissioned_again(service: RunningService, answers: list[str]) -> None:
    text, offered = visit(service, CommissioningPanel._mark)
    assert text.startswith("Marked as faulty")
    assert offered == {"commission", "take_reference"}
    visit(service, CommissioningPanel._repeat)
    assert (status(service).state, status(service).observed) == ("waiting", 0.0)
    visit(service, CommissioningPanel._take)
    assert "the history has no complete block yet" in answers[-1]
    assert [entry.what for entry in service.audit()[:3]] == ["take reference", "commission", "mark faulty"]


def test_methods_without_commissioning_show_nothing(tmp_path: Path) -> None:
    with running_service(tmp_path) as found:
        found.feed(4)
        assert visit(found) == ("…", set())
