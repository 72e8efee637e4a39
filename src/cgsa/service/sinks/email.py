"""Alarms by e-mail, over SMTP with TLS or STARTTLS.

One mail is sent when an alarm is raised, when a more severe or new fault escalates it, and when it is cleared. A fault
that comes and goes within an open case is mailed once. Mails about a case form a thread, and a mail that is sent twice,
because the answer of the server was lost, has the same ``Message-ID``.

A mail server may drop idle connections, so every mail has its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import smtplib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, ClassVar, Literal
from urllib.parse import quote

from cgsa.errors import ConfigError, DataError
from cgsa.service.links.link import reason
from cgsa.service.links.secret import Secret
from cgsa.service.sinks.base import RefusedNotificationError, Sink, SinkConnection
from cgsa.service.sinks.outbox import Notification

PORTS = {"starttls": 587, "tls": 465, "none": 25}
TIME = "%Y-%m-%d %H:%M:%S UTC"
MAX_SUBJECT = 200
"""Characters."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmailConfig:
    """The mail server, and who gets mail."""

    host: str
    """Name or address of the mail server."""
    sender: str
    """Address of the sender."""
    recipients: tuple[str, ...]
    """Addresses that get the mails."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """``none`` sends without encryption, and only without a password."""
    port: int | None = None
    """None means the default: 587 for STARTTLS, 465 for TLS, 25 without."""
    ca: str | None = None
    """File of trusted certificate authorities; None means the system's."""
    user: str | None = None
    """Who logs in; None sends without a login."""
    password: Secret | None = None
    link: str = ""
    """Address of the service for people, to which mails link; by default that at which it listens."""
    cleared: bool = True
    """Whether to send a mail when an alarm is cleared, too."""
    timeout_seconds: float = 20.0
    """How long the server may take to answer."""

    def __post_init__(self) -> None:
        for name, address in [("sender", self.sender), *(("recipients", one) for one in self.recipients)]:
            _check_address(name, address)
        if not self.recipients:
            raise ConfigError("recipients: empty; expected at least one address")
        if (self.user is None) != (self.password is None):
            raise ConfigError("user and password; expected both or neither")
        if self.password is not None and self.tls == "none":
            raise ConfigError(
                "tls 'none' with a password, which anybody on the network path can read; expected starttls"
            )
        if self.link and not self.link.startswith(("http://", "https://")):
            raise ConfigError(f"link {self.link!r}; expected an address that begins with http:// or https://")
        if not 0 < self.timeout_seconds <= 60 or not 0 < (self.port or 1) < 65_536:
            raise ConfigError(
                f"timeout_seconds {self.timeout_seconds:g}, port {self.port}; expected up to 60 s and a port"
            )


class EmailSink(Sink):
    """Sends notifications by mail."""

    kind: ClassVar[str] = "email"
    Config: ClassVar[type[object]] = EmailConfig

    def __init__(self, config: EmailConfig) -> None:
        self.config = config

    def wants(self, notification: Notification) -> bool:
        """Return whether a change needs a mail."""
        event = notification.event
        if event["notify"] or notification.held:
            return not notification.held
        case = event["case"]
        repeated = case["raised"] > max(len(case["faults"]), case["notified"])
        silent = repeated or case["shelved_until"] is not None or not case["notified"]
        return self.config.cleared and event["change"] == "cleared" and not silent

    @asynccontextmanager
    async def open(self) -> AsyncIterator[SinkConnection]:
        """Connect with each notification."""
        try:
            trust = ssl.create_default_context(cafile=self.config.ca)
        except OSError as error:
            raise ConfigError(f"ca: {self.config.ca} cannot be used ({error})") from error
        yield _Mails(self.config, trust)


