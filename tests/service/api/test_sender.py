from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from tests.service.running_service import BINARY, MACHINE, block, running_service

PATH = f"/api/machines/{MACHINE}"


def test_a_sender_whose_clock_was_ahead_raises_a_case_and_is_admitted_anew(tmp_path: Path) -> None:
    begin = time.time()
    with running_service(tmp_path) as service, service.client("operator") as client:

        def post(sequence: int, at: float) -> int:
            sent = replace(block(sequence), time=at)
            return client.post("/api/blocks", content=sent.to_bytes(), headers=BINARY).status_code

        ahead = [post(10_000 + n, begin + 3600.0 + 0.1 * n) for n in range(20)]
        service.plant.wait_until_idle()
        assert 3500 < client.get(PATH).json()["clock_skew"] < 3700
        # It restarts with the right clock, and counts from 0.
        right = [post(n, begin - 10.0 + 0.1 * n) for n in range(60)]
        service.plant.wait_until_idle()
        status = client.get(PATH).json()
        metrics = client.get("/metrics").text
        assert client.post(f"{PATH}/sender/readmit", json={"text": "clock corrected"}).status_code == 200
        again = [post(60 + n, begin - 4.0 + 0.1 * n) for n in range(20)]
        service.plant.wait_until_idle()
        after = client.get(PATH).json()
        notes = client.get("/api/notes").json()["rows"]
        audited = [entry.details for entry in service.audit() if entry.what == "readmit"]
    with running_service(tmp_path / "other") as other, other.client("viewer") as client:
        assert client.post(f"{PATH}/sender/readmit", json={}).status_code == 403
    assert (set(ahead), set(right), set(again)) == ({202}, {409}, {202})
    assert "data refused" in status["case"]["faults"]
    assert status["refused_run"]["count"] == 60
    assert status["refused_run"]["reason"] == "duplicate or late"
    assert f'cgsa_refused_run_blocks{{machine="{MACHINE}"}} 60.0' in metrics
    assert f'cgsa_clock_skew_seconds{{machine="{MACHINE}"}}' in metrics
    assert -30 < status["clock_skew"] < 5
    assert after["refused_run"] is None
    assert after["counts"]["blocks"] - after["counts"]["refused_blocks"] == 40
    texts = {note["topic"]: note["text"] for note in notes}
    assert "admitted anew by the-operator; 60 blocks with 6.0 s of signal refused" in texts["sender"]
    assert any(note["topic"] == "clock" and "ahead of this computer's" in note["text"] for note in notes)
    assert audited == [{"text": "clock corrected"}]
