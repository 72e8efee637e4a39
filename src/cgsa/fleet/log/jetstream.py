"""A replayable log in NATS JetStream: one stream, one subject per machine, stream sequence numbers as positions.

How durable an acknowledged record is, the server decides. It survives the death of ``nats-server``, however that comes
about. Whether it survives a power failure depends on ``sync_interval`` in the server's section ``jetstream``: since
version 2.10, ``always`` syncs every record before it is acknowledged; the default, and all that version 2.9 does, is a
sync every two minutes. Three replicas on different computers are the other way.

A repeated record is recognised by its key for ``remember_seconds``. After that, the watch recognises a repeated block
by its number.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock

from nats.aio.msg import Msg
from nats.js.api import DiscardPolicy, RawStreamMsg, StorageType, StreamConfig
from nats.js.errors import APIError, BadRequestError, NotFoundError

from cgsa.errors import ConfigError, DataError, UnavailableError
from cgsa.fleet.failures import raise_unavailable
from cgsa.fleet.log.contract import LogReader, ReplayableLog
from cgsa.fleet.log.jetstream_reader import KIND, JetStreamReader
from cgsa.fleet.log.nats import NatsConfig, NatsConnection
from cgsa.live.intake.block import check_machine

KEY = "Nats-Msg-Id"
"""Header with the key of a record."""
ATTEMPT_SECONDS, RETRY_SECONDS = 2.0, 0.25
"""How long to wait for an acknowledgement, and before the record is sent again."""
FULL = 10077
"""Code of the server's answer that a stream is full."""
HEADER_BYTES = 1024
"""Room for the headers in the largest message that a server takes."""


@dataclass(frozen=True)
class JetStreamConfig:
    """The streams of a fleet."""

    nats: NatsConfig = field(default_factory=NatsConfig)
    name: str = "cgsa"
    """Name of the fleet: its streams and subjects begin with it, so that fleets can share a server."""
    replicas: int = 1
    """Servers of the cluster that hold each record; 3 survive the loss of one."""
    remember_seconds: float = 600.0
    """For how long a repeated record is recognised by its key."""
    max_bytes: int = -1
    """Size at which the log takes no more records; -1 means none. Nothing is ever dropped to make room."""
    append_seconds: float = 30.0
    """For how long a record is offered to a server that does not acknowledge it."""

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(f"name {self.name!r}; expected letters, digits, '-' and '_'")
        if not 1 <= self.replicas <= 5 or min(self.remember_seconds, self.append_seconds) <= 0:
            raise ConfigError(
                f"replicas {self.replicas}, remember_seconds {self.remember_seconds:g}, append_seconds "
                f"{self.append_seconds:g}; expected 1 to 5 replicas and positive seconds"
            )


