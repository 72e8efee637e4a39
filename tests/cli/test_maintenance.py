from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.errors import ConfigError, DataError
from tests.service.running_service import RunningService, running_service

RUN = CliRunner()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningService]:
    with running_service(tmp_path) as found:
        monkeypatch.setenv("CGSA_TOKEN", found.tokens["operator"])
        yield found


def test_maintenance_is_planned_listed_and_ended(service: RunningService) -> None:
    given = [service.url, "pump-*", "--hours", "2", "--reason", "new belt", "--json"]
    planned = RUN.invoke(app, ["maintenance", *given], catch_exceptions=False)
    [window] = json.loads(planned.stdout)
    assert (window["machines"], window["now"], window["reason"]) == (["pump-*"], True, "new belt")
    assert window["end"] - window["begin"] == 7200
    weekly = ["fan", "--from", "2100-01-04T08:00", "--zone", "Europe/Berlin", "--repeats", "weekly", "--reason", "oil"]
    shown = RUN.invoke(app, ["maintenance", service.url, *weekly], catch_exceptions=False).stdout
    assert "07:00 UTC" in shown
    assert RUN.invoke(app, ["maintenance", service.url, "--end", "1"]).exit_code == 0
    left = json.loads(RUN.invoke(app, ["maintenance", service.url, "--json"]).stdout)
    assert [one["number"] for one in left] == [2]
    with pytest.raises(DataError, match="there is no maintenance 9"):
        RUN.invoke(app, ["maintenance", service.url, "--end", "9"], catch_exceptions=False)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CGSA_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="no token; set CGSA_TOKEN"):
        RUN.invoke(app, ["maintenance", "http://127.0.0.1:9"], catch_exceptions=False)
    with pytest.raises(ConfigError, match="the token cannot be read"):
        missing = str(tmp_path / "token")
        RUN.invoke(app, ["maintenance", "http://127.0.0.1:9", "--token-file", missing], catch_exceptions=False)
    monkeypatch.setenv("CGSA_TOKEN", "x")
    with pytest.raises(DataError, match="the service does not answer"):
        RUN.invoke(app, ["maintenance", "http://127.0.0.1:9"], catch_exceptions=False)
    with pytest.raises(ConfigError, match="expected a time such as"):
        RUN.invoke(app, ["maintenance", "http://127.0.0.1:9", "fan", "--from", "noon"], catch_exceptions=False)
