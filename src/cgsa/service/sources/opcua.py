"""Blocks from an OPC UA server, such as a controller.

Each machine has one variable, and each new value of it is one block. The whole block is in one value, since only a
single value is consistent: a reader of several variables may get the samples of one block and the number of another.
The value is either

- an array of ``Double``: the number of the block, the time of its first sample in seconds since 1970, then all samples
  of the first channel, all of the second, and so on. A controller without an accurate clock writes 0 for the time:
  then the source time stamp of the value is taken as the time at which the block was complete. Or
- a ``ByteString``: a block in binary form, for gateways that are programs.

The server queues values, so none is missed between two publications.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import numpy as np
from asyncua import ua
from asyncua.client.client import Client
from asyncua.crypto import security_policies
from asyncua.ua.object_ids import ObjectIds
from asyncua.ua.uaerrors import UaError

from cgsa.errors import ConfigError, DataError
from cgsa.live.intake.block import Block, check_machine
from cgsa.live.intake.receiver import BlockReceiver
from cgsa.service.links.secret import Secret
from cgsa.service.sources.base import Source

ANSWER_SECONDS = 4.0
"""How long a server may take to answer."""
CONNECT_SECONDS = 10.0
"""How long connecting may take in total."""
SESSION_MILLISECONDS = 30_000
"""After which a server drops a session: controllers have few, and each lost connection leaves one behind."""
QUIET_SECONDS = 2.0
"""After this long without a value, the connection is checked."""
SERVER_QUEUE = 100
"""Values that the server queues between two publications."""
MAX_WAITING = 1000
"""Values waiting here while a machine is overloaded; further ones are lost and counted."""
STATE = ua.NodeId(ua.Int32(ObjectIds.Server_ServerStatus_State))
HEADER = 2
"""Values before the samples: number and time of the block."""


@dataclass(frozen=True)
class Variable:
    """One variable of the server, and what it holds."""

    node: str
    """Such as ``ns=2;s=Pump3.Block``."""
    machine: str
    """Whose signal the variable is."""
    channels: tuple[str, ...] = ()
    """Names of the channels of an array, in order; a ``ByteString`` contains its own."""
    sample_rate: float | None = None
    """Sample rate of an array, in Hz."""

    def __post_init__(self) -> None:
        try:
            check_machine(self.machine)
            ua.NodeId.from_string(self.node)
        except (DataError, UaError, ValueError) as error:
            raise ConfigError(f"variable {self.node!r} of {self.machine!r}: {error}") from error
        if bool(self.channels) != (self.sample_rate is not None):
            raise ConfigError(f"variable {self.node!r}: channels and sample_rate; expected both for arrays, or neither")


@dataclass(frozen=True)
class Security:
    """Encryption and certificates."""

    certificate: str
    """File of the client certificate."""
    key: str
    """File of its key."""
    server_certificate: str
    """File of the only trusted server certificate."""
    application_uri: str = "urn:cgsa"
    """URI in the client certificate."""
    policy: Literal["Basic256Sha256", "Aes128Sha256RsaOaep", "Aes256Sha256RsaPss"] = "Basic256Sha256"
    """Algorithms of signatures and encryption."""
    mode: Literal["Sign", "SignAndEncrypt"] = "SignAndEncrypt"
    """Whether messages are signed, or encrypted as well."""


@dataclass(frozen=True)
class OpcuaConfig:
    """The server and its variables."""

    url: str
    """Such as ``opc.tcp://plc-7:4840``."""
    variables: tuple[Variable, ...]
    """One per machine; they share one session, of which controllers have few."""
    user: str | None = None
    """Who logs in; None logs in anonymously."""
    password: Secret | None = None
    security: Security | None = None
    """None means no encryption: anybody on the network path can read and change everything."""
    publishing_seconds: float = 0.1
    """Interval between publications of the server."""

    def __post_init__(self) -> None:
        if not self.url.startswith("opc.tcp://"):
            raise ConfigError(f"url {self.url!r}; expected an address such as 'opc.tcp://plc-7:4840'")
        if "@" in self.url:
            raise ConfigError("url: contains a user; expected user and password as separate settings")
        if not self.variables or len({variable.node for variable in self.variables}) < len(self.variables):
            raise ConfigError("variables: expected at least one, and each node once")
        if not 0 < self.publishing_seconds <= 60:
            raise ConfigError(f"publishing_seconds {self.publishing_seconds:g}; expected up to 60 s")
        if self.password is not None and self.user is None:
            raise ConfigError("password without user; expected both")


