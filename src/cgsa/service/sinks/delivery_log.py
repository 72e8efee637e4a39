"""What became of every notification: confirmed by its sinks, still on its way with its last failure, or given up.

The store has all of it. Memory has the newest notifications of each machine, for escalations and metrics.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import ClassVar, Literal, TypeAlias

from cgsa.live.store import MAX_PAGE, DeliveryRecord, DeliveryState, RowSelection, Snapshot, Store
from cgsa.service.links.link import Clock
from cgsa.service.sinks.outbox import Notification

KEPT = 20
"""Notifications per machine in memory, beside those on their way."""
MAX_ERROR = 500
"""Characters of a failure that are stored."""
FINAL: frozenset[DeliveryState] = frozenset({"delivered", "failed", "withdrawn"})
REMOVED = "the sink is no longer in the configuration"

NotificationState: TypeAlias = Literal["none", "held", "notifying", "notified", "failed", "withdrawn"]
"""What became of the newest notification of a case:

- ``none``: there was none, since no sink is configured or the case is shelved;
- ``held``: the machine is under maintenance;
- ``notifying``: not every sink that has to has confirmed it; with escalation, none of the steps has;
- ``notified``: confirmed, by one of the steps of the escalation, or without steps by every sink;
- ``failed``: given up;
- ``withdrawn``: there was nothing to notify about any more when the maintenance ended.
"""


@dataclass(frozen=True)
class NotificationSummary:
    """What became of the newest notification of a case."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {
        "json_schema_serialization_defaults_required": True,
        "use_attribute_docstrings": True,
    }

    state: NotificationState = "none"
    delivered: tuple[str, ...] = ()
    """Sinks that have confirmed it."""
    undelivered: tuple[str, ...] = ()
    """Sinks that have not, and those that gave it up."""
    attempts: int = 0
    """Failed attempts of these."""
    error: str = ""
    """The last failure of these; empty if there was none."""
    escalated: str = ""
    """Why further sinks were notified; empty if none was."""


def summarise(records: Sequence[DeliveryRecord], steps: Sequence[str] = ()) -> NotificationSummary:
    """Return what became of the newest notification among the records of one case."""
    newest = max(((one.position, one.index) for one in records), default=None)
    own = [one for one in records if (one.position, one.index) == newest]
    if not own:
        return NotificationSummary()
    counting = [one for one in own if one.sink in steps] or own
    enough = any if steps else all
    states = {one.state for one in counting}
    state: NotificationState
    if "held" in states or states == {"withdrawn"}:
        state = "held" if "held" in states else "withdrawn"
    elif enough(one.state == "delivered" for one in counting):
        state = "notified"
    else:
        state = "notifying" if "notifying" in states else "failed"
    open_ones = [one for one in own if one.state in {"notifying", "failed"}]
    escalations = [one.reason for one in sorted(own, key=lambda one: one.time) if one.reason]
    return NotificationSummary(
        state=state,
        delivered=tuple(one.sink for one in own if one.state == "delivered"),
        undelivered=tuple(one.sink for one in open_ones),
        attempts=sum(one.attempts for one in open_ones),
        error=next((one.error for one in reversed(open_ones) if one.error), ""),
        escalated=escalations[-1] if escalations else "",
    )


def read_summaries(
    snapshot: Snapshot, cases: Sequence[tuple[str, int]], steps: Sequence[str]
) -> list[NotificationSummary]:
    """Return what became of the newest notification of each case (machine, number)."""
    pick = RowSelection(limit=50)
    return [summarise(snapshot.deliveries(machine, case=number, pick=pick).rows, steps) for machine, number in cases]


