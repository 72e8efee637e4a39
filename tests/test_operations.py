"""Backup, restore, reload, upgrade and rollback, with the lines of docs/operations.md as they are."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from cgsa.live.intake.block import Block
from cgsa.live.store import MIGRATIONS
from tests.cli.test_serve import free_port
from tests.live.stream import blocks
from tests.live.stream import signal as samples
from tests.machines import bundle
from tests.test_first_hour import User

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operations.md"
FIXTURES = ROOT / "tests" / "fixtures"
SERVE = "cgsa serve plant.toml"
HEADINGS = ("Check", "Backup", "Restore", "Reload", "Upgrade", "Rollback")
CONFIGURATION = """
folder = "plant"
port = {port}
[worker]
shed_above = 60
checkpoint_seconds = 0.5
[[machines]]
name = "toy"
bundle = "model"
profile = "paper"
settings = {{ stream = {{ batch_size = 64 }} }}
"""


def lines_below(heading: str) -> list[str]:
    """Return the lines for a terminal below a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found: list[str] = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    return "".join(found).splitlines()


class Operator(User):
    """Somebody who runs a service, and copies the lines of the page."""

    def walk(self, heading: str) -> list[str]:
        """Run the lines below a heading; one that serves stays in the background. Return what they printed."""
        printed = []
        for line in lines_below(heading):
            if line == SERVE:
                self.start()
            else:
                printed.append(self.run(line))
        return printed

    @property
    def url(self) -> str:
        port = re.search(r"port = (\d+)", (self.folder / "plant.toml").read_text())
        assert port is not None
        return f"http://127.0.0.1:{port[1]}"

    def start(self) -> None:
        with (self.folder / "service.log").open("a") as log:
            process = subprocess.Popen(
                ["/bin/bash", "-c", f"exec {SERVE}"], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        self.processes.append(process)
        limit = time.monotonic() + 60
        while not self._is_ready():
            assert process.poll() is None, (self.folder / "service.log").read_text()
            assert time.monotonic() < limit, (self.folder / "service.log").read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the service, as a service manager does."""
        process = self.processes.pop()
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        return PROCESSES

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready").status_code == 200
        except httpx.HTTPError:
            return False


PROCESSES: list[subprocess.Popen[bytes]] = []
"""Services that run."""


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    found = Operator(tmp_path)
    yield found
    while PROCESSES:
        process = PROCESSES.pop()
        process.kill()
        process.wait()


class Client:
    """A gateway, and somebody who reads."""

    def __init__(self, operator: Operator, token: str) -> None:
        self._operator, self._headers = operator, {"Authorization": f"Bearer {token}"}

    def send(self, sent: list[Block]) -> None:
        """Send blocks, again while the machine takes none."""
        for block in sent:
            headers = {**self._headers, "Content-Type": "application/octet-stream"}
            while True:
                url = f"{self._operator.url}/api/blocks"
                answer = httpx.post(url, content=block.to_bytes(), headers=headers)
                if answer.status_code != 503:
                    break
                time.sleep(0.05)
            assert answer.status_code == 202, answer.text

    def get(self, path: str) -> Any:
        return httpx.get(f"{self._operator.url}/api/{path}", headers=self._headers).json()

    def verdicts(self, count: int, machine: str = "toy") -> list[Any]:
        """Return the diagnoses of a machine once it has had that many blocks."""
        limit = time.monotonic() + 60
        while self.get(f"machines/{machine}")["counts"]["blocks"] < count:
            assert time.monotonic() < limit
            time.sleep(0.05)
        rows = self.get(f"diagnoses?machine={machine}&limit=1000")["rows"]
        return [row["diagnosis"] for row in reversed(rows)]


def test_every_section_of_the_page_is_walked() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = [line for block in re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL) for line in block.splitlines()]
    assert shown == [line for heading in HEADINGS for line in lines_below(heading)]


def test_backup_restore_and_reload_as_the_page_has_them(operator: Operator) -> None:
    folder = operator.folder
    for number, name in enumerate(("model", "other")):
        bundle(seed=number).save(folder / name)
    (folder / "plant.toml").write_text(CONFIGURATION.format(port=free_port()))
    (folder / "backups").mkdir()
    assert "no problems" in operator.walk("Check")[0]
    link = (folder / "plant" / "login-link").read_text(encoding="ascii").strip()
    client = Client(operator, link.partition("/login#")[2])
    sent = blocks(samples(6.0, "wear"))
    client.send(sent[:25])
    client.verdicts(25)
    assert re.match(r"backup: backups/monday, 1 machines, \d+ files, .* MB", operator.walk("Backup")[0])
    client.send(sent[25:])
    expected = client.verdicts(60)
    operator.stop()
    _, restored, checked = operator.walk("Restore")
    assert restored.startswith("restored: plant, 1 machines")
    assert "no problems" in checked
    # The gateway sends again what came after the backup.
    assert len(client.verdicts(25)) < len(expected)
    client.send(sent[25:])
    assert client.verdicts(60) == expected
    assert client.get("machines/toy")["counts"]["gaps"] == 0
    # Another model for the machine, and another machine.
    path = folder / "plant.toml"
    path.write_text(path.read_text().replace('"model"', '"other"') + '[[machines]]\nname = "fan"\nbundle = "model"\n')
    checked, reloaded = operator.walk("Reload")
    assert "no problems" in checked
    assert reloaded == "added fan; changed toy\n"
    assert {one["machine"] for one in client.get("diagnoses?limit=1000")["rows"]} == {"toy"}
    assert client.get("machines/fan")["work"] == "working"
    path.write_text(path.read_text() + "[limits]\nstreems = 1\n")
    refused = subprocess.run(
        ["/bin/bash", "-c", lines_below("Reload")[1]],
        cwd=folder,
        env=operator.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "refused, the former configuration stays: plant.toml: limits.streems" in refused.stdout
    assert httpx.get(f"{operator.url}/ready").status_code == 200


def store_version(folder: Path) -> int:
    with closing(sqlite3.connect(f"{(folder / 'store.sqlite').as_uri()}?mode=ro", uri=True)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_upgrade_from_the_version_before_and_rollback_as_the_page_has_them(operator: Operator) -> None:
    folder = operator.folder
    for name in ("model", "plant"):
        shutil.copytree(FIXTURES / "v0_2_0" / name, folder / name)
    text = (FIXTURES / "v0_2_0" / "plant.toml").read_text()
    (folder / "plant.toml").write_text(f"port = {free_port()}\n{text}")
    expected = json.loads((FIXTURES / "v0_2_0" / "expected.json").read_text())
    before = store_version(folder / "plant")
    (folder / "backups").mkdir()
    backup, checked = operator.walk("Upgrade")
    assert "backup: backups/before-upgrade" in backup
    assert "no problems" in checked
    client = Client(operator, expected["secret"])
    found = client.verdicts(100, "press-1")
    assert [(one["batch"], one["verdict"], one["state"], one["alarm"]) for one in found] == [
        (batch, verdict, state, alarm) for batch, _, _, verdict, state, alarm in expected["diagnoses"]
    ]
    operator.stop()
    assert store_version(folder / "plant") == len(MIGRATIONS) > before
    (restored,) = (text for text in operator.walk("Rollback") if text)
    assert restored.startswith("restored: plant, 1 machines")
    # As the version before left it.
    assert store_version(folder / "plant") == before
    operator.start()
    assert client.verdicts(100, "press-1") == found