class OpcuaSource(Source):
    """Receives blocks from a server."""

    kind = "opcua"
    Config: ClassVar[type[object]] = OpcuaConfig
    config: OpcuaConfig

    def __init__(self, receiver: BlockReceiver, config: OpcuaConfig, *, name: str = "") -> None:
        super().__init__(receiver, config, name=name)
        self._newest: dict[str, tuple[int, float]] = {}
        """Number and time of each machine's last block."""

    async def connect(self) -> None:
        """Receive blocks until the connection ends."""
        client = Client(self.config.url, timeout=ANSWER_SECONDS)
        client.session_timeout = SESSION_MILLISECONDS
        values = _ValueQueue({ua.NodeId.from_string(variable.node): variable for variable in self.config.variables})
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._set_credentials(client)
                await client.connect()
                await self._subscribe(client, values)
            await self.came_up()
            while True:
                await self._receive_next(client, values)
        finally:
            # A broken connection may fail in any way, or not answer at all.
            with suppress(Exception):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await client.disconnect()

    async def _set_credentials(self, client: Client) -> None:
        """Set certificate and password, if configured."""
        security = self.config.security
        if security is not None:
            client.application_uri = security.application_uri
            await client.set_security(
                getattr(security_policies, f"SecurityPolicy{security.policy}"),
                certificate=security.certificate,
                private_key=security.key,
                server_certificate=security.server_certificate,
                mode=ua.MessageSecurityMode[security.mode],
            )
        if self.config.user is not None:
            client.set_user(self.config.user)
            if self.config.password is not None:
                client.set_password(self.config.password.read())

    async def _subscribe(self, client: Client, values: _ValueQueue) -> None:
        subscription = await client.create_subscription(1000 * self.config.publishing_seconds, values)
        nodes = [client.get_node(node) for node in values.variables]
        results = await subscription.subscribe_data_change(
            nodes, queuesize=SERVER_QUEUE, sampling_interval=ua.Double(0.0)
        )
        for variable, result in zip(values.variables.values(), results, strict=True):
            if isinstance(result, ua.StatusCode):
                raise DataError(f"variable {variable.node!r} cannot be subscribed to ({result.name})")

    async def _receive_next(self, client: Client, values: _ValueQueue) -> None:
        """Receive the next value; if none comes, check the connection."""
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                variable, value = await values.queue.get()
        except TimeoutError:
            await client.get_node(STATE).read_value()
            return
        if values.lost:
            self.lose(values.lost)
            values.lost = 0
        if variable is None:
            raise DataError(f"the server ended the subscription ({value})")
        await self._accept_value(variable, value)

    async def _accept_value(self, variable: Variable, value: ua.DataValue) -> None:
        """Submit the block in a value."""
        try:
            block = block_of(variable, value)
        except DataError as error:
            await self.refuse(str(error), variable.machine)
            return
        newest = block.sequence, block.time
        # With every connection, a server first sends the last value again.
        if self._newest.get(block.machine) != newest:
            await self.submit(block)
            self._newest[block.machine] = newest


class _ValueQueue:
    """Receives the values of a subscription from asyncua, without blocking."""

    def __init__(self, variables: dict[ua.NodeId, Variable]) -> None:
        self.variables = variables
        self.queue: asyncio.Queue[tuple[Variable | None, Any]] = asyncio.Queue(MAX_WAITING)
        self.lost = 0
        """Values lost because the queue was full."""

    def datachange_notification(self, node: Any, _: object, data: Any) -> None:
        self._put(self.variables[node.nodeid], data.monitored_item.Value)

    def status_change_notification(self, status: object) -> None:
        self._put(None, status)

    def _put(self, variable: Variable | None, value: object) -> None:
        try:
            self.queue.put_nowait((variable, value))
        except asyncio.QueueFull:
            self.lost += 1


def block_of(variable: Variable, value: ua.DataValue) -> Block:
    """Return the block in a value of a variable, or raise an error that says why there is none."""
    where = f"variable {variable.node!r}"
    if value.StatusCode is not None and not value.StatusCode.is_good():
        raise DataError(f"{where}: the server reports {value.StatusCode.name}")
    variant = value.Value
    kind = None if variant is None else variant.VariantType
    if variant is not None and kind == ua.VariantType.ByteString and isinstance(variant.Value, bytes):
        block = Block.from_bytes(variant.Value)
        if block.machine != variable.machine:
            raise DataError(f"{where}: block of {block.machine}; expected one of {variable.machine}")
        return block
    if variant is None or kind != ua.VariantType.Double or not isinstance(variant.Value, list):
        raise DataError(f"{where}: holds {getattr(kind, 'name', kind)}; expected an array of Double, or a ByteString")
    if variable.sample_rate is None:
        raise DataError(f"{where}: holds an array, but its channels and sample_rate are not set")
    return _block_of_numbers(variable, variant.Value, value.SourceTimestamp)


def _block_of_numbers(variable: Variable, numbers: list[float], stamp: datetime | None) -> Block:
    """Return the block in an array: number, time, and the samples channel by channel."""
    where = f"variable {variable.node!r}"
    rate, channels = variable.sample_rate or 0.0, len(variable.channels)
    values = np.array(numbers, dtype=np.float64).ravel()
    count, rest = divmod(len(values) - HEADER, channels)
    if count < 1 or rest:
        raise DataError(f"{where}: {len(values)} numbers; expected sequence number, time and samples")
    sequence, begin = values[:HEADER].tolist()
    if not sequence.is_integer():
        raise DataError(f"{where}: sequence number {sequence:g}; expected a whole number")
    if begin == 0:
        if stamp is None:
            raise DataError(f"{where}: time 0, and the value has no source time stamp; expected one of them")
        begin = stamp.replace(tzinfo=UTC).timestamp() - count / rate
    # Values too large for single precision become infinite, and the quality gate flags them.
    with np.errstate(over="ignore"):
        samples = values[HEADER:].reshape(channels, count).astype(np.float32)
    return Block(variable.machine, int(sequence), begin, rate, variable.channels, samples)
