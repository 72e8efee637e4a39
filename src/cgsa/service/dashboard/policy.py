"""The content security policy of a page: what a browser may run and load for it.

The library of the dashboard (NiceGUI) compiles its templates in the browser, so ``'unsafe-eval'`` stays: without it,
pages remain empty. The inline scripts with which it starts a page are named by their hashes instead of allowing all:
markup that got into a page would not run.
"""

from __future__ import annotations

import base64
import hashlib
import re

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

_INLINE = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(?P<code>.*?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)


def page_policy(html: bytes) -> str:
    """Return the policy of a page with these inline scripts.

    >>> page_policy(b"<script>go()</script>").split("; ")[1]
    "script-src 'self' 'unsafe-eval' 'sha256-5KYv+PUboo5h+0+YAtGRPbwv5d/QxzHslP4YGnUaxRw='"
    """
    codes = dict.fromkeys(found["code"] for found in _INLINE.finditer(html))
    return _POLICY.format(hashes=" ".join(map(_source, codes)))


class PolicySender:
    """Sends an answer; if it is a page, with the policy that fits it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        """The begin of a page, held back until its body is known."""
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            kind = MutableHeaders(scope=message).get("content-type", "")
            if kind.startswith("text/html"):
                self._start = message
                return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        start, self._start = self._start, None
        MutableHeaders(scope=start)["Content-Security-Policy"] = page_policy(self._body)
        await self._send(start)
        await self._send({"type": "http.response.body", "body": self._body})


def _source(code: bytes) -> str:
    """Return the hash by which a policy names a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code).digest()).decode()}'"
