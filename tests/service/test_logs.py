from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from cgsa.service.logs import MAX_SIMILAR_MESSAGES, configure_logging


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = configure_logging(stream)
    yield stream
    logging.getLogger().removeHandler(handler)


def test_a_message_is_one_line_whatever_it_quotes(written: io.StringIO) -> None:
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


def test_a_message_that_repeats_is_counted(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("cgsa.test")
    for number in range(MAX_SIMILAR_MESSAGES + 30):
        log.warning("request %d is invalid", number)
    log.warning("another")
    assert len(written.getvalue().splitlines()) == MAX_SIMILAR_MESSAGES + 1
    monkeypatch.setattr("cgsa.service.buckets.TokenBuckets.draw", lambda *_: True)
    log.warning("request %d is invalid", 99)
    assert written.getvalue().endswith("request 99 is invalid (30 similar messages before it were left out)\n")
