from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from cgsa.errors import ConfigError, DataError, OverloadError
from cgsa.fleet.gateway import Gateway, GatewayConfig
from cgsa.fleet.log.contract import ReplayableLog
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer
from cgsa.live.commands import Command
from cgsa.live.watch import BLOCK, BLOCK_NOT_LEARNT, COMMAND
from cgsa.service.sources.base import Source
from tests.fleet.machines import blocks_of, until

MACHINE = "m1"


@pytest.fixture
def log(nats_server: NatsServer) -> Iterator[ReplayableLog]:
    with JetStreamLog(JetStreamConfig(NatsConfig((nats_server.address,)), name=f"f{uuid4().hex[:8]}")) as opened:
        yield opened


def gateway(log: ReplayableLog, config: GatewayConfig | None = None) -> Gateway:
    return Gateway(log, lambda: (MACHINE,), config)


def kinds(log: ReplayableLog) -> list[str]:
    return [record.kind for record in log.read(MACHINE, 0)]


def test_a_block_that_is_sent_again_counts_once(log: ReplayableLog) -> None:
    first, second = blocks_of(MACHINE)[:2]
    opened = gateway(log)
    positions = [opened.submit(first), opened.submit(second), opened.submit(first)]
    assert positions[0] == positions[2]
    assert gateway(log).submit(second) == positions[1]  # after a restart of the gateway, too
    assert kinds(log) == [BLOCK, BLOCK]
    # Another recording that begins with the same number is another block.
    assert opened.submit(replace(first, time=first.time + 1000.0)) > positions[1]


def test_learning_is_shed_while_shards_are_behind_and_the_log_says_so(log: ReplayableLog) -> None:
    opened, sent = gateway(log, GatewayConfig(shed_above=1.0, shed_below=0.3)), blocks_of(MACHINE)
    for block in sent[:20]:
        opened.submit(block)
    assert kinds(log) == [BLOCK] * 11 + [COMMAND] + [BLOCK_NOT_LEARNT] * 9
    assert opened.waiting(MACHINE) == pytest.approx(2.0)
    log.report("s1", {MACHINE: log.end(MACHINE)})
    until(lambda: opened.waiting(MACHINE) == 0.0)
    opened.submit(sent[20])
    assert kinds(log)[-2:] == [COMMAND, BLOCK]
    texts = [Command.from_bytes(one.payload).text for one in log.read(MACHINE, 0) if one.kind == COMMAND]
    assert texts == ["1.1 s behind: learning is shed", "caught up: learning resumes"]


def test_a_machine_that_nobody_processes_takes_no_more_blocks_and_others_do(log: ReplayableLog) -> None:
    opened = Gateway(log, lambda: (MACHINE, "m2"), GatewayConfig(1.0, 0.5, max_waiting=1.55))
    sent = blocks_of(MACHINE)
    for block in sent[:16]:
        opened.submit(block)
    with pytest.raises(OverloadError, match="2 s of signal wait already"):
        opened.submit(sent[16])
    opened.submit(blocks_of("m2")[0])


def test_machines_that_nobody_watches_are_refused(log: ReplayableLog) -> None:
    with pytest.raises(DataError, match="no machine 'm9'"):
        gateway(log).submit(blocks_of("m9")[0])
    with pytest.raises(DataError, match="no machine 'm9'"):
        gateway(log).command("m9", Command("freeze", "me"))


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="ascending"):
        GatewayConfig(shed_above=1.0, shed_below=2.0)


def test_a_source_of_the_service_publishes_to_the_log(log: ReplayableLog) -> None:
    class Direct(Source):
        kind = "direct"
        Config = object

        async def connect(self) -> None:
            raise AssertionError

    sent = blocks_of(MACHINE)[:3]
    source = Direct(gateway(log), None)

    async def send() -> None:
        for block in sent:
            await source.accept(block.to_bytes(), MACHINE)
        await source.accept(blocks_of("m9")[0].to_bytes())
        await source.report("connected again")

    asyncio.run(send())
    assert [one.payload for one in log.read(MACHINE, 0)][:3] == [block.to_bytes() for block in sent]
    assert kinds(log) == [BLOCK, BLOCK, BLOCK, COMMAND]
    assert source.status.counts["malformed"] == 1
