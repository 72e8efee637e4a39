from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import ConfigError, DataError
from cgsa.events import AlarmChange, Case
from cgsa.service.links.secret import Secret
from cgsa.service.sinks import AlarmSinks
from cgsa.service.sinks.base import RefusedNotificationError
from cgsa.service.sinks.email import EmailConfig, EmailSink, compose_mail
from cgsa.service.sinks.outbox import Notification
from tests.service.sinks.mail_server import MailServer
from tests.service.sinks.notifications import change, raise_alarm
from tests.service.sources.counterparts import certificate, plant_of, running, until

CONFIG = EmailConfig("127.0.0.1", "cgsa@plant.example", ("ann@plant.example", "bob@plant.example"), tls="none")


def notification(found: AlarmChange | None = None) -> Notification:
    return Notification("m1", 7, 0, 5.0, json.loads((found or change(1)).to_json()))


def cleared(**case: object) -> AlarmChange:
    found = Case(1, "cleared", "high", "wear", ("wear",), opened=1.0, changed=2.0, notified=1)
    return AlarmChange("m1", 2.0, "cleared", "wear", False, replace(found, **case))  # type: ignore[arg-type]


def send(config: EmailConfig, found: AlarmChange | None = None) -> None:
    async def main() -> None:
        async with EmailSink(config).open() as line:
            await line.send(notification(found))

    asyncio.run(main())


def test_a_mail_says_what_happened_and_links_to_the_case() -> None:
    with MailServer() as server:
        send(replace(CONFIG, port=server.port, link="https://cgsa.plant/"))
    (mail,) = server.mails
    assert mail["Subject"] == "[m1] alarm raised: wear (high)"
    assert (mail["From"], mail["To"]) == ("cgsa@plant.example", "ann@plant.example, bob@plant.example")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content_type() == "text/plain"
    text = mail.get_content()
    assert "Machine:   m1" in text
    assert "https://cgsa.plant/machine/m1?case=1" in text


def test_a_mail_to_a_further_receiver_says_why() -> None:
    late = replace(notification(), sink="manager", reason="not acknowledged 15 min after shift was notified")
    mail = compose_mail(late, CONFIG)
    assert mail["Subject"] == "[m1] alarm still active: wear (high)"
    assert "Sent now:  not acknowledged 15 min after shift was notified" in mail.get_content()
    assert mail["Message-ID"] != compose_mail(notification(), CONFIG)["Message-ID"]
    assert mail["References"] == compose_mail(notification(), CONFIG)["References"]
    sink = EmailSink(CONFIG)
    assert sink.wants(late)
    assert not sink.wants(replace(notification(), held=True))
    assert not sink.wants(replace(notification(cleared()), held=True))


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_the_password_is_sent_encrypted(tmp_path: Path, tls: Literal["starttls", "tls"]) -> None:
    certificate(tmp_path, "localhost", "subjectAltName=DNS:localhost")
    (tmp_path / "secret").write_text("open sesame\n")
    files = str(tmp_path / "localhost.crt"), str(tmp_path / "localhost.key")
    with MailServer(files, implicit_tls=tls == "tls") as server:
        secret = Secret(file=str(tmp_path / "secret"))
        config = replace(CONFIG, host="localhost", port=server.port, tls=tls, ca=files[0], user="me", password=secret)
        send(config)
        with pytest.raises(DataError, match="CERTIFICATE_VERIFY_FAILED"):
            send(replace(config, ca=None))
    assert len(server.mails) == 1
    assert (server.sessions[0].encrypted, server.sessions[0].login) == (True, ("me", "open sesame"))
    assert all(one.login is None for one in server.sessions[1:]), (
        "nobody gets the password whose certificate is not trusted"
    )


def test_a_server_without_encryption_gets_no_mail_unless_that_is_configured() -> None:
    with MailServer() as server, pytest.raises(DataError, match="STARTTLS"):
        send(replace(CONFIG, port=server.port, tls="starttls"))
    assert server.mails == []