class JetStreamLog(ReplayableLog):
    """The log in JetStream; its streams are made if they do not exist."""

    def __init__(self, config: JetStreamConfig | None = None) -> None:
        self.config = config or JetStreamConfig()
        name = self.config.name
        self._stream, self._marks = f"{name}-log", f"{name}-marks"
        self._readers: list[JetStreamReader] = []
        self._readers_lock = Lock()
        self._processed: dict[str, int] | None = None
        """Positions that shards reported; None before somebody asks."""
        self._lock = Lock()
        self._connection = NatsConnection(self.config.nats, self._restart_readers)
        try:
            self._make_streams()
        except BaseException:
            self._connection.close()
            raise

    def append(self, machine: str, kind: str, payload: bytes, *, key: str) -> int:
        """Write a record and return its position."""
        self._check_size(machine, payload)
        return self._publish(self._subject(machine), payload, {KIND: kind, KEY: f"{machine} {key}"})

    def reader(self, machine: str, begin: int, wake: Callable[[], None] = lambda: None) -> LogReader:
        """Return a reader of a machine's records from a position on."""
        found = JetStreamReader(self._connection, self._stream, self._subject(machine), begin, wake)
        with self._readers_lock:
            self._readers = [*(reader for reader in self._readers if not reader.closed), found]
        return found

    def begin(self, machine: str) -> int:
        """Return the position from which on no record of a machine was trimmed."""
        mark = self._newest(self._marks, f"{self.config.name}.trimmed.{_token(machine)}")
        return 0 if mark is None else int(json.loads(mark.data or b"0"))

    def end(self, machine: str) -> int:
        """Return the position after the newest record of a machine."""
        newest = self._newest(self._stream, self._subject(machine))
        return 0 if newest is None or newest.seq is None else newest.seq + 1

    def trim(self, machine: str, before: int) -> None:
        """Remove a machine's records before a position."""
        before = min(before, self.end(machine) - 1)
        if before <= self.begin(machine):
            return
        # The mark first: a position that is said to be there must be.
        self._publish(f"{self.config.name}.trimmed.{_token(machine)}", json.dumps(before).encode(), {})
        purge = self._connection.client.jetstream().purge_stream(
            self._stream, seq=before, subject=self._subject(machine)
        )
        self._connection.run(purge, f"the records of {machine} cannot be removed")

    def advance(self, position: int) -> None:
        """Fill the stream up to a position with records that belong to no machine."""
        while self._stream_end() < position:
            self._publish(f"{self.config.name}.filler", b"", {})

    def report(self, reader: str, positions: Mapping[str, int]) -> None:
        """Publish up to which positions a shard has processed its machines."""
        payload = json.dumps(dict(positions)).encode()
        self._connection.run(
            self._connection.client.publish(f"{self.config.name}.processed.{_token(reader)}", payload),
            "the progress cannot be reported",
        )

    def processed(self) -> Mapping[str, int]:
        """Return the newest reported position of each machine."""
        with self._lock:
            if self._processed is None:
                found: dict[str, int] = {}
                self._connection.run(self._follow_reports(found), "the progress of the shards cannot be read")
                self._processed = found
            return self._processed

    def close(self) -> None:
        """End the connection."""
        for reader in self._readers:
            reader.close()
        for reader in self._readers:
            reader.wait()
        self._connection.close()

    async def _follow_reports(self, found: dict[str, int]) -> None:
        client, subjects = self._connection.client, f"{self.config.name}.processed.*"

        def note(payload: bytes) -> None:
            for machine, position in json.loads(payload).items():
                found[machine] = max(found.get(machine, 0), int(position))

        async def receive(message: Msg) -> None:
            note(message.data)

        # First what comes from now on, then what is there.
        await client.subscribe(subjects, cb=receive)
        info = await client.jetstream().stream_info(self._marks, subjects_filter=subjects)
        for subject in info.state.subjects or {}:
            newest = await client.jetstream().get_last_msg(self._marks, subject, direct=True)
            note(newest.data or b"{}")

    def _restart_readers(self) -> None:
        for reader in self._readers:
            reader.restart()

    def _subject(self, machine: str) -> str:
        return f"{self.config.name}.log.{_token(machine)}"

    def _make_streams(self) -> None:
        settings, name = self.config, self.config.name
        log = StreamConfig(
            name=self._stream,
            subjects=[f"{name}.log.*", f"{name}.filler"],
            # What nobody has processed yet must not make room for what comes.
            discard=DiscardPolicy.NEW,
            max_bytes=settings.max_bytes,
            duplicate_window=settings.remember_seconds,
        )
        marks = StreamConfig(
            name=self._marks, subjects=[f"{name}.trimmed.*", f"{name}.processed.*"], max_msgs_per_subject=1
        )
        for bare in (log, marks):
            config = replace(bare, storage=StorageType.FILE, num_replicas=settings.replicas, allow_direct=True)
            try:
                self._connection.run(self._add(config), f"stream {config.name} cannot be made")
            except BadRequestError as error:
                raise ConfigError(
                    f"stream {config.name} differs from the settings of this fleet ({error.description}); "
                    "expected the settings that it was made with, or a change of the stream by the program nats"
                ) from error

    async def _add(self, config: StreamConfig) -> None:
        await self._connection.client.jetstream().add_stream(config)

    def _publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> int:
        """Publish until the server acknowledges it; the key makes sure that it counts once."""
        client, limit = self._connection.client, time.monotonic() + self.config.append_seconds
        what = f"{subject} cannot be written"
        while True:
            sending = client.jetstream().publish(
                subject, payload, timeout=ATTEMPT_SECONDS, stream=None, headers=headers or None
            )
            try:
                return self._connection.run(sending, what).seq
            except BadRequestError as error:
                raise DataError(f"{what}: the server refuses it ({error.description})") from error
            except UnavailableError as error:
                if _is_full(error):
                    full = OSError(errno.ENOSPC, f"the stream holds max_bytes, {self.config.max_bytes}")
                    raise_unavailable(what, full)
                if time.monotonic() > limit:
                    raise
            time.sleep(RETRY_SECONDS)

    def _newest(self, stream: str, subject: str) -> RawStreamMsg | None:
        async def find() -> RawStreamMsg | None:
            with suppress(NotFoundError):
                return await self._connection.client.jetstream().get_last_msg(stream, subject, direct=True)
            return None

        return self._connection.run(find(), f"{subject} cannot be read")

    def _stream_end(self) -> int:
        async def find() -> int:
            return (await self._connection.client.jetstream().stream_info(self._stream)).state.last_seq + 1

        return self._connection.run(find(), f"{self._stream} cannot be read")

    def _check_size(self, machine: str, payload: bytes) -> None:
        most = self._connection.client.max_payload - HEADER_BYTES
        if len(payload) > most:
            raise DataError(
                f"a record of {machine} has {len(payload)} bytes; the server of the log takes {most}: send shorter "
                "blocks, or raise max_payload in its configuration"
            )


def _is_full(error: BaseException | None) -> bool:
    """Return whether a server has answered that a stream is full."""
    while error is not None and not isinstance(error, APIError):
        error = error.__cause__
    return error is not None and error.err_code == FULL


def _token(name: str) -> str:
    """Return a name as a part of a subject, which a dot would divide.

    >>> _token("pump-3.north")
    'pump-3%2Enorth'
    """
    return check_machine(name).replace(".", "%2E")
