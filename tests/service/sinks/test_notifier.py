"""Notifications from the alarm to their receivers: what arrived, what failed, what escalated, and maintenance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cgsa.live.alarms import AlarmConfig
from cgsa.live.commands import Command
from cgsa.live.plant import MachineConfig, Plant
from cgsa.live.worker import WorkerConfig
from cgsa.service.auth import Authenticator
from cgsa.service.context import ServiceContext
from cgsa.service.limits import RequestLimits
from cgsa.service.notification_metrics import notification_metrics
from cgsa.service.rights import Person
from cgsa.service.sinks import AlarmSinks, EscalationConfig
from cgsa.service.sinks.delivery_log import NotificationSummary, summarise
from tests.machines import bundle
from tests.service.sinks.notifications import Receiver, raise_alarm
from tests.service.sources.counterparts import running, until

STEPS = EscalationConfig(("shift", "lead", "manager"), undelivered_after=60.0, unacknowledged_after=600.0)
SEVERE = AlarmConfig(severities={"no data": "high"})
ANN = Person("ann", "operator")


@dataclass(eq=False)
class Desk:
    """A plant with three receivers, a log, and a clock that the test sets."""

    folder: Path
    receivers: dict[str, Receiver]
    now: float = 1_700_000_000.0
    stack: ExitStack = field(default_factory=ExitStack)

    def open(self) -> None:
        self.plant = self.stack.enter_context(
            Plant(self.folder / "plant", threads=1, config=WorkerConfig(checkpoint_seconds=1e9))
        )
        tables = [{"kind": "webhook", "name": name, "url": one.url} for name, one in self.receivers.items()]
        tables[-1]["everything"] = True  # type: ignore[assignment] # a setting
        self.sinks = self.stack.enter_context(
            AlarmSinks(self.plant, self.folder / "outbox", tables, escalation=STEPS, clock=lambda: self.now)
        )
        self.plant.add(MachineConfig("m1", self.folder / "model", profile="paper", alarms=SEVERE))

    def play(self, *steps: Callable[[], Awaitable[object]]) -> None:
        async def main() -> None:
            async with running(self.sinks.run()):
                for step in steps:
                    await step()

        asyncio.run(main())

    async def raise_alarm(self) -> None:
        await asyncio.to_thread(raise_alarm, self.plant)

    async def command(self, name: str) -> None:
        await asyncio.to_thread(lambda: self.plant.worker("m1").command(Command(name, "ann")).result(10))  # type: ignore[arg-type]

    def summary(self) -> NotificationSummary:
        self.plant.store.flush()
        with self.plant.store.read() as snapshot:
            return summarise(snapshot.deliveries("m1", case=1).rows, STEPS.steps)

    def got(self, name: str) -> list[dict[str, object]]:
        return [json.loads(body) for _, body in self.receivers[name].got]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    bundle().save(tmp_path / "model")
    with ExitStack() as receivers:
        found = Desk(tmp_path, {name: receivers.enter_context(Receiver()) for name in (*STEPS.steps, "log")})
        with found.stack:
            found.open()
            yield found


def test_notified_means_delivered_and_a_failed_delivery_escalates(desk: Desk) -> None:
    desk.receivers["shift"].answer = lambda _: 500

    async def check() -> None:
        await desk.raise_alarm()
        await until(lambda: desk.summary().attempts >= 2)
        found = desk.summary()
        assert (found.state, found.undelivered, found.escalated) == ("notifying", ("shift",), "")
        assert "the receiver answers 500" in found.error
        assert not desk.receivers["lead"].got
        desk.now += 61
        await until(lambda: desk.summary().state == "notified")
        found = desk.summary()
        assert set(found.delivered) == {"lead", "log"}
        assert found.escalated.startswith("not delivered to shift within 1 min: the receiver answers 500")
        assert desk.got("lead")[0]["reason"] == found.escalated
        desk.receivers["shift"].answer = lambda _: 204
        await until(lambda: len(desk.receivers["shift"].got) == 1)
        await until(lambda: "shift" in desk.summary().delivered)

    desk.play(check)


def test_an_alarm_that_nobody_acknowledges_escalates_step_by_step(desk: Desk) -> None:
    async def check() -> None:
        await desk.raise_alarm()
        await until(lambda: desk.summary().state == "notified")
        desk.now += 601
        await until(lambda: len(desk.receivers["lead"].got) == 1)
        assert desk.got("lead")[0]["reason"] == "not acknowledged 10 min after shift was notified"
        await until(lambda: "lead" in desk.summary().delivered)
        await desk.command("acknowledge")
        desk.now += 6000
        desk.sinks.notifier.check()
        assert desk.sinks.notifier.escalated == 1
        await until(lambda: [one["change"] for one in desk.got("log")] == ["opened", "acknowledged"])
        assert desk.got("manager") == []

    desk.play(check)


def test_a_machine_that_catches_up_escalates_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        await desk.raise_alarm()
        await until(lambda: desk.summary().state == "notified")
        worker = desk.plant.worker("m1")
        present = worker.status()
        # The acknowledgement may be among what waits.
        monkeypatch.setattr(worker, "status", lambda: replace(present, work="catching up"))
        desk.now += 601
        desk.sinks.notifier.check()
        assert desk.sinks.notifier.escalated == 0
        monkeypatch.undo()
        await until(lambda: desk.sinks.notifier.escalated == 1)

    desk.play(check)


def test_an_alarm_in_a_maintenance_is_recorded_and_told_at_its_end(desk: Desk) -> None:
    desk.sinks.calendar.add(ANN, ("m*",), desk.now, desk.now + 3600, reason="new belt")

    async def check() -> None:
        await desk.raise_alarm()
        await until(lambda: len(desk.receivers["log"].got) == 1)
        assert desk.got("log")[0]["notify"] is False
        assert desk.summary().state == "held"
        desk.now += 3500
        desk.sinks.notifier.check()
        assert desk.got("shift") == []
        desk.now += 101
        await until(lambda: len(desk.receivers["shift"].got) == 1)
        assert str(desk.got("shift")[0]["reason"]).endswith("during a maintenance that is over now")
        await until(lambda: desk.summary().state == "notified")
        assert desk.got("lead") == []

    desk.play(check)


def test_what_is_acknowledged_in_a_maintenance_is_not_told_at_its_end(desk: Desk) -> None:
    window = desk.sinks.calendar.add(ANN, ("m1",), desk.now, desk.now + 3600, reason="new belt")

    async def check() -> None:
        await desk.raise_alarm()
        await desk.command("acknowledge")
        desk.sinks.calendar.end(window.number, ANN)
        await until(lambda: desk.summary().state == "withdrawn")
        assert desk.got("shift") == []

    desk.play(check)


def test_a_restart_continues_where_the_escalation_was(desk: Desk) -> None:
    async def fail() -> None:
        desk.receivers["shift"].answer = lambda _: 500
        await desk.raise_alarm()
        await until(lambda: desk.summary().attempts >= 1 and "log" in desk.summary().delivered)

    async def go_on() -> None:
        assert desk.summary().state == "notifying"
        desk.now += 61
        await until(lambda: desk.summary().state == "notified")
        assert [one["reason"] for one in desk.got("lead")] == [desk.summary().escalated]
        # The machine repeated its alarm after the restart; nobody is told twice.
        assert len(desk.got("log")) == 1

    desk.play(fail)
    desk.stack.close()
    desk.open()
    desk.play(go_on)


def test_metrics_say_what_was_not_delivered(desk: Desk) -> None:
    desk.receivers["shift"].answer = lambda _: 500
    desk.sinks.calendar.add(ANN, ("other",), desk.now, desk.now + 3600, reason="oil")
    context = ServiceContext.of(desk.plant, Authenticator(desk.plant.store), RequestLimits(), sinks=desk.sinks)

    def value(family: str, **labels: str) -> float:
        metrics = {one.name: one for one in notification_metrics(context)}
        return next(one.value for one in metrics[family].samples if labels.items() <= one.labels.items())

    async def check() -> None:
        await desk.raise_alarm()
        await until(lambda: desk.summary().attempts >= 1)
        await until(lambda: value("cgsa_undelivered_notifications", name="log", state="notifying") == 0)
        assert value("cgsa_undelivered_notifications", name="shift", state="notifying") == 1
        assert value("cgsa_notification", machine="m1", state="notifying") == 1
        assert value("cgsa_maintenance", machine="m1") == 0
        desk.now += 61
        await until(lambda: value("cgsa_notification", machine="m1", state="notified") == 1)
        assert value("cgsa_escalations") == 1

    desk.play(check)
    context.trends.close()


def test_a_sink_that_was_removed_delivers_nothing_any_more(desk: Desk) -> None:
    async def fail() -> None:
        desk.receivers["log"].answer = lambda _: 500
        await desk.raise_alarm()
        await until(lambda: desk.summary().attempts >= 1)

    desk.play(fail)
    desk.stack.close()
    del desk.receivers["log"]
    desk.open()
    assert desk.summary().error == "the sink is no longer in the configuration"
