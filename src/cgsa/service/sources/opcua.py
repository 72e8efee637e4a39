"""Blocks from an OPC UA server, such as a controller.

Each machine has one variable, and each new value of it is one block. All of a
block stands in the one value, since only that is sure to arrive whole: a reader
of several variables may meet the samples of one moment and the count of
another. The value is either

- an array of ``Double``: the count of the block, the time of its first sample
  in seconds since 1970, then all samples of the first channel, all of the
  second, and so on. A controller without a good clock writes 0 for the time:
  then the source time stamp of the value says when the block was complete. Or
- a ``ByteString``: a block in its binary form, for gateways that are programs.

The server is asked to queue values, so none is missed between two publications.
"""

from __future__ import annotations

import asyncio
import time
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
from cgsa.live.plant import Plant
from cgsa.service.links.link import Clock, Sleep
from cgsa.service.links.secret import Secret
from cgsa.service.sources.base import Source

ANSWER_SECONDS = 4.0
"""That a server may take for an answer..."""
CONNECT_SECONDS = 10.0
"""...and for all that a connection takes."""
SESSION_MILLISECONDS = 30_000
"""After which a server forgets us: controllers have few sessions, and each lost connection leaves one behind."""
QUIET_SECONDS = 2.0
"""After so long without a value, the server is asked whether it is still there."""
SERVER_QUEUE = 100
"""Values that the server keeps between two publications."""
MOST_WAITING = 1000
"""Values that wait here while a machine has too much to do; more are lost and counted."""
STATE = ua.NodeId(ua.Int32(ObjectIds.Server_ServerStatus_State))
FRONT = 2
"""Numbers before the samples: count and time."""


@dataclass(frozen=True)
class Variable:
    """One variable of the server, and what it means."""

    node: str
    """Such as ``ns=2;s=Pump3.Block``."""
    machine: str
    channels: tuple[str, ...] = ()
    """Names of the channels in an array, in order; a ``ByteString`` names them itself."""
    sample_rate: float | None = None
    """Of an array, in Hz."""

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
    """File of our own certificate..."""
    key: str
    """...and of its key."""
    server_certificate: str
    """File of the one certificate that is trusted."""
    application_uri: str = "urn:cgsa"
    """As our certificate names us."""
    policy: Literal["Basic256Sha256", "Aes128Sha256RsaOaep", "Aes256Sha256RsaPss"] = "Basic256Sha256"
    mode: Literal["Sign", "SignAndEncrypt"] = "SignAndEncrypt"


@dataclass(frozen=True)
class OpcuaConfig:
    """Which server, and what to listen to there."""

    url: str
    """Such as ``opc.tcp://plc-7:4840``."""
    variables: tuple[Variable, ...]
    """One a machine; they share one session, of which controllers have few."""
    user: str | None = None
    password: Secret | None = None
    security: Security | None = None
    """None means that anybody on the way can read and change everything."""
    publishing_seconds: float = 0.1
    """Between two publications of the server."""

    def __post_init__(self) -> None:
        if not self.url.startswith("opc.tcp://"):
            raise ConfigError(f"url {self.url!r}; expected one such as 'opc.tcp://plc-7:4840'")
        if "@" in self.url:
            raise ConfigError("url: names a user; expected user and password as settings of their own")
        if not self.variables or len({variable.node for variable in self.variables}) < len(self.variables):
            raise ConfigError("variables: expected at least one, and each node once")
        if not 0 < self.publishing_seconds <= 60:
            raise ConfigError(f"publishing_seconds {self.publishing_seconds:g}; expected up to 60 s")
        if self.password is not None and self.user is None:
            raise ConfigError("password: it is of no user; name one, too")


