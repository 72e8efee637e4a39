from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgsa.errors import DataError, OverloadError
from cgsa.live.intake.block import Block
from cgsa.service.limits import RequestLimits
from cgsa.service.schemas import AcceptedBlock
from tests.machines import RATE
from tests.service.running_service import BEGIN, BINARY, MACHINE, RunningService, block, running_service

PATH = "/api/blocks"
JSON = {"Content-Type": "application/json"}


def test_an_accepted_block_is_in_the_journal(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("operator") as client:
        answers = [
            client.post(PATH, content=block(0).to_bytes(), headers=BINARY),
            client.post(PATH, content=block(1).to_json(), headers={"Content-Type": "application/json; charset=utf-8"}),
            client.post(PATH, content=block(1).to_json(), headers=JSON),
        ]
        service.plant.wait_until_idle()
        counts = service.plant.worker(MACHINE).status().counts
        assert service.audit(who="the-operator") == (), "what is in the journal need not be in the audit"
    assert [answer.status_code for answer in answers] == [202, 202, 202]
    positions = [answer.json()["position"] for answer in answers]
    assert positions == sorted(set(positions))
    assert (counts.blocks, counts.refused_blocks) == (3, 1), "the one that came twice is the watch's business"


def test_the_answer_has_the_form_that_the_description_states(service: RunningService) -> None:
    with service.client("operator") as client:
        for sent in (block(0), block(1), replace(block(2), sample_rate=2 * RATE), block(3)):
            answer = client.post(PATH, content=sent.to_bytes(), headers=BINARY)
        assert answer.status_code == 202
        assert answer.headers["content-type"] == "application/json"
        found = AcceptedBlock.model_validate(answer.json(), extra="forbid")
        stated = client.get("/api/openapi.json").json()["paths"][PATH.removeprefix("/api")]["post"]
    assert (found.machine, found.position) == (MACHINE, service.plant.worker(MACHINE).position - 1)
    schema = stated["responses"]["202"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/AcceptedBlock"}


def test_a_block_of_another_machine_is_not_found(service: RunningService) -> None:
    with service.client("operator") as client:
        answer = client.post(PATH, content=block(0, machine="other").to_bytes(), headers=BINARY)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "no machine 'other' is monitored here"
        name = json.loads(block(0).to_json()) | {"machine": "../../etc"}
        assert client.post(PATH, content=json.dumps(name), headers=JSON).status_code == 422
    assert sorted(service.plant.workers) == [MACHINE]


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"", 415),
        ({"Content-Type": "text/csv"}, b"1,2,3", 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x--", 415),
        (BINARY, b"", 422),
        (BINARY, b"CGSB", 422),
        (BINARY, block(0).to_bytes()[:-1], 422),
        (JSON, b"", 422),
        (JSON, b"[" * 100_000, 422),
        (JSON, b'{"machine": NaN}', 422),
        (JSON, b"\xff\xfe", 422),
    ],
)
def test_an_invalid_block_is_refused(
    service: RunningService, headers: dict[str, str], body: bytes, status: int
) -> None:
    with service.client("operator") as client:
        answer = client.post(PATH, content=body, headers=headers)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"kind", "message", "where"}


SLOW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SLOW
@given(data=st.data())
def test_no_damaged_block_causes_an_internal_error(service: RunningService, data: st.DataObject) -> None:
    raw = bytearray(block(0, samples=8).to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] + data.draw(st.binary(max_size=8))
    with service.client("operator") as client:
        assert client.post(PATH, content=bytes(raw), headers=BINARY).status_code in {202, 404, 422}


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@SLOW
@given(key=st.sampled_from(["machine", "sequence", "time", "sample_rate", "channels", "samples", "more"]), value=VALUES)
def test_no_value_in_a_block_causes_an_internal_error(service: RunningService, key: str, value: object) -> None:
    body_values = json.loads(block(0, samples=8).to_json()) | {key: value}
    with service.client("operator") as client:
        answer = client.post(PATH, content=json.dumps(body_values), headers=JSON)
    assert answer.status_code in {202, 404, 422}


def test_a_block_that_is_too_large_is_refused_in_both_forms(tmp_path: Path) -> None:
    large = block(0, samples=5000).to_bytes()
    with (
        running_service(tmp_path, limits=RequestLimits(block_bytes=10_000)) as service,
        service.client("operator") as client,
    ):
        assert client.post(PATH, content=large, headers=BINARY).status_code == 413
        chunks = (large[begin : begin + 1000] for begin in range(0, len(large), 1000))
        answer = client.post(PATH, content=chunks, headers=BINARY)  # without a length
        assert answer.status_code == 413
        assert answer.json()["error"]["kind"] == "too large"
        assert client.post(PATH, content=block(0).to_bytes(), headers=BINARY).status_code == 202


