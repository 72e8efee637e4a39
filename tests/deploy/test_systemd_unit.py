from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.deploy.programs import DEPLOY, program, run

UNIT = DEPLOY / "systemd" / "cgsa.service"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit, with a program that exists here in the place of the one that it starts."""
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("/opt/cgsa/bin/cgsa") == 1
    path = tmp_path / "cgsa.service"
    path.write_text(text.replace("/opt/cgsa/bin/cgsa", sys.executable), encoding="utf-8")
    return path


def test_systemd_accepts_the_unit_without_a_remark(installed: Path) -> None:
    assert run(program("systemd-analyze", "systemd"), "verify", installed) == ""


def test_a_wrong_setting_would_be_noticed(installed: Path) -> None:
    installed.write_text(installed.read_text(encoding="utf-8").replace("ProtectHome=yes", "ProtectHouse=yes"))
    assert "ProtectHouse" in run(program("systemd-analyze", "systemd"), "verify", installed)


def test_the_unit_gives_the_service_little(installed: Path) -> None:
    """By the scale of systemd: 0 is nothing, 10 is everything."""
    said = run(program("systemd-analyze", "systemd"), "security", "--offline=true", "--no-pager", installed)
    found = re.search(r"exposure level for cgsa\.service: ([\d.]+)", said)
    assert found is not None
    assert float(found[1]) <= 1.5


def test_the_unit_agrees_with_the_service() -> None:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # keys keep their case
    parser.read(UNIT, encoding="utf-8")
    service = parser["Service"]
    assert (service["Type"], service["Restart"]) == ("notify", "always")
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service["WatchdogSec"]) >= 30
    assert service["UMask"] == "0077"
