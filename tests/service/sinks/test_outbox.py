from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.service.sinks import outbox as outbox_module
from cgsa.service.sinks.outbox import Notification, Outbox
from tests.live.faults import failing
from tests.service.sinks.notifications import change, ids, progress, put


def test_notifications_survive_the_process_unchanged(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, ["a"], clock=lambda: 77.0)
    put(outbox, 3, 5)
    outbox.close()
    again = Outbox(tmp_path, ["a"])
    assert ids(again) == ["m1/3/0", "m1/5/0"]
    notification = next(notification for _, notification in again.read(1))
    assert notification is not None
    assert json.loads(notification.body()) == {"id": "m1/5/0", "noticed": 77.0, **json.loads(change(5).to_json())}
    assert Notification.from_bytes(notification.to_bytes()) == notification
    again.close()


def test_repeated_notifications_are_recognised_by_content(tmp_path: Path) -> None:
    first = Outbox(tmp_path, ["a"])
    put(first, 3, 5)
    assert not first.put("m1", 5, 0, change(5))
    first.close()
    second = Outbox(tmp_path, ["a"])
    assert not second.put("m1", 3, 0, change(3))
    assert not second.put("m1", 5, 0, change(5))
    # A power failure took the end of the journal, and something else came to stand at its place.
    assert second.put("m1", 5, 0, change(6))
    assert not second.put("m1", 5, 0, change(6))
    assert second.put("m1", 5, 1, change(5))
    assert second.put("m2", 5, 0, change(5))
    assert ids(second) == ["m1/3/0", "m1/5/0", "m1/5/0", "m1/5/1", "m2/5/0"]
    second.close()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=20), st.sets(st.integers(0, 20)))
def test_each_notification_is_kept_once(places: list[tuple[int, int]], kills: set[int]) -> None:
    with TemporaryDirectory() as folder:
        outbox = Outbox(folder, ["a"])
        for place, (position, index) in enumerate(places):
            if place in kills:
                outbox.close()
                outbox = Outbox(folder, ["a"])
            outbox.put("m1", position, index, change(position))
        assert ids(outbox) == list(dict.fromkeys(f"m1/{position}/{index}" for position, index in places))
        outbox.close()


def test_a_new_reader_gets_no_earlier_notifications(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, ["a"])
    put(outbox, 1, 2)
    outbox.advance("a", 1)
    outbox.close()
    outbox = Outbox(tmp_path, ["a", "b"])
    assert (outbox.position("a"), outbox.position("b")) == (1, 2)
    put(outbox, 3)
    outbox.close()
    outbox = Outbox(tmp_path, ["b", "a"])
    assert (outbox.position("a"), outbox.position("b")) == (1, 2)
    outbox.close()


def test_delivered_notifications_are_deleted_except_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "SEGMENT_BYTES", 2000)
    monkeypatch.setattr(outbox_module, "KEPT", 5)
    outbox = Outbox(tmp_path, ["a", "b"])
    put(outbox, *range(50))
    outbox.advance("a", 50)
    outbox.save()
    assert len(ids(outbox)) == 50
    outbox.advance("b", 20)
    outbox.save()
    begin = outbox._journal.begin
    assert 10 < begin <= 20
    outbox.advance("b", 50)
    outbox.save()
    begin = outbox._journal.begin
    assert 35 < begin <= 45
    assert len(outbox._known) == 50 - begin
    assert not outbox.put("m1", 49, 0, change(49))
    outbox.close()
    again = Outbox(tmp_path, ["a", "b"])
    assert not again.put("m1", 45, 0, change(45))
    again.close()


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": "x"}', '{"a": null}', "\ud800"])
def test_without_progress_all_notifications_are_sent_again(tmp_path: Path, text: str) -> None:
    outbox = Outbox(tmp_path, ["a"])
    put(outbox, 1, 2)
    outbox.advance("a", 2)
    outbox.close()
    (tmp_path / "progress.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    outbox = Outbox(tmp_path, ["a"])
    assert outbox.position("a") == 0
    outbox.close()


def test_positions_lost_in_a_power_failure_are_not_reused(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, ["a"])
    put(outbox, 1)
    outbox.close()
    (tmp_path / "progress.json").write_text('{"a": 4}')
    outbox = Outbox(tmp_path, ["a"])
    put(outbox, 9)
    assert ids(outbox, outbox.position("a")) == ["m1/9/0"]
    assert ids(outbox) == ["m1/1/0", None, "m1/9/0"]
    outbox.close()


def test_a_full_disk_raises_no_error_and_readers_get_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "MAX_HELD", 3)
    outbox = Outbox(tmp_path, ["a"])
    put(outbox, 0)
    with failing(1, lasting=True):
        put(outbox, 1, 2, 3)
        assert not outbox.put("m1", 4, 0, change(4))
        assert not outbox.put("m1", 3, 0, change(3))
        assert ids(outbox) == [f"m1/{n}/0" for n in range(4)]
        assert (outbox.end, outbox.lost) == (4, 1)
        outbox.advance("a", 3)
        with pytest.raises(DataError, match="cannot be written"):
            outbox.save()
        assert ids(outbox, 3) == ["m1/3/0"]
    outbox.flush()
    put(outbox, 5)
    assert ids(outbox, 3) == ["m1/3/0", "m1/5/0"]
    outbox.advance("a", 4)
    outbox.close()
    assert progress(tmp_path) == {"a": 4}
    again = Outbox(tmp_path, ["a"])
    assert ids(again) == [f"m1/{n}/0" for n in (0, 1, 2, 3, 5)]
    again.close()


def test_threads_may_share_it(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, ["a"])

    def put_many(machine: str) -> None:
        for n in range(100):
            outbox.put(machine, n, 0, change(n))

    threads = [Thread(target=put_many, args=(machine,)) for machine in ("m1", "m2", "m3")]
    for thread in threads:
        thread.start()
    for n in range(50):
        outbox.advance("a", n)
        outbox.save()
    for thread in threads:
        thread.join()
    found = ids(outbox)
    for machine in ("m1", "m2", "m3"):
        of_one = [each for each in found if each and each.startswith(machine)]
        assert of_one == [f"{machine}/{n}/0" for n in range(100)]
    outbox.close()