class _Mails(SinkConnection):
    def __init__(self, config: EmailConfig, trust: ssl.SSLContext) -> None:
        self._config, self._trust = config, trust

    async def send(self, notification: Notification) -> None:
        message = compose_mail(notification, self._config)
        await asyncio.to_thread(self._send, message, notification.id)

    def _send(self, message: EmailMessage, name: str) -> None:
        config = self._config
        server = f"{config.host}:{config.port or PORTS[config.tls]}"
        try:
            with self._connect() as client:
                if config.tls == "starttls":
                    client.starttls(context=self._trust)
                if config.user is not None and config.password is not None:
                    client.login(config.user, config.password.read())
                refused = client.send_message(message, config.sender, list(config.recipients))
        except smtplib.SMTPDataError as error:
            if error.smtp_code >= 500:
                raise RefusedNotificationError(f"mail {name} refused by {server}: {_answer(error)}") from error
            raise DataError(f"{server} does not take mail now: {_answer(error)}") from error
        except smtplib.SMTPRecipientsRefused as error:
            raise DataError(f"{server} refuses all recipients: {error.recipients}") from error
        except smtplib.SMTPResponseException as error:
            raise DataError(f"{server} answers {_answer(error)}") from error
        except (smtplib.SMTPException, OSError) as error:
            raise DataError(f"{server}: {reason(error)}") from error
        if refused:
            _log.warning("mail %s: %s refuses the recipients %s", name, server, refused)

    def _connect(self) -> smtplib.SMTP:
        config, host = self._config, self._config.host
        port, own = config.port or PORTS[config.tls], socket.gethostname() or "localhost"
        if config.tls == "tls":
            return smtplib.SMTP_SSL(host, port, own, timeout=config.timeout_seconds, context=self._trust)
        return smtplib.SMTP(host, port, own, timeout=config.timeout_seconds)


def compose_mail(notification: Notification, config: EmailConfig) -> EmailMessage:
    """Return the mail about a change of a case, as plain text."""
    event, case = notification.event, notification.event["case"]
    machine, fault = notification.machine, str(event["fault"]).replace("_", " ")
    what = "cleared" if event["change"] == "cleared" else "escalated" if _escalates(event) else "raised"
    what = "still active" if notification.reason else what
    when, opened = (
        f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC" for at in (event["time"], case["opened"])
    )
    domain = config.sender.rpartition("@")[2]
    message = EmailMessage(policy=SMTP)
    message["Subject"] = _one_line(f"[{machine}] alarm {what}: {fault} ({case['severity']})")
    message["From"], message["To"] = config.sender, ", ".join(config.recipients)
    message["Date"] = format_datetime(datetime.fromtimestamp(notification.noticed, UTC))
    message["Message-ID"] = f"<{_digest(notification.id)}@{domain}>"
    thread = f"{machine}/case {case['number']}/{case['opened']}"
    message["References"] = f"<{_digest(thread)}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [
        f"Machine:   {machine}",
        f"Alarm:     {what}",
        f"Fault:     {fault}",
        f"Severity:  {case['severity']}",
        f"Case:      {case['number']}, {case['state']}, since {opened}",
        f"Time:      {when}",
    ]
    if notification.reason:
        lines.append(f"Sent now:  {notification.reason}")
    if event["text"]:
        lines.append(f"Remark:    {event['text']}")
    if config.link:
        lines += ["", f"{config.link.rstrip('/')}/machine/{quote(machine)}?case={case['number']}"]
    message.set_content("\n".join(lines) + "\n", charset="utf-8")
    return message


def _escalates(event: Any) -> bool:
    return event["change"] == "joined" or (event["change"] == "raised" and len(event["case"]["faults"]) > 1)


def _one_line(text: str) -> str:
    """Return a text without line breaks and control characters, which could begin another header."""
    return "".join(one for one in " ".join(text.split()) if one.isprintable())[:MAX_SUBJECT]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _answer(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    return f"{error.smtp_code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"


def _check_address(name: str, address: str) -> None:
    try:
        parsed = Address(addr_spec=address)
        valid = address.isascii() and address.isprintable() and bool(parsed.username and parsed.domain)
    except (ValueError, IndexError, AttributeError):
        valid = False
    if not valid:
        raise ConfigError(f"{name} {address!r}; expected an address such as 'shift@plant.example'")