@pytest.mark.parametrize(
    ("line", "answer", "error"),
    [
        ("DATA", "554 spam", RefusedNotificationError),
        ("DATA", "451 later", DataError),
        ("RCPT", "550 unknown", DataError),
        ("MAIL", "421 busy", DataError),
    ],
)
def test_only_a_refused_mail_is_given_up(line: str, answer: str, error: type[DataError]) -> None:
    server = MailServer(answer=lambda sent: answer if sent.upper().startswith(line) else None)
    with server, pytest.raises(error, match=answer[:3]) as caught:
        send(replace(CONFIG, port=server.port))
    assert type(caught.value) is error


def test_one_refused_recipient_does_not_stop_the_others() -> None:
    with MailServer(answer=lambda line: "550 unknown" if "ann@" in line else None) as server:
        send(replace(CONFIG, port=server.port))
    assert len(server.mails) == 1


@given(fault=st.text(max_size=40), text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_no_name_or_remark_adds_a_header_or_ends_the_mail(fault: str, text: str) -> None:
    fault = fault.encode(errors="replace").decode() + "\r\nBcc: eve@evil.example\r\n.\r\n"
    mail = compose_mail(notification(replace(change(1), fault=fault, text=text)), CONFIG)
    sent = mail.as_bytes()
    headers = sent.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    names = {line.partition(":")[0] for line in headers if not line.startswith((" ", "\t"))}
    assert names <= {
        "Subject",
        "From",
        "To",
        "Date",
        "Message-ID",
        "References",
        "Auto-Submitted",
        "Content-Type",
        "Content-Transfer-Encoding",
        "MIME-Version",
    }


def test_a_mail_sent_twice_has_the_same_id_and_a_case_is_a_thread() -> None:
    first, again = (compose_mail(notification(), CONFIG) for _ in range(2))
    other = compose_mail(replace(notification(cleared()), position=9), CONFIG)
    assert first["Message-ID"] == again["Message-ID"] != other["Message-ID"]
    assert first["References"] == other["References"]


def test_raised_escalated_and_cleared_alarms_are_mailed() -> None:
    sink = EmailSink(CONFIG)
    assert [sink.wants(notification(found)) for found in (change(1), change(1, notify=False), cleared())] == [
        True,
        False,
        True,
    ]
    assert not EmailSink(replace(CONFIG, cleared=False)).wants(notification(cleared()))
    assert not sink.wants(notification(cleared(raised=2))), "a fault that comes and goes is mailed once"
    assert not sink.wants(notification(cleared(shelved_until=9.0)))
    escalated = replace(change(1), change="joined")
    assert "escalated" in compose_mail(notification(escalated), CONFIG)["Subject"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sender": "nobody"}, "sender 'nobody'; expected an address"),
        ({"recipients": ("a@b.c\r\nBcc: x@y.z",)}, "recipients"),
        ({"recipients": ()}, "at least one address"),
        ({"user": "me"}, "expected both or neither"),
        ({"user": "me", "password": Secret(env="X")}, "tls 'none' with a password"),
        ({"link": "ftp://x"}, "begins with http"),
        ({"timeout_seconds": 0.0}, "up to 60 s"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **settings)  # type: ignore[arg-type]


def test_an_alarm_waits_for_the_mail_server(tmp_path: Path) -> None:
    """Through the outbox, and again after the server refused it for a while."""
    busy = [True]

    async def main() -> None:
        with (
            MailServer(answer=lambda line: "451 later" if line == "DATA" and busy[0] else None) as server,
            plant_of(tmp_path) as plant,
        ):
            table = {"kind": "email", "host": "127.0.0.1", "port": server.port, "tls": "none"}
            table |= {"sender": CONFIG.sender, "recipients": list(CONFIG.recipients)}
            with AlarmSinks(plant, tmp_path / "outbox", [table]) as sinks:
                async with running(sinks.run()):
                    await asyncio.to_thread(raise_alarm, plant)
                    await until(lambda: sinks.deliveries[0].status.state == "down")
                    assert "451 later" in sinks.deliveries[0].status.why
                    busy[0] = False
                    await until(lambda: sinks.deliveries[0].status.counts["sent"] == 1)
            assert [mail["Subject"] for mail in server.mails] == ["[m1] alarm raised: no data (low)"]

    asyncio.run(main())
