from __future__ import annotations

import asyncio
import io
import json
import logging

import httpx
from fastapi import FastAPI

from cgsa.service.errors import handle_errors
from cgsa.service.logs import configure_logging
from cgsa.service.request_ids import HEADER, RequestIds, current_request


def test_a_request_has_one_number_in_its_answer_and_in_the_log() -> None:
    app = FastAPI()

    @app.get("/work")
    def work() -> None:
        logging.getLogger("cgsa.test").warning("at work")  # in a thread of its own

    @app.get("/fail")
    async def fail() -> None:
        raise ValueError("a bug")

    handle_errors(app)
    stream = io.StringIO()
    handler = configure_logging(stream, "json")

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=RequestIds(app), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.get(path, headers={HEADER: "mine"}) for path in ("/work", "/work", "/fail")]

    try:
        answers = asyncio.run(ask())
    finally:
        logging.getLogger().removeHandler(handler)
    numbers = [answer.headers[HEADER] for answer in answers]
    assert len({*numbers, "mine"}) == 4
    logged = [json.loads(line) for line in stream.getvalue().splitlines() if "cgsa.test" in line]
    assert [line["request"] for line in logged] == numbers[:2]
    assert current_request() is None
