from __future__ import annotations

import asyncio
import json as json_format
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import aiomqtt
import pytest

from cgsa.errors import ConfigError
from cgsa.live.intake.block import Block
from cgsa.live.plant import Plant
from cgsa.live.worker import WorkerConfig
from cgsa.service.links import broker
from cgsa.service.sources import base, create_source, held_blocks
from cgsa.service.sources.base import Source
from cgsa.service.sources.held_blocks import MAX_HELD
from cgsa.service.sources.mqtt import MqttConfig
from tests.service.sources.counterparts import Broker, block, certificate, journaled, plant_of, running, until


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as started:
        yield started


def source_of(plant: Plant, mosquitto: Broker, **settings: object) -> Source:
    table = {"host": "127.0.0.1", "port": mosquitto.port}
    return create_source(plant, {"kind": "mqtt", "broker": table, **settings})


async def publish(mosquitto: Broker, *blocks: Block, qos: int = 1, json: bool = False) -> None:
    async with aiomqtt.Client("127.0.0.1", mosquitto.port) as client:
        for each in blocks:
            payload = each.to_json() if json else each.to_bytes()
            await client.publish(f"cgsa/{each.machine}/blocks", payload, qos=qos)


def test_one_subscription_receives_blocks_of_many_machines(tmp_path: Path, mosquitto: Broker) -> None:
    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            await publish(mosquitto, *(block(n, machine) for n in range(20) for machine in ("m1", "m2")))
            await publish(mosquitto, block(20), json=True)
            await publish(mosquitto, block(21), qos=0)
            await until(lambda: source.status.counts["blocks"] == 42)
        assert source.status.counts["malformed"] == 0

    with plant_of(tmp_path, "m1", "m2") as plant:
        asyncio.run(main(plant))
        plant.wait_until_idle()
        for machine, number in (("m1", 22), ("m2", 20)):
            counts = plant.worker(machine).status().counts
            assert (counts.blocks, counts.refused_blocks, counts.gaps) == (number, 0, 0)


def test_a_broker_restart_repeats_no_block(tmp_path: Path, mosquitto: Broker) -> None:
    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            await publish(mosquitto, *(block(n) for n in range(10)))
            await until(lambda: source.status.counts["blocks"] == 10)
            mosquitto.stop(signal.SIGKILL)
            await until(lambda: source.status.state == "down")
            # Blocks 10 to 14 find no broker.
            mosquitto.start()
            await until(lambda: source.status.state == "up")
            # A sender that does not know whether its last ones arrived sends them again.
            await publish(mosquitto, *(block(n) for n in (8, 9, *range(15, 25))))
            await until(lambda: source.status.counts["blocks"] == 22)
        assert (source.status.counts["disconnects"], source.status.counts["reconnects"]) == (1, 1)

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
        plant.wait_until_idle()
        counts = plant.worker("m1").status().counts
        assert (counts.blocks, counts.refused_blocks, counts.gaps) == (22, 2, 1)
        # The first stretch is diagnosed when the gap ends it; of the second, no batch is full yet.
        assert counts.windows == 1 + (1000 - 32) // 4
        plant.store.flush()
        with plant.store.read() as store:
            notes = [note.text for note in store.notes("m1").rows]
    assert any(text.startswith("mqtt mqtt is down") for text in notes)
    assert "mqtt mqtt is up again" in notes
    assert "blocks missing: 5 blocks, 0.5 s" in notes


def test_blocks_sent_during_downtime_are_delivered_later(tmp_path: Path, mosquitto: Broker) -> None:
    async def serve(plant: Plant, number: int) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.state == "up" and source.status.counts["blocks"] == number)

    with plant_of(tmp_path) as plant:
        asyncio.run(serve(plant, 0))
        asyncio.run(publish(mosquitto, *(block(n) for n in range(30))))
        # A broker that is ended in peace keeps its sessions.
        mosquitto.stop(signal.SIGTERM)
        mosquitto.start()
        asyncio.run(serve(plant, 30))
        assert [each.sequence for each in journaled(plant)] == list(range(30))


