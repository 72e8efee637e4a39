from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from cgsa.errors import ConfigError, DataError
from cgsa.service.links.secret import Secret
from cgsa.service.sinks.base import RefusedNotificationError
from cgsa.service.sinks.outbox import Notification
from cgsa.service.sinks.webhook import WebhookConfig, WebhookSink
from tests.service.sinks.notifications import Receiver, change


def notification(*, notify: bool = True) -> Notification:
    return Notification("m1", 7, 0, 5.0, json.loads(change(1, notify=notify).to_json()))


def post(config: WebhookConfig) -> None:
    async def main() -> None:
        async with WebhookSink(config).open() as line:
            await line.send(notification())

    asyncio.run(main())


def test_a_notification_is_posted_with_its_id_and_signature(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("shared\n")
    with Receiver() as receiver:
        post(WebhookConfig(receiver.url, secret=Secret(file=str(tmp_path / "secret"))))
        post(WebhookConfig(receiver.url))
    (headers, body), (unsigned, again) = receiver.got
    assert body == again == notification().body()
    assert json.loads(body)["case"]["fault"] == "wear"
    assert headers["Idempotency-Key"] == "m1/7/0"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Cgsa-Signature"] == "sha256=" + hmac.new(b"shared", body, hashlib.sha256).hexdigest()
    assert "X-Cgsa-Signature" not in unsigned


@pytest.mark.parametrize(
    ("code", "error"), [(400, RefusedNotificationError), (413, RefusedNotificationError), (401, DataError)]
)
def test_the_status_tells_refusals_from_failures(code: int, error: type[DataError]) -> None:
    with Receiver() as receiver:
        receiver.answer = lambda _: code
        with pytest.raises(error, match=str(code)) as caught:
            post(WebhookConfig(receiver.url))
        assert type(caught.value) is error
        # The address may be a secret.
        assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize("code", [301, 429, 500, 503])
def test_other_failures_are_retried(code: int) -> None:
    with Receiver() as receiver:
        receiver.answer = lambda _: code
        with pytest.raises(DataError, match=f"the receiver answers {code}"):
            post(WebhookConfig(receiver.url))


def test_only_changes_that_notify_are_posted_by_default() -> None:
    assert [WebhookSink(WebhookConfig("http://a")).wants(notification(notify=notify)) for notify in (True, False)] == [
        True,
        False,
    ]
    assert WebhookSink(WebhookConfig("http://a", everything=True)).wants(notification(notify=False))


def test_impossible_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="begins with http"):
        WebhookConfig("ftp://a")
    with pytest.raises(ConfigError, match="expected up to 60 s"):
        WebhookConfig("http://a", timeout_seconds=0)
    with pytest.raises(ConfigError, match="missing cannot be used"):
        post(WebhookConfig("https://a", ca=str(tmp_path / "missing")))