@dataclass(eq=False)
class TrackedNotification:
    """A notification with its records by sink."""

    notification: Notification
    records: dict[str, DeliveryRecord] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether nothing more will become of it, unless it escalates."""
        return all(one.state in FINAL for one in self.records.values())


class DeliveryLog:
    """Records what becomes of notifications; usable from any thread."""

    def __init__(self, store: Store, sinks: Sequence[str], *, clock: Clock = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = Lock()
        self._tracked: dict[str, dict[tuple[int, int], TrackedNotification]] = {}
        """Notifications by machine and place in its journal."""
        with store.read() as snapshot:
            stored = snapshot.deliveries(pick=RowSelection(limit=MAX_PAGE)).rows
        for record in reversed(stored):
            self._track(Notification.of_record(record)).records[record.sink] = record
        self.set_sinks(sinks)

    def set_sinks(self, sinks: Sequence[str]) -> None:
        """Give up what waits for sinks that are no longer among these."""
        with self._lock:
            gone = [
                record
                for found in self._tracked.values()
                for one in found.values()
                for record in one.records.values()
                if record.sink not in sinks and record.state not in FINAL
            ]
            for record in gone:
                self._change(record, state="failed", error=REMOVED)

    def newest(self) -> list[TrackedNotification]:
        """Return the newest notification of every machine."""
        with self._lock:
            return [
                TrackedNotification(found[place].notification, dict(found[place].records))
                for found in self._tracked.values()
                if (place := max(found, default=None)) is not None
            ]

    def held(self) -> list[TrackedNotification]:
        """Return the notifications that are held until a maintenance ends, oldest first."""
        with self._lock:
            return [
                TrackedNotification(one.notification, dict(one.records))
                for found in self._tracked.values()
                for _, one in sorted(found.items())
                if any(record.state == "held" for record in one.records.values())
            ]

    def knows(self, notification: Notification) -> bool:
        """Return whether a notification was recorded before."""
        with self._lock:
            found = self._tracked.get(notification.machine, {}).get((notification.position, notification.index))
            return found is not None and found.notification.event == notification.event

    def was_notified(self, sink: str, machine: str, case: int) -> bool:
        """Return whether a sink has confirmed a notification about a case."""
        with self._lock:
            found = self._tracked.get(machine, {}).values()
            return any(
                one.records[sink].state == "delivered" and one.records[sink].case == case
                for one in found
                if sink in one.records
            )

    def undelivered(self) -> Counter[tuple[str, DeliveryState]]:
        """Return how many notifications each sink has not delivered, by their state."""
        with self._lock:
            return Counter(
                (record.sink, record.state)
                for found in self._tracked.values()
                for one in found.values()
                for record in one.records.values()
                if record.state in {"held", "notifying"}
            )

    def ask(
        self, notification: Notification, sinks: Sequence[str], reason: str = "", *, state: DeliveryState = "notifying"
    ) -> None:
        """Record that sinks are to deliver a notification from now on."""
        with self._lock:
            tracked = self._track(notification)
            for sink in sinks:
                record = DeliveryRecord(
                    notification.machine,
                    notification.position,
                    notification.index,
                    int(notification.event["case"]["number"]),
                    sink,
                    self._clock(),
                    state,
                    notification.event_text(),
                    reason,
                )
                tracked.records[sink] = record
                self._store.put_delivery(record)

    def finish(self, notification: Notification, sink: str, state: DeliveryState, error: str = "") -> None:
        """Record that a sink has delivered a notification, or will never."""
        with self._lock:
            found = self._tracked.get(notification.machine, {}).get((notification.position, notification.index))
            if found is not None and sink in found.records:
                self._change(found.records[sink], state=state, error=error)

    def fail(self, sink: str, error: str) -> None:
        """Record that an attempt of a sink failed, for all that it has not delivered."""
        with self._lock:
            waiting = [
                one.records[sink]
                for found in self._tracked.values()
                for one in found.values()
                if sink in one.records and one.records[sink].state == "notifying"
            ]
            for record in waiting:
                self._change(record, state="notifying", error=error, attempts=record.attempts + 1)

    def _track(self, notification: Notification) -> TrackedNotification:
        found = self._tracked.setdefault(notification.machine, {})
        place = notification.position, notification.index
        tracked = found.get(place)
        # After a power failure, the same place may have another content.
        if tracked is None or tracked.notification.event != notification.event:
            tracked = found[place] = TrackedNotification(notification)
        old = [place for place, one in sorted(found.items())[:-KEPT] if one.finished]
        for place in old:
            del found[place]
        return tracked

    def _change(self, record: DeliveryRecord, *, state: DeliveryState, error: str, attempts: int | None = None) -> None:
        changed = replace(
            record,
            state=state,
            error=(error or record.error)[:MAX_ERROR],
            attempts=record.attempts if attempts is None else attempts,
            finished=self._clock() if state in FINAL else None,
        )
        self._tracked[record.machine][record.position, record.index].records[record.sink] = changed
        self._store.put_delivery(changed)
