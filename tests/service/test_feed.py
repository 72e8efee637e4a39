from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.events import Note
from cgsa.live.plant import Plant
from cgsa.service.errors import RefusedError
from cgsa.service.feed import STORED, EventFeed, FeedItem
from cgsa.service.limits import RequestLimits
from cgsa.service.rights import NotAllowedError
from tests.service.running_service import MACHINE, RunningService, running_service


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    with Plant(tmp_path_factory.mktemp("feed"), threads=1) as found:
        yield found


def note(number: int, machine: str = "m") -> Note:
    return Note(machine, float(number), "test", f"note {number}")


def texts(items: list[FeedItem]) -> list[str]:
    return [json.loads(item.json)["text"] for item in items]


def test_numbers_that_json_does_not_know_are_null() -> None:
    details = {"seconds": float("nan"), "of": (1, {"deep": float("inf")}), "odd": object}
    item = FeedItem("run", 0, "m", Note("m", 1.0, "gap", "x", details), 7, 0)
    found = json.loads(item.json)
    assert found["details"] == {"seconds": None, "of": [1, {"deep": None}], "odd": str(object)}
    assert [found[name] for name in ("event", "version", "machine", "position", "index")] == ["note", 1, "m", 7, 0]


@given(st.lists(st.integers(1, 4), max_size=20), st.integers(0, 40))
def test_the_ring_buffer_keeps_the_newest_and_detects_loss(plant: Plant, entries: list[int], number: int) -> None:
    feed = EventFeed(plant, size=8)
    texts_sent: list[str] = []
    for position, count in enumerate(entries):
        events = tuple(note(len(texts_sent) + index) for index in range(count))
        feed._receive("m", position, events)
        texts_sent += [event.text for event in events]
    items, lost = feed.since(number)
    assert texts(items) == texts_sent[max(number, len(texts_sent) - 8) :]
    assert lost == (number < len(texts_sent) - 8)
    assert [item.number for item in items] == list(range(max(number, len(texts_sent) - 8, 0), len(texts_sent)))
    feed.close()


def test_a_listener_resumes_from_the_ring_buffer(plant: Plant) -> None:
    feed = EventFeed(plant, size=8)
    feed._receive("m", 0, tuple(note(number) for number in range(5)))
    items, _ = feed.since(0)
    number, stored, lost = feed.resume("m", items[2].id)
    assert (texts(feed.since(number)[0]), stored, lost) == (["note 3", "note 4"], [], False)
    assert feed.resume(None, items[4].id) == (5, [], False)
    assert feed.resume(None, None) == (5, [], False)
    feed.close()


def test_lost_events_of_all_machines_are_reported(plant: Plant) -> None:
    feed = EventFeed(plant, size=4)
    feed._receive("m", 0, tuple(note(number) for number in range(3)))
    first = feed.since(0)[0][0].id
    feed._receive("m", 1, tuple(note(number) for number in range(3, 9)))
    number, stored, lost = feed.resume(None, first)
    assert (texts(feed.since(number)[0]), stored, lost) == (["note 5", "note 6", "note 7", "note 8"], [], True)
    other = EventFeed(plant, size=4)
    assert other.resume(None, first) == (0, [], True), "of another life of the service"
    feed.close()
    other.close()


@pytest.mark.parametrize(
    "last",
    [
        "",
        "nonsense",
        "zzzzzzzz-1-1.0",
        "00000000-1-",
        "00000000-1-e+-",
        "00000000-1-nan",
        "x" * 64,
        "\x00",
        "00000000-99999999999999999999-1.0",
    ],
)
def test_an_invalid_id_loses_only_earlier_events(plant: Plant, last: str) -> None:
    feed = EventFeed(plant)
    feed._receive("m", 0, (note(0),))
    number, stored, lost = feed.resume("m", last)
    assert number in {0, 1}
    assert (stored, lost) == ([], True)
    feed.close()


@pytest.fixture
def alarmed(tmp_path: Path) -> Iterator[RunningService]:
    with running_service(tmp_path) as found:
        found.feed(40)
        yield found


def kinds(items: list[FeedItem]) -> list[tuple[object, ...]]:
    return [item.key() for item in items]


def test_older_events_of_one_machine_come_from_the_store(alarmed: RunningService) -> None:
    whole = alarmed.app.state.context.feed
    every, _ = whole.since(0)
    seen = every[2]
    # A service that began anew has heard of the last two again, and of nothing before.
    feed = EventFeed(alarmed.plant)
    for item in every[-2:]:
        feed._receive(MACHINE, item.position, (item.event,))
    number, stored, lost = feed.resume(MACHINE, seen.id)
    assert (number, lost) == (0, False)
    assert all(item.run == STORED for item in stored)
    later = [item for item in every if item.time >= seen.time]
    resumed = [*stored, *feed.since(number)[0]]
    assert sorted(map(repr, kinds(resumed))) == sorted(map(repr, kinds(later))), "each once"
    assert [item.time for item in resumed] == sorted(item.time for item in resumed)
    # Cut off in the middle of that, one resumes there.
    again = feed.resume(MACHINE, stored[-1].id)[1]
    assert kinds(again) == kinds([item for item in stored if item.time >= stored[-1].time])
    assert feed.resume("other", seen.id)[1] == []
    feed.close()


def test_listeners_are_woken_from_other_threads(plant: Plant) -> None:
    feed = EventFeed(plant)

    async def listen() -> list[Any]:
        news = feed.subscribe()
        assert feed.listeners == 1
        await asyncio.to_thread(feed._receive, "m", 0, (note(0),))
        await asyncio.wait_for(news.wait(), 5)
        feed.unsubscribe(news)
        assert feed.listeners == 0
        return texts(feed.since(0)[0])

    assert asyncio.run(listen()) == ["note 0"]
    feed.close()


def test_a_listener_whose_loop_has_ended_is_ignored(plant: Plant) -> None:
    feed = EventFeed(plant)

    async def forget() -> asyncio.Event:
        return feed.subscribe()

    news = asyncio.run(forget())
    feed._receive("m", 0, (note(0),))
    assert len(feed.since(0)[0]) == 1
    feed.unsubscribe(news)
    feed.close()


def test_listeners_are_limited_for_each_owner_and_for_all(plant: Plant) -> None:
    feed = EventFeed(plant, RequestLimits(streams=3, token_streams=2))

    async def listen() -> None:
        kept = [feed.subscribe("ann"), feed.subscribe("ann")]
        with pytest.raises(NotAllowedError, match="2 clients of ann listen already") as often:
            feed.subscribe("ann")
        assert (often.value.status, often.value.retry_after) == (429, 10.0)
        kept.append(feed.subscribe("bob"))
        with pytest.raises(RefusedError, match="3 clients listen already"):
            feed.subscribe("cleo")
        feed.unsubscribe(kept.pop(0))
        kept.append(feed.subscribe("ann"))
        kept.clear()
        assert feed.listeners == 0, "a listener that is dropped leaves no place behind"

    asyncio.run(listen())
    feed.close()


def test_a_closed_feed_receives_nothing(plant: Plant) -> None:
    feed = EventFeed(plant)
    feed.close()
    feed.close()
    plant._publish("m", 0, (note(0),))
    assert feed.since(0) == ([], False)
