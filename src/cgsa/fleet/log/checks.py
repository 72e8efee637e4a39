"""The contract of a replayable log, as runnable checks.

Every implementation passes them, and so should yours::

    from cgsa.fleet.log.checks import check_log
    check_log(lambda: MyLog(...))

Each check takes a function that opens the same log once more, as another process would, and uses machines of its own. A
violation raises ``AssertionError``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from uuid import uuid4

from cgsa.fleet.log.contract import LogReader, ReplayableLog
from cgsa.live.segments import JournalRecord

Open = Callable[[], ReplayableLog]
WAIT_SECONDS = 20.0
"""How long a record may take from one process to another."""


def check_log(open_log: Open) -> None:
    """Run all checks on a log."""
    for check in CHECKS:
        check(open_log)


def check_records_come_back_in_order(open_log: Open) -> None:
    """Records of a machine are read as they were written, by any process, from any position."""
    machine, other = _machine(), _machine()
    with open_log() as log:
        _require(log.begin(machine) == log.end(machine) == 0, "a machine without records begins and ends at 0")
        written = []
        for number in range(100):
            payload = bytes([number]) * (1 + 100 * number)
            log.append(other, "command", b"", key=f"n{number}")
            kind = ("block", "hurried")[number % 2]
            written.append(JournalRecord(log.append(machine, kind, payload, key=f"n{number}"), kind, payload))
        positions = [record.position for record in written]
        _require(positions == sorted(set(positions)), "positions increase")
        _require(log.end(machine) == written[-1].end, "a log ends after its newest record")
        _require(log.begin(machine) == 0, "what was never trimmed begins at 0")
    with open_log() as log:
        _require(list(log.read(machine, 0)) == written, "all records are read")
        _require(list(log.read(machine, written[40].position)) == written[40:], "records are read from a position on")
        _require(list(log.read(machine, written[40].end)) == written[41:], "the end of a record leads to the next one")
        _require(not list(log.read(machine, log.end(machine))), "there is nothing after the end")


def check_repeated_records_count_once(open_log: Open) -> None:
    """A record that is appended again with its key, also by another process, is there once."""
    machine = _machine()
    with open_log() as log:
        first = log.append(machine, "block", b"1", key="a")
        second = log.append(machine, "block", b"1", key="b")
        _require(first != second, "records with different keys are different records")
    with open_log() as log:
        _require(
            log.append(machine, "block", b"1", key="a") == first, "a repeated record has the position of the first"
        )
        _require([record.position for record in log.read(machine, 0)] == [first, second], "and counts once")
        other = _machine()
        _require(log.append(other, "block", b"1", key="a") > 0 and log.end(other) > 0, "keys are those of a machine")


def check_reader_follows(open_log: Open) -> None:
    """A reader receives what is written after it was made, in order and once."""
    machine = _machine()
    with open_log() as log, open_log() as writer:
        begin = writer.append(machine, "block", b"before", key="before")
        reader = log.reader(machine, begin)
        _require(_next(reader).payload == b"before", "the record that was there comes first")

        def write() -> None:
            for number in range(300):
                writer.append(machine, "block", b"%d" % number, key=str(number))

        thread = Thread(target=write)
        thread.start()
        found = [_next(reader).payload for _ in range(300)]
        thread.join()
        _require(found == [b"%d" % number for number in range(300)], "records come in order, each once")
        _require(reader.take() is None, "and no other")
        reader.close()


def check_unread_records_wait_in_the_log(open_log: Open) -> None:
    """A reader whose machine is slow keeps few records in memory, and the readers of others go on."""
    slow, fast = _machine(), _machine()
    with open_log() as log:
        for number in range(500):
            log.append(slow, "block", bytes(1000), key=str(number))
        held, quick = log.reader(slow, 0), log.reader(fast, 0)
        log.append(fast, "block", b"x", key="x")
        _require(_next(quick).payload == b"x", "a machine that is slow does not hold up its neighbours")
        _require(held.waiting < 500, "records that are not taken stay in the log")
        for _ in range(500):
            _next(held)
        held.close()
        quick.close()


def check_threads_have_readers_of_their_own(open_log: Open) -> None:
    """Readers that threads open at the same time receive the records of their machines."""
    machines, found = [_machine() for _ in range(16)], dict[str, list[bytes]]()
    with open_log() as log:
        for machine in machines:
            log.append(machine, "block", machine.encode(), key="a")

        def read(machine: str) -> None:
            found[machine] = [record.payload for record in log.read(machine, 0)]

        threads = [Thread(target=read, args=(machine,)) for machine in machines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _require(found == {machine: [machine.encode()] for machine in machines}, "each reader has its own machine")


def check_trimming(open_log: Open) -> None:
    """Trimmed records are gone at the latest when the log says so; those of others, and the newest, stay."""
    machine, other = _machine(), _machine()
    with open_log() as log:
        positions = []
        for number in range(10):
            positions.append(log.append(machine, "block", b"%d" % number, key=str(number)))
            log.append(other, "block", b"%d" % number, key=str(number))
        log.trim(machine, positions[6])
    with open_log() as log:
        begin = log.begin(machine)
        _require(begin <= positions[6], "nothing is trimmed from the position on")
        kept = [record.position for record in log.read(machine, begin)]
        _require(kept == [position for position in positions if position >= begin], "all from the begin on is there")
        _require(len(list(log.read(other, 0))) == 10, "other machines keep their records")
        log.trim(machine, log.end(machine) + 1000)
        _require(log.end(machine) == positions[-1] + 1, "a log does not forget where it ends")
        later = log.append(machine, "block", b"later", key="later")
        _require(later > positions[-1], "positions increase after trimming")
        _require([one.payload for one in log.read(machine, later)] == [b"later"], "and records are read")


def check_advancing(open_log: Open) -> None:
    """After advancing, new records come after the position, and those before are unchanged."""
    machine = _machine()
    with open_log() as log:
        first = log.append(machine, "block", b"first", key="first")
        log.advance(first + 50)
        second = log.append(machine, "block", b"second", key="second")
        _require(second >= first + 50, "a new record has no position before the one advanced to")
        _require([one.position for one in log.read(machine, 0)] == [first, second], "the machine has its own records")
        log.advance(first)
        _require(log.end(machine) == second + 1, "advancing to a position that has passed changes nothing")


def check_reports(open_log: Open) -> None:
    """What shards report reaches every process, also those that come later; a position never goes back."""
    one, other = _machine(), _machine()
    with open_log() as gateway, open_log() as log:
        gateway.processed()
        log.report(f"s-{one}", {one: 7})
        log.report(f"s-{other}", {other: 1, one: 3})
        _require(_comes(lambda: gateway.processed().get(one) == 7 and gateway.processed().get(other) == 1), "it comes")
    with open_log() as later:
        _require(_comes(lambda: later.processed().get(one) == 7), "a later process learns it, too")


CHECKS = (
    check_records_come_back_in_order,
    check_repeated_records_count_once,
    check_reader_follows,
    check_unread_records_wait_in_the_log,
    check_threads_have_readers_of_their_own,
    check_trimming,
    check_advancing,
    check_reports,
)


def _machine() -> str:
    return f"m-{uuid4().hex[:12]}"


def _next(reader: LogReader) -> JournalRecord:
    limit = time.monotonic() + WAIT_SECONDS
    while (record := reader.take()) is None:
        _require(time.monotonic() < limit, f"a record comes within {WAIT_SECONDS:g} s")
        time.sleep(0.001)
    return record


def _comes(condition: Callable[[], bool]) -> bool:
    limit = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


def _require(holds: object, promise: str) -> None:
    if not holds:
        raise AssertionError(f"contract violated: {promise}")
