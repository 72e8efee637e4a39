from __future__ import annotations

from collections.abc import Callable

import pytest

from cgsa.fleet.log.checks import CHECKS, Open
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer


def opener(server: NatsServer, **settings: object) -> Open:
    config = JetStreamConfig(NatsConfig((server.address,)), **settings)  # type: ignore[arg-type]
    return lambda: JetStreamLog(config)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_holds(check: Callable[[Open], None], nats_server: NatsServer) -> None:
    check(opener(nats_server))