class OpcuaSource(Source):
    """Listens to a server."""

    kind = "opcua"
    Config: ClassVar[type[object]] = OpcuaConfig

    def __init__(
        self,
        plant: Plant,
        config: OpcuaConfig,
        *,
        name: str = "opcua",
        sleep: Sleep = asyncio.sleep,
        clock: Clock = time.time,
    ) -> None:
        super().__init__(plant, name, sleep=sleep, clock=clock)
        self.config = config
        self._newest: dict[str, tuple[int, float]] = {}
        """Count and time of each machine's last block."""

    async def live(self) -> None:
        """Listen until the server is gone."""
        client = Client(self.config.url, timeout=ANSWER_SECONDS)
        client.session_timeout = SESSION_MILLISECONDS
        arrivals = _Arrivals({ua.NodeId.from_string(variable.node): variable for variable in self.config.variables})
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._let_in(client)
                await client.connect()
                await self._subscribe(client, arrivals)
            await self.came_up()
            while True:
                await self._listen(client, arrivals)
        finally:
            # What is left of a broken connection may answer anything, or nothing.
            with suppress(Exception):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await client.disconnect()

    async def _let_in(self, client: Client) -> None:
        """Show certificate and password, as far as there are any."""
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

    async def _subscribe(self, client: Client, arrivals: _Arrivals) -> None:
        subscription = await client.create_subscription(1000 * self.config.publishing_seconds, arrivals)
        nodes = [client.get_node(node) for node in arrivals.variables]
        results = await subscription.subscribe_data_change(
            nodes, queuesize=SERVER_QUEUE, sampling_interval=ua.Double(0.0)
        )
        for variable, result in zip(arrivals.variables.values(), results, strict=True):
            if isinstance(result, ua.StatusCode):
                raise DataError(f"variable {variable.node!r} cannot be listened to ({result.name})")

    async def _listen(self, client: Client, arrivals: _Arrivals) -> None:
        """Take the next value; where none comes, make sure that one could."""
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                variable, value = await arrivals.queue.get()
        except TimeoutError:
            await client.get_node(STATE).read_value()
            return
        if arrivals.lost:
            self.lose(arrivals.lost)
            arrivals.lost = 0
        if variable is None:
            raise DataError(f"the server ended the subscription ({value})")
        await self._value(variable, value)

    async def _value(self, variable: Variable, value: ua.DataValue) -> None:
        """Take a value that should be a block."""
        try:
            block = block_of(variable, value)
        except DataError as error:
            self.refuse(str(error))
            return
        this = block.sequence, block.time
        # With every connection a server first tells what it told last.
        if self._newest.get(block.machine) != this:
            await self.hand_over(block)
            self._newest[block.machine] = this


class _Arrivals:
    """Where a subscription puts what comes; asyncua calls it, and it never waits."""

    def __init__(self, variables: dict[ua.NodeId, Variable]) -> None:
        self.variables = variables
        self.queue: asyncio.Queue[tuple[Variable | None, Any]] = asyncio.Queue(MOST_WAITING)
        self.lost = 0
        """Values for which there was no room."""

    def datachange_notification(self, node: Any, _: object, data: Any) -> None:
        self._put(self.variables[node.nodeid], data.monitored_item.Value)

    def status_change_notification(self, status: Any) -> None:
        self._put(None, status)

    def _put(self, variable: Variable | None, value: Any) -> None:
        try:
            self.queue.put_nowait((variable, value))
        except asyncio.QueueFull:
            self.lost += 1


def block_of(variable: Variable, value: ua.DataValue) -> Block:
    """Return the block that a value of a variable holds, or say why it holds none."""
    where = f"variable {variable.node!r}"
    if value.StatusCode is not None and not value.StatusCode.is_good():
        raise DataError(f"{where}: the server says {value.StatusCode.name}")
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
        raise DataError(f"{where}: holds an array; its channels and sample_rate are not set")
    return _block_of_numbers(variable, variant.Value, value.SourceTimestamp)


def _block_of_numbers(variable: Variable, numbers: list[Any], stamp: datetime | None) -> Block:
    """Return the block in an array: count, time, and the samples channel by channel."""
    where = f"variable {variable.node!r}"
    rate, channels = variable.sample_rate or 0.0, len(variable.channels)
    values = np.array(numbers, dtype=np.float64).ravel()
    count, rest = divmod(len(values) - FRONT, channels)
    if count < 1 or rest:
        raise DataError(f"{where}: {len(values)} numbers; expected count, time, and as many samples a channel")
    sequence, moment = values[:FRONT].tolist()
    if not sequence.is_integer():
        raise DataError(f"{where}: count {sequence:g}; expected a whole number")
    if moment == 0:
        if stamp is None:
            raise DataError(f"{where}: time 0, and the value has no source time stamp; expected one of them")
        moment = stamp.replace(tzinfo=UTC).timestamp() - count / rate
    # What is too large for single precision turns infinite, and the quality gate flags it.
    with np.errstate(over="ignore"):
        samples = values[FRONT:].reshape(channels, count).astype(np.float32)
    return Block(variable.machine, int(sequence), moment, rate, variable.channels, samples)
