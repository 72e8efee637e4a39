from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.service.logs import MAX_SIMILAR_MESSAGES, JsonFormatter, LineFormatter, LogFormat, configure_logging

Open = Callable[[LogFormat], io.StringIO]


@pytest.fixture
def open_log() -> Iterator[Open]:
    handlers: list[logging.Handler] = []

    def open_as(style: LogFormat) -> io.StringIO:
        stream = io.StringIO()
        handlers.append(configure_logging(stream, style))
        return stream

    yield open_as
    for handler in handlers:
        logging.getLogger().removeHandler(handler)


def test_a_message_is_one_line_whatever_it_quotes(open_log: Open) -> None:
    written = open_log("text")
    logging.getLogger("cgsa.test").warning(
        "machine %s: wrong", "x\n2026-11-19T00:00:00.000Z INFO cgsa: all is well\x1b[2J"
    )
    error = ValueError("first\n2026 INFO second")
    logging.getLogger("cgsa.test").error("failed", exc_info=error)
    first, *rest = written.getvalue().splitlines()
    assert first.endswith(
        r"WARNING cgsa.test: machine x\n2026-11-19T00:00:00.000Z INFO cgsa: all is well\x1b[2J: wrong"
    )
    assert rest[0].endswith("ERROR cgsa.test: failed")
    assert all(line.startswith("  ") for line in rest[1:]), "lines of a traceback cannot be taken for messages"


def test_a_message_as_json_has_time_level_machine_and_traceback(open_log: Open) -> None:
    written = open_log("json")
    log = logging.getLogger("cgsa.test")
    log.warning("%s: wrong", "pump-1", extra={"machine": "pump-1"})
    log.error("failed", exc_info=ValueError("why"))
    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    time = datetime.fromisoformat(first.pop("time"))
    assert time.utcoffset() is not None
    assert first == {"level": "warning", "logger": "cgsa.test", "message": "pump-1: wrong", "machine": "pump-1"}
    assert second["exception"].splitlines()[-1] == "ValueError: why"


@given(message=st.text(), machine=st.text(), request=st.sampled_from([LineFormatter(), JsonFormatter()]))
def test_no_text_begins_a_line_of_its_own(message: str, machine: str, request: logging.Formatter) -> None:
    record = logging.makeLogRecord({"name": "cgsa", "msg": "%s", "args": (message,), "machine": machine})
    line = request.format(record)
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    if isinstance(request, JsonFormatter):
        assert json.loads(line)["message"] == message


def test_a_message_that_repeats_is_counted(open_log: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    written = open_log("text")
    log = logging.getLogger("cgsa.test")
    for number in range(MAX_SIMILAR_MESSAGES + 30):
        log.warning("request %d is invalid", number)
    log.warning("another")
    assert len(written.getvalue().splitlines()) == MAX_SIMILAR_MESSAGES + 1
    monkeypatch.setattr("cgsa.service.buckets.TokenBuckets.draw", lambda *_: True)
    log.warning("request %d is invalid", 99)
    assert written.getvalue().endswith("request 99 is invalid (30 similar messages before it were left out)\n")