def test_a_block_is_acknowledged_only_when_it_is_in_the_journal(
    tmp_path: Path, mosquitto: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service dies with blocks in its hands; the broker gives them to the next one."""

    async def die(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        waits = asyncio.Event()

        async def never(*_: object) -> None:
            waits.set()
            await asyncio.Event().wait()

        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            await publish(mosquitto, block(0))
            await until(lambda: source.status.counts["blocks"] == 1)
            with monkeypatch.context() as stuck:
                stuck.setattr(source, "submit", never)
                await publish(mosquitto, *(block(n) for n in range(1, 6)))
                await waits.wait()

    async def recover(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.counts["blocks"] == 5)

    with plant_of(tmp_path) as plant:
        asyncio.run(die(plant))
        assert len(journaled(plant)) == 1
        asyncio.run(recover(plant))
        assert [each.sequence for each in journaled(plant)] == list(range(6))


def test_an_unwritable_journal_ends_the_connection_but_loses_no_block(
    tmp_path: Path, mosquitto: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        true = plant.submit
        failures = iter([OSError("full"), OSError("still full")])

        def submit(each: Block) -> int:
            for error in failures:
                raise error
            return true(each)

        monkeypatch.setattr(plant, "submit", submit)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            await publish(mosquitto, *(block(n) for n in range(5)))
            await until(lambda: source.status.counts["blocks"] == 5)
        assert source.status.counts["disconnects"] == 2

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
        assert [each.sequence for each in journaled(plant)] == list(range(5))


def test_a_stopped_machine_does_not_hold_up_the_others_of_its_broker(tmp_path: Path, mosquitto: Broker) -> None:
    refused: list[dict[str, str]] = []

    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with aiomqtt.Client("127.0.0.1", mosquitto.port) as listener, running(source.run()):
            await listener.subscribe("cgsa/+/refused")
            await until(lambda: source.status.state == "up")
            plant.worker("m1").fail("the watch stopped")
            await publish(mosquitto, *(block(n, machine) for n in range(60) for machine in ("m1", "m2")))
            await until(lambda: source.status.counts["blocks"] == 60)
            assert source.status.counts["lost"] == 60 - MAX_HELD
            async for message in listener.messages:
                refused.append(json_format.loads(bytes(message.payload)))
                if len(refused) == 60 - MAX_HELD:
                    break
        assert source.status.counts["disconnects"] == 0

    async def recover(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.counts["blocks"] == MAX_HELD)

    with plant_of(tmp_path, "m1", "m2") as plant:
        asyncio.run(main(plant))
        assert [each.sequence for each in journaled(plant, "m2")] == list(range(60))
        assert journaled(plant, "m1") == []
    assert {answer["machine"] for answer in refused} == {"m1"}
    assert "is lost: m1 is not monitored at present: the watch stopped" in refused[0]["message"]
    # What was neither taken nor refused is still with the broker.
    with plant_of(tmp_path, "m1", "m2") as plant:
        asyncio.run(recover(plant))
        assert [each.sequence for each in journaled(plant, "m1")] == list(range(MAX_HELD))


def test_a_machine_that_takes_blocks_again_gets_those_that_were_held(
    tmp_path: Path, mosquitto: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_blocks, "RETRY_SECONDS", 0.05)

    async def main(plant: Plant) -> None:
        source, worker = source_of(plant, mosquitto), plant.worker("m1")
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            with monkeypatch.context() as patch:
                patch.setattr(worker, "_failure", "for a while")
                await publish(mosquitto, *(block(n, machine) for n in range(5) for machine in ("m1", "m2")))
                await until(lambda: source.status.counts["blocks"] == 5)
            await publish(mosquitto, *(block(n) for n in range(5, 20)))
            await until(lambda: source.status.counts["blocks"] == 25)
        assert source.status.counts["lost"] == 0

    with plant_of(tmp_path, "m1", "m2") as plant:
        asyncio.run(main(plant))
        assert [each.sequence for each in journaled(plant, "m1")] == list(range(20))


def test_if_no_machine_takes_blocks_the_broker_keeps_them(
    tmp_path: Path, mosquitto: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_blocks, "RETRY_SECONDS", 30.0)

    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            with monkeypatch.context() as patch:
                for name in ("m1", "m2"):
                    patch.setattr(plant.worker(name), "_failure", "for a while")
                await publish(mosquitto, *(block(n, machine) for n in range(30) for machine in ("m1", "m2")))
                await until(lambda: source.status.counts["disconnects"] >= 1)
            await until(lambda: source.status.counts["blocks"] == 60)
        assert source.status.counts["lost"] == 0

    with plant_of(tmp_path, "m1", "m2") as plant:
        asyncio.run(main(plant))
        for name in ("m1", "m2"):
            assert [each.sequence for each in journaled(plant, name)] == list(range(30))


def test_overload_slows_the_broker_down_and_loses_nothing(
    tmp_path: Path, mosquitto: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "RETRY_SECONDS", 0.02)

    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        worker = plant.worker("m1")
        work = worker.work
        monkeypatch.setattr(worker, "work", lambda: False)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            await publish(mosquitto, *(block(n) for n in range(60)))
            await until(lambda: source.status.counts["overloads"] > 0)
            held = source.status.counts["blocks"]
            await asyncio.sleep(0.1)
            assert source.status.counts["blocks"] == held < 60
            assert source.status.state == "up"
            monkeypatch.setattr(worker, "work", work)
            await until(lambda: source.status.counts["blocks"] == 60)

    with plant_of(tmp_path, config=WorkerConfig(shed_below=0.1, shed_above=0.2, max_waiting=1.0)) as plant:
        asyncio.run(main(plant))
        assert [each.sequence for each in journaled(plant)] == list(range(60))


def test_garbage_is_counted_and_never_ends_the_connection(tmp_path: Path, mosquitto: Broker) -> None:
    chance = Random(0)  # noqa: S311 - test data
    whole = block(0).to_bytes()

    def damaged() -> bytes:
        garbage = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            garbage[chance.randrange(len(garbage))] ^= 1 << chance.randrange(8)
        return bytes(garbage[: chance.randint(0, len(garbage))])

    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            async with aiomqtt.Client("127.0.0.1", mosquitto.port) as client:
                for n in range(300):
                    payload = damaged() if n % 2 else chance.randbytes(chance.randrange(100))
                    topic = f"cgsa/{chance.choice(['m1', 'm2', 'ü', ''])}/blocks"
                    await client.publish(topic, payload, qos={0: 1, 5: 2}.get(n % 20, 0))
                # Sound, but of another machine than the topic says; and retained.
                await client.publish("cgsa/m2/blocks", whole, qos=1)
                await client.publish("cgsa/m1/blocks", whole, qos=1)
                await until(lambda: source.status.counts["malformed"] == 301)
                assert "in a message for m2" in source.status.note
                await client.publish("cgsa/m1/blocks", block(1).to_bytes(), qos=1, retain=True)
            await until(lambda: source.status.counts["blocks"] == 2)
            assert (source.status.counts["disconnects"], source.status.state) == (0, "up")
        again = source_of(plant, mosquitto)
        async with running(again.run()):
            await until(lambda: again.status.counts["malformed"] == 1)
            assert "a retained message" in again.status.note

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))
        assert [each.sequence for each in journaled(plant)] == [0, 1]


def test_senders_learn_why_blocks_are_refused(tmp_path: Path, mosquitto: Broker) -> None:
    """At once if a block is wrong by itself, and with a later block if that was found in its turn."""

    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()), aiomqtt.Client("127.0.0.1", mosquitto.port) as client:
            await client.subscribe("cgsa/+/refused")
            await until(lambda: source.status.state == "up")
            answers = aiter(client.messages)
            for wrong, text in (
                (replace(block(0), sample_rate=1200.0), "expected 1000 Hz"),
                (replace(block(0), channels=("a", "z")), "expected a, b, in this order"),
            ):
                await publish(mosquitto, wrong)
                async with asyncio.timeout(20):
                    found = await anext(answers)
                assert found.topic.value == "cgsa/m1/refused"
                answer = json_format.loads(bytes(found.payload))
                assert answer["machine"] == "m1"
                assert text in answer["message"]
            assert source.status.counts["malformed"] == 2
            for number in (0, 4, 5):
                await publish(mosquitto, block(number))
                await until(lambda: source.status.counts["malformed"] == 2 and not plant.worker("m1").has_work)
                await asyncio.sleep(0.1)
            async with asyncio.timeout(20):
                found = await anext(answers)
            assert "blocks missing: 3 blocks" in json_format.loads(bytes(found.payload))["message"]

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))


@pytest.mark.parametrize("topic", ["refused", "cgsa/{machine}/#", "cgsa/+/{machine}"])
def test_invalid_topics_of_refusals_are_refused(topic: str) -> None:
    with pytest.raises(ConfigError, match="no wildcard"):
        MqttConfig(refusals=topic)


def test_a_silent_broker_is_disconnected(tmp_path: Path, mosquitto: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "KEEPALIVE_SECONDS", 1)
    monkeypatch.setattr(broker, "ANSWER_SECONDS", 0.3)

    async def main(plant: Plant) -> None:
        source = source_of(plant, mosquitto)
        async with running(source.run()):
            await until(lambda: source.status.state == "up")
            mosquitto.poke(signal.SIGSTOP)
            await until(lambda: source.status.state == "down")
            mosquitto.poke(signal.SIGCONT)
            await until(lambda: source.status.state == "up")
            await publish(mosquitto, block(0))
            await until(lambda: source.status.counts["blocks"] == 1)

    with plant_of(tmp_path) as plant:
        asyncio.run(main(plant))


# Paho leaves the socket of a handshake that failed to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_user_password_and_certificates(tmp_path: Path) -> None:
    certificate(tmp_path, "broker", "subjectAltName=IP:127.0.0.1")
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", passwords, "hall", "right"], check=True, capture_output=True)  # noqa: S607 - it came with the broker
    lines = ["allow_anonymous false", f"password_file {passwords}"]
    lines += [f"certfile {tmp_path}/broker.crt", f"keyfile {tmp_path}/broker.key"]
    password = tmp_path / "password"
    password.write_text("wrong\n")

    async def main(plant: Plant, port: int) -> None:
        tls = {"ca": str(tmp_path / "broker.crt")}
        table = {"host": "127.0.0.1", "port": port, "tls": tls, "user": "hall", "password": {"file": str(password)}}
        source = create_source(plant, {"kind": "mqtt", "broker": table})
        stranger = create_source(plant, {"kind": "mqtt", "name": "stranger", "broker": {**table, "tls": {}}})
        lost = {**table, "tls": {"ca": str(tmp_path / "missing")}}
        without = create_source(plant, {"kind": "mqtt", "name": "lost", "broker": lost})
        async with running(source.run(), stranger.run(), without.run()):
            await until(lambda: source.status.state == "down")
            assert "authori" in source.status.why.lower()
            password.write_text("right\n")
            await until(lambda: source.status.state == "up")
            await until(lambda: stranger.status.state == without.status.state == "down")
            assert "certificate" in stranger.status.why.lower()
            assert "missing cannot be used" in without.status.why
            assert "wrong" not in source.status.why

    with Broker(tmp_path / "secure", *lines) as secure, plant_of(tmp_path) as plant:
        asyncio.run(main(plant, secure.port))


@pytest.mark.parametrize(
    ("topic", "subscription", "came", "machine"),
    [
        ("cgsa/{machine}/blocks", "cgsa/+/blocks", "cgsa/m1/blocks", "m1"),
        ("+/{machine}/#", "+/+/#", "hall/m1/x/y", "m1"),
        ("{machine}", "+", "m1", "m1"),
        ("hall/#", "hall/#", "hall/m1", None),
    ],
)
def test_topics_name_machines(topic: str, subscription: str, came: str, machine: str | None) -> None:
    config = MqttConfig(topic=topic)
    assert (config.subscription, config.machine(came)) == (subscription, machine)


@pytest.mark.parametrize("topic", ["", "a/{machine}b", "{machine}/{machine}", "#/{machine}", "a/#/b"])
def test_invalid_topics_are_refused(topic: str) -> None:
    with pytest.raises(ConfigError, match="expected one such as"):
        MqttConfig(topic=topic)