def test_json_has_a_limit_of_its_own_and_is_decoded_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = 0, 0
    decode = Block.from_json

    def counted(body: bytes) -> Block:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.02)
        running -= 1
        return decode(body)

    monkeypatch.setattr(Block, "from_json", counted)
    limits = RequestLimits(json_bytes=20_000)
    with running_service(tmp_path, limits=limits) as service, service.client("sender") as client:
        large = block(0, samples=5000).to_json().encode()
        chunks = (large[begin : begin + 1000] for begin in range(0, len(large), 1000))
        for content in (large, chunks):
            answer = client.post(PATH, content=content, headers=JSON)
            assert answer.status_code == 413
            assert "more than 20000 bytes of JSON" in answer.json()["error"]["message"]
        assert most == 0, "nothing of it was decoded"
        bodies = [block(number).to_json() for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda body: client.post(PATH, content=body, headers=JSON).status_code, bodies)
        assert set(answers) <= {202, 409}
        assert most == 1
        assert client.post(PATH, content="[" * 10_000, headers=JSON).status_code == 422


def test_short_json_of_a_large_block_is_refused(tmp_path: Path) -> None:
    rows = [[0] * 1_100_000 for _ in range(4)]
    body_values = {
        "machine": MACHINE,
        "sequence": 0,
        "time": BEGIN,
        "sample_rate": RATE,
        "channels": list("abcd"),
        "samples": [row[: 2**20] for row in rows],
    }
    body = json.dumps(body_values, separators=(",", ":"))
    assert len(body) < 16 * 2**20
    limits = RequestLimits(json_bytes=16 * 2**20)
    with running_service(tmp_path, limits=limits) as service, service.client("operator") as client:
        assert client.post(PATH, content=body, headers=JSON).status_code == 413


def test_overload_is_answered_with_retry_after(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Block) -> int:
        raise OverloadError("120 s of signal wait already")

    monkeypatch.setattr(service.plant, "submit", refuse)
    with service.client("operator") as client:
        answer = client.post(PATH, content=block(0).to_bytes(), headers=BINARY)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_a_full_disk_is_a_failure_of_the_service(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Block) -> int:
        raise DataError("journal: cannot be written") from OSError(28, "No space left on device")

    monkeypatch.setattr(service.plant, "submit", refuse)
    with service.client("operator") as client:
        answer = client.post(PATH, content=block(0).to_bytes(), headers=BINARY)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_samples_that_are_not_numbers_are_accepted(tmp_path: Path) -> None:
    odd = Block(MACHINE, 0, BEGIN, RATE, ("a", "b"), np.full((2, 400), np.nan, np.float32))
    with running_service(tmp_path) as service, service.client("operator") as client:
        assert client.post(PATH, content=odd.to_json(), headers=JSON).status_code == 202
        service.plant.wait_until_idle()
        found = client.get(f"/api/machines/{MACHINE}")
    assert found.status_code == 200


def test_a_refused_block_is_answered_with_reason_and_cure(tmp_path: Path) -> None:
    wrong = [
        (replace(block(2), sample_rate=1200.0), 422, "expected 1000 Hz"),
        (replace(block(2), channels=("a", "z")), 422, "expected a, b, in this order"),
        (replace(block(2), units={"b": "mm/s"}), 422, "in mm/s; expected g"),
        (replace(block(2), conditions={"sped": 1.0}), 422, "unknown condition 'sped'"),
        (replace(block(0), time=BEGIN - 60.0), 409, "expected blocks in order"),
    ]
    with running_service(tmp_path) as service, service.client("operator") as client:
        service.feed(2)
        for one, status, text in wrong:
            for body, headers in ((one.to_bytes(), BINARY), (one.to_json(), JSON)):
                answer = client.post(PATH, content=body, headers=headers)
                assert answer.status_code == status
                assert text in answer.json()["error"]["message"]
        service.plant.wait_until_idle()
        found = client.get(f"/api/machines/{MACHINE}").json()
        assert found["counts"]["refused_blocks"] == 10
        assert found["last_refused"]["reason"] == "duplicate or late"
        accepted = client.post(PATH, content=block(2).to_bytes(), headers=BINARY)
        assert accepted.status_code == 202
        assert accepted.json()["last_refused"] == found["last_refused"]


def test_what_is_found_later_is_in_the_next_answer(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, service.client("operator") as client:
        service.feed(2)
        answers = []
        for sequence in (5, 6):
            answers.append(client.post(PATH, content=block(sequence).to_bytes(), headers=BINARY).json()["last_refused"])
            service.plant.wait_until_idle()
    assert answers[0] is None
    assert (answers[1]["what"], answers[1]["reason"], answers[1]["sequence"]) == ("gap", "blocks missing", None)
