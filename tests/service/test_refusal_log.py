from __future__ import annotations

from pathlib import Path

from starlette.requests import HTTPConnection

from cgsa.live.store import Store
from cgsa.service.auth import Authenticator
from cgsa.service.limits import RequestLimits
from cgsa.service.refusal_log import MAX_KINDS, MAX_REFUSALS, RefusalLog
from tests.service.running_service import running_service


def test_refusals_of_many_addresses_are_bounded_and_counted(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        log = RefusalLog(Authenticator(store))
        for number in range(2000):
            client = HTTPConnection({"type": "http", "headers": [], "client": (f"2001:db8::{number:x}", 5)})
            log.record(None, f"try {number % 200}", 401, "who are you", client)
        log.summarise()
        log.summarise()
        store.flush()
        with store.read() as snapshot:
            summary, *found = snapshot.audit().rows
    assert len(found) == MAX_REFUSALS - 1  # the page holds a hundred rows
    assert summary.what == "refused requests"
    assert summary.result == f"{2000 - MAX_REFUSALS} more"
    assert sum(int(str(count)) for count in summary.details.values()) == 2000 - MAX_REFUSALS
    assert len(summary.details) == MAX_KINDS + 1


def test_failed_logins_cannot_fill_the_disk(tmp_path: Path) -> None:
    limits = RequestLimits(address_burst=1000)
    with running_service(tmp_path, limits=limits) as service, service.client(None) as nobody:
        for number in range(150):
            wrong = f"cgsa.guess-{number}.{'A' * 43}"
            nobody.post("/login", data={"token": wrong}, headers={"X-CGSA": "1"})
            nobody.delete("/api/tokens/x", headers={"Authorization": f"Bearer {wrong}"})
        service.app.state.context.refusals.summarise()
        found = service.audit(who="nobody")
    assert len(found) < 15
    summary = found[0]
    assert (summary.what, summary.result) == ("refused requests", f"{300 - (len(found) - 1)} more")
