from __future__ import annotations

import io
import json
import logging
import stat
from pathlib import Path

import pytest

from cgsa.cli.serve_run import LINK_FILE, run_service
from cgsa.service.config import ServiceConfig
from cgsa.service.logs import LogFormat, configure_logging
from cgsa.service.service import Service


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "run", lambda service, *_: service.plant.stop())


@pytest.mark.parametrize("style", ["text", "json"])
def test_what_a_start_says(
    style: LogFormat, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray adds a handler of its own when it is imported, which keeps the standard error of that time.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    folder, log = tmp_path / "plant", io.StringIO()
    folder.mkdir(mode=0o755)
    handler = configure_logging(log, style)
    try:
        run_service(ServiceConfig(folder=str(folder), log_format=style, address="https://cgsa.plant/"))
    finally:
        logging.getLogger().removeHandler(handler)
    said = capsys.readouterr()
    assert said.out == ""
    link = folder / LINK_FILE
    assert stat.S_IMODE(link.stat().st_mode) == 0o600
    assert link.read_text().startswith("https://cgsa.plant/login#cgsa.first-admin.")
    assert "cgsa.first-admin." not in said.err + log.getvalue()
    if style == "text":
        assert "serving 0 machines at https://cgsa.plant; press Ctrl-C to stop" in said.err
        return
    assert said.err == "", "nothing but JSON, whatever it is"
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["level"] for line in lines] == ["warning", "info", "info"]
    assert "others than its owner may use it" in lines[0]["message"]
    assert lines[-1]["message"].startswith("serving 0 machines at https://cgsa.plant")
