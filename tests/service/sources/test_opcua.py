from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from asyncua import ua
from asyncua.crypto.permission_rules import User, UserRole
from asyncua.server.server import Server
from asyncua.server.user_managers import UserManager
from asyncua.ua.status_codes import StatusCodes

from cgsa.errors import DataError
from cgsa.live.intake.block import Block
from cgsa.live.plant import Plant
from cgsa.service.sources import create_source, opcua
from cgsa.service.sources.base import Source
from cgsa.service.sources.opcua import Variable, block_of
from tests.machines import RATE
from tests.service.sources.counterparts import block, certificate, free_port, journaled, plant_of, running, until

ARRAY = Variable("ns=2;s=m1", "m1", ("a", "b"), RATE)
BYTES = Variable("ns=2;s=m2", "m2")
EMPTY = ((ARRAY, ua.Variant([0.0], ua.VariantType.Double)), (BYTES, ua.Variant(b"", ua.VariantType.ByteString)))


class Controller:
    """A server with a variable for each machine, in an event loop that tests share: to make one takes seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"opc.tcp://127.0.0.1:{free_port()}/"
        self.runner = asyncio.Runner()
        self.runner.run(self._make())

    async def _make(self) -> None:
        self.server = Server(user_manager=Users())
        await self.server.init()
        self.server.set_endpoint(self.url)
        policies = [ua.SecurityPolicyType.NoSecurity, ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt]
        self.server.set_security_policy(policies)
        await self.server.set_application_uri("urn:controller")
        await self.server.load_certificate(str(self.folder / "server.der"))
        await self.server.load_private_key(str(self.folder / "server.key"), format="pem")
        await self.server.register_namespace("test")
        for variable, empty in EMPTY:
            node = ua.NodeId.from_string(variable.node)
            await self.server.nodes.objects.add_variable(node, variable.machine, empty)
        await self.server.start()

    async def _empty(self) -> None:
        for variable, empty in EMPTY:
            await self._write(variable.node, ua.DataValue(empty))

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        self.runner.run(self._empty())
        self.runner.run(main)

    async def numbers(self, each: Block) -> None:
        await self._write(ARRAY.node, value_of(numbers_of(each)))

    async def bytes(self, each: Block) -> None:
        await self._write(BYTES.node, value_of(each.to_bytes(), ua.VariantType.ByteString))

    async def _write(self, node: str, value: ua.DataValue) -> None:
        await self.server.get_node(node).write_value(value)


class Users(UserManager):
    def get_user(self, _: Any, username: Any = None, password: Any = None, certificate: Any = None) -> Any:
        return User(role=UserRole.User) if (username, password) in {(None, None), ("hall", "right")} else None


@pytest.fixture(scope="module")
def plc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    folder = tmp_path_factory.mktemp("plc")
    for name, uri in (("server", "urn:controller"), ("client", "urn:cgsa"), ("other", "urn:other")):
        certificate(
            folder,
            name,
            f"subjectAltName=URI:{uri},IP:127.0.0.1",
            "keyUsage=digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment,keyCertSign",
            "extendedKeyUsage=serverAuth,clientAuth",
        )
    made = Controller(folder)
    with made.runner:
        yield made
        made.runner.run(made.server.stop())


def numbers_of(each: Block, time: float | None = None) -> list[float]:
    return [float(each.sequence), each.time if time is None else time, *each.samples.ravel().tolist()]


def value_of(value: Any, kind: ua.VariantType = ua.VariantType.Double, **about: Any) -> ua.DataValue:
    return ua.DataValue(ua.Variant(value, kind), **about)


def source_of(plant: Plant, url: str, **settings: object) -> Source:
    table = {"node": ARRAY.node, "machine": "m1", "channels": ["a", "b"], "sample_rate": RATE}
    variables = [table, {"node": BYTES.node, "machine": "m2"}]
    return create_source(
        plant, {"kind": "opcua", "url": url, "variables": variables, "publishing_seconds": 0.02, **settings}
    )


def test_blocks_come_as_arrays_and_bytes_without_loss(tmp_path: Path, plc: Controller) -> None:
    async def main(plant: Plant) -> None:
        source = source_of(plant, plc.url)
        async with running(source.run()):
            # What stands there before the first block is none.
            await until(lambda: source.status.counts["malformed"] == 2)
            for n in range(40):
                await plc.numbers(block(n))
                await plc.bytes(block(n, "m2"))
            await until(lambda: source.status.counts["blocks"] == 80)
        assert source.status.counts["malformed"] == 2

    with plant_of(tmp_path, "m1", "m2") as plant:
        plc.run(main(plant))
        for machine in ("m1", "m2"):
            came = journaled(plant, machine)
            assert [each.to_bytes() for each in came] == [block(n, machine).to_bytes() for n in range(40)]


def test_a_server_restart_repeats_no_block(tmp_path: Path, plc: Controller) -> None:
    async def main(plant: Plant) -> None:
        source = source_of(plant, plc.url)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            for n in range(5):
                await plc.numbers(block(n))
            await until(lambda: source.status.counts["blocks"] == 5)
            await plc.server.stop()
            await until(lambda: source.status.state == "down")
            await plc.server.start()
            await until(lambda: source.status.state == "up")
            for n in range(8, 12):
                await plc.numbers(block(n))
            await until(lambda: source.status.counts["blocks"] == 9)
        assert source.status.counts["reconnects"] == 1

    with plant_of(tmp_path, "m1", "m2") as plant:
        plc.run(main(plant))
        plant.wait_until_idle()
        counts = plant.worker("m1").status().counts
        assert (counts.blocks, counts.refused_blocks, counts.gaps) == (9, 0, 1)


def test_a_silent_server_is_disconnected(tmp_path: Path, plc: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opcua, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(opcua, "QUIET_SECONDS", 0.2)
    port = int(plc.url.rpartition(":")[2].rstrip("/"))
    writers: list[asyncio.StreamWriter] = []
    silent = False

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while data := await reader.read(65536):
            if not silent:
                writer.write(data)

    async def way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    async def main(plant: Plant) -> None:
        nonlocal silent
        between = await asyncio.start_server(way, "127.0.0.1", 0)
        source = source_of(plant, f"opc.tcp://127.0.0.1:{between.sockets[0].getsockname()[1]}/")
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            silent = True
            await until(lambda: source.status.state == "down")
            silent = False
            await until(lambda: source.status.state == "up")
            await plc.numbers(block(0))
            await until(lambda: source.status.counts["blocks"] == 1)
        for writer in writers:
            writer.close()
        between.close()

    with plant_of(tmp_path, "m1", "m2") as plant:
        plc.run(main(plant))


def test_a_missing_variable_is_named(tmp_path: Path, plc: Controller) -> None:
    async def main(plant: Plant) -> None:
        source = source_of(plant, plc.url, variables=[{"node": "ns=2;s=m9", "machine": "m1"}])
        async with running(source.run()):
            await until(lambda: source.status.state == "down")
            assert "'ns=2;s=m9' cannot be subscribed to (BadNodeIdUnknown)" in source.status.why

    with plant_of(tmp_path) as plant:
        plc.run(main(plant))


def test_encryption_certificates_and_password(tmp_path: Path, plc: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opcua, "ANSWER_SECONDS", 1.0)
    password = tmp_path / "password"
    password.write_text("wrong")
    own = {"certificate": str(plc.folder / "client.der"), "key": str(plc.folder / "client.pem")}
    (plc.folder / "client.key").rename(plc.folder / "client.pem")
    right, wrong = (
        {"security": {**own, "server_certificate": str(plc.folder / f"{name}.der")}} for name in ("server", "other")
    )

    async def main(plant: Plant) -> None:
        about: dict[str, object] = {"user": "hall", "password": {"file": str(password)}}
        source = source_of(plant, plc.url, **right, **about)
        stranger = source_of(plant, plc.url, name="stranger", **wrong, **about)
        async with running(source.run(), stranger.run()):
            await until(lambda: source.status.state == stranger.status.state == "down")
            assert "wrong" not in source.status.why
            password.write_text("right")
            await until(lambda: source.status.state == "up")
            await plc.numbers(block(0))
            await until(lambda: source.status.counts["blocks"] == 1)
            assert stranger.status.state == "down"

    with plant_of(tmp_path, "m1", "m2") as plant:
        plc.run(main(plant))


def test_without_a_clock_the_source_time_stamp_is_used() -> None:
    stamp = datetime(2026, 3, 1, 12, tzinfo=UTC)
    found = block_of(ARRAY, value_of(numbers_of(block(7), 0.0), SourceTimestamp=stamp.replace(tzinfo=None)))
    assert found.time == pytest.approx(stamp.timestamp() - 0.1)
    assert (found.sequence, found.channels, found.sample_rate) == (7, ("a", "b"), RATE)
    assert np.array_equal(found.samples, block(7).samples)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ua.DataValue(), "holds Null"),
        (value_of([]), "0 numbers; expected sequence number, time"),
        (value_of([1.0, 2.0]), "2 numbers"),
        (value_of([1.0, 2.0, 3.0]), "3 numbers"),
        (value_of([1.5, 2.0, 3.0, 4.0]), "sequence number 1.5; expected a whole number"),
        (value_of([float("nan"), 2.0, 3.0, 4.0]), "sequence number nan"),
        (value_of([float("inf"), 2.0, 3.0, 4.0]), "sequence number inf"),
        (value_of([-1.0, 2.0, 3.0, 4.0]), "sequence -1"),
        (value_of([1.0, float("nan"), 3.0, 4.0]), "time nan"),
        (value_of([1.0, 0.0, 3.0, 4.0]), "no source time stamp"),
        (value_of([1.0, 2.0, 3.0, 4.0], ua.VariantType.Float), "holds Float; expected an array of Double"),
        (value_of(1.0), "holds Double; expected an array"),
        (value_of(b"what", ua.VariantType.ByteString), "expected a block"),
        (value_of(block(0, "m2").to_bytes(), ua.VariantType.ByteString), "block of m2; expected one of m1"),
        (value_of([1.0], StatusCode=ua.StatusCode(ua.UInt32(StatusCodes.BadSensorFailure))), "BadSensorFailure"),
    ],
)
def test_values_that_are_no_blocks_are_refused_with_a_reason(value: ua.DataValue, message: str) -> None:
    with pytest.raises(DataError, match=message):
        block_of(ARRAY, value)
    with pytest.raises(DataError, match="channels and sample_rate are not set"):
        block_of(BYTES, value_of([1.0, 2.0, 3.0, 4.0]))


def test_garbage_raises_nothing_else() -> None:
    chance = Random(0)  # noqa: S311 - test data
    odd = [0.0, 1.0, -1.0, 1e300, float("nan"), float("inf"), 1e18]
    read = 0
    for _ in range(500):
        numbers = [chance.choice(odd) for _ in range(chance.randrange(9))]
        value = chance.choice([value_of(numbers), value_of(chance.randbytes(30), ua.VariantType.ByteString)])
        try:
            block_of(ARRAY, value)
            read += 1
        except DataError:
            pass
    assert read
