"""A small SMTP server on loopback: it speaks what mail servers ask of a client, and keeps what it gets."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Self


@dataclass
class Session:
    """What one client did."""

    encrypted: bool = False
    login: tuple[str, str] | None = None


@dataclass
class MailServer:
    """Accepts mail; ``answer`` may refuse an address or the data of a mail with another answer."""

    certificate: tuple[str, str] | None = None
    implicit_tls: bool = False
    answer: Callable[[str], str | None] = lambda _: None
    mails: list[EmailMessage] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    port: int = 0

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._tls = None
        if self.certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(*self.certificate)
        context = self._tls if self.implicit_tls else None
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(encrypted=self.implicit_tls)
        self.sessions.append(session)
        try:
            await self._send(writer, "220 test")
            while line := (await reader.readline()).decode().rstrip("\r\n"):
                if line == "QUIT":
                    await self._send(writer, "221 bye")
                    return
                await self._obey(line, reader, writer, session)
        except (ConnectionError, ssl.SSLError):
            return
        finally:
            writer.close()

    async def _obey(
        self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: Session
    ) -> None:
        word = line.split(" ", maxsplit=1)[0].upper()
        if word == "EHLO":
            offers = ["AUTH PLAIN"] if session.encrypted or self._tls is None else ["STARTTLS"]
            await self._send(writer, "250-test", *(f"250-{offer}" for offer in offers), "250 8BITMIME")
        elif word == "STARTTLS":
            await self._send(writer, "220 go ahead")
            assert self._tls is not None
            await writer.start_tls(self._tls)
            session.encrypted = True
        elif word == "AUTH":
            _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
            session.login = user, password
            await self._send(writer, self.answer(line) or "235 welcome")
        elif word == "DATA":
            await self._send(writer, "354 end with a dot")
            data = await reader.readuntil(b"\r\n.\r\n")
            refusal = self.answer("DATA")
            if refusal is None:
                self.raw.append(data[:-3])
                found = message_from_bytes(data[:-3], policy=default)
                assert isinstance(found, EmailMessage)
                self.mails.append(found)
            await self._send(writer, refusal or "250 taken")
        else:
            await self._send(writer, self.answer(line) or "250 ok")

    async def _send(self, writer: asyncio.StreamWriter, *lines: str) -> None:
        writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await writer.drain()
