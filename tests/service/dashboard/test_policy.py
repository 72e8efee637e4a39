from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from starlette.types import Message

from cgsa.service.dashboard.policy import PolicySender, page_policy
from tests.service.running_service import MACHINE, running_service


def digest(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def test_a_policy_names_the_inline_scripts_of_its_page() -> None:
    page = """<script type="importmap">{"a": 1}</script><script defer src="/x.js"></script><p>script</p>
    <script>
    go("x < y")
    </script><script type="module">go()</script><script type="module">go()</script>"""
    scripts = page_policy(page.encode()).split("; ")[1]
    codes = ['{"a": 1}', '\n    go("x < y")\n    ', "go()"]
    assert scripts == f"script-src 'self' 'unsafe-eval' {' '.join(map(digest, codes))}"


def test_pages_allow_no_other_inline_script(tmp_path: Path) -> None:
    with running_service(tmp_path, dashboard=True) as service, service.client("viewer") as client:
        for path in ("/", "/alarms", f"/machine/{MACHINE}"):
            answer = client.get(path, headers={"Accept-Encoding": "gzip"})
            assert answer.headers["Content-Encoding"] == "gzip", "as every browser asks"
            policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
            assert "'unsafe-inline'" not in policy["script-src"]
            assert "'sha256-" in policy["script-src"]
            assert policy == dict(part.split(" ", 1) for part in page_policy(answer.content).split("; "))


def sent(*messages: Message) -> Sequence[Message]:
    found: list[Message] = []

    async def go() -> None:
        async def send(message: Message) -> None:
            found.append(message)

        sender = PolicySender(send)
        for message in messages:
            await sender(message)

    asyncio.run(go())
    return found


def test_a_page_in_parts_is_sent_with_the_policy_of_the_whole() -> None:
    start: Message = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/html; charset=utf-8")],
    }
    parts: list[Message] = [
        {"type": "http.response.body", "body": b"<script>g", "more_body": True},
        {"type": "http.response.body", "body": b"o()</script>", "more_body": False},
    ]
    begin, body = sent(start, *parts)
    assert digest("go()") in dict(begin["headers"])[b"content-security-policy"].decode()
    assert body["body"] == b"<script>go()</script>"


def test_what_is_no_page_is_sent_as_it_comes() -> None:
    messages: list[Message] = [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/css")]},
        {"type": "http.response.body", "body": b"p {}", "more_body": True},
        {"type": "http.response.body", "body": b""},
    ]
    assert sent(*messages) == messages
