"""The log of a service: one line per message, whatever a client sent, and bounded if a message repeats.

Lines are text or JSON. Both have the time in UTC, the level, and the machine and the request that a message is about,
if there is one. They go to the standard error; whatever runs the service keeps and rotates them.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from threading import Lock
from typing import Literal, TextIO, TypeAlias

from cgsa.service.buckets import TokenBuckets
from cgsa.service.request_ids import current_request
from cgsa.service.text import escape_controls

LogFormat: TypeAlias = Literal["text", "json"]
MAX_SIMILAR_MESSAGES = 20
"""Messages of one kind that are written at once."""
SIMILAR_SECONDS = 10.0
"""After that, one of the kind is written in this time."""


class LineFormatter(logging.Formatter):
    """Writes a message in one line; the lines of a traceback follow it, indented."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s%(about)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a message."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        # A message names its machine by itself.
        record.about = f" request={request}" if (request := current_request()) else ""
        lines = [escape_controls(self.formatMessage(record))]
        # Not the text that another handler may have left in the record.
        if record.exc_info:
            lines += _indented(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _indented(record.stack_info)
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """Writes a message as one JSON object in one line, with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a message."""
        fields = {
            "time": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S}.{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "machine": getattr(record, "machine", None),
            "request": current_request(),
            "exception": self.formatException(record.exc_info) if record.exc_info else None,
            "stack": record.stack_info,
        }
        # In plain ASCII, with all control characters escaped.
        return json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)


class RepetitionFilter(logging.Filter):
    """Leaves out messages of a kind that come too often, and says how many."""

    def __init__(self) -> None:
        super().__init__()
        self._buckets = TokenBuckets(1 / SIMILAR_SECONDS, MAX_SIMILAR_MESSAGES, capacity=1000)
        self._left_out: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a message."""
        kind = record.name, str(record.msg)[:200]
        passes = self._buckets.draw(kind)
        with self._lock:
            if not passes:
                self._left_out[kind] += 1
                if len(self._left_out) > self._buckets.capacity:
                    self._left_out.clear()
                return False
            left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} similar messages before it were left out)"
            record.args = None
        return True


def configure_logging(stream: TextIO | None = None, style: LogFormat = "text") -> logging.Handler:
    """Send all messages of this process to the standard error, or to a stream; return their handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else LineFormatter())
    handler.addFilter(RepetitionFilter())
    logging.getLogger().addHandler(handler)
    # Other packages report what is wrong only.
    logging.getLogger("cgsa").setLevel(logging.INFO)
    return handler


def _indented(text: str) -> list[str]:
    """Return lines that cannot be taken for messages."""
    return [f"  {escape_controls(line)}" for line in text.splitlines()]
