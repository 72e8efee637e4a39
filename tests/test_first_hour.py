"""The first hour of a new user: the commands on the page, from a folder of CSV files to an alarm in a browser."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.cli.test_serve import free_port
from tests.data.made_machine import write_csv_files
from tests.service.dashboard.screenshots import CHROMIUM, browser

PAGE = Path(__file__).parent.parent / "docs" / "own-machine.md"


def commands_of_the_hour() -> dict[str, list[str]]:
    """Return the words of every command of the first section, by the name of the command."""
    section = PAGE.read_text(encoding="utf-8").partition("## The first hour")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return {words[1] if words[0] == "cgsa" else words[0]: words for words in lines}


@dataclass(frozen=True)
class User:
    """Somebody at a terminal in a folder, who types what the page says."""

    folder: Path

    def command(self, name: str, *more: str) -> list[str]:
        """Return what runs a command of the page."""
        words = commands_of_the_hour()[name]
        # A shell would replace the patterns.
        words = [file for word in words[1:] for file in self._matching(word) or [word]]
        return [sys.executable, *([] if name == "python" else ["-m", "cgsa"]), *words, *more]

    def run(self, name: str, *more: str) -> str:
        """Run a command of the page, which must end well."""
        done = subprocess.run(
            self.command(name, *more),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, port: int) -> Iterator[str]:
        """Run the service; yield what it printed."""
        log = self.folder / "service.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                self.command("serve", "--port", str(port)),
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            )
            try:
                end = time.monotonic() + 60
                while "press Ctrl-C" not in log.read_text():
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < end, log.read_text()
                    time.sleep(0.1)
                yield log.read_text()
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)

    def _matching(self, pattern: str) -> list[str]:
        relative = "*" in pattern
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(pattern)) if relative else []

    @property
    def environment(self) -> dict[str, str]:
        """One thread per process, as for all tests."""
        return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user with recordings at three speeds, and new ones at a speed in between."""
    write_csv_files(tmp_path / "data", seconds=10, numbered=False)
    write_csv_files(tmp_path / "new", speeds=(1050,), seconds=16, numbered=False)
    return User(tmp_path)


def test_files_become_an_alarm_in_a_browser(user: User) -> None:
    facts = json.loads(user.run("import", "--json"))
    assert facts["classes"] == ["healthy", "worn"]
    assert [one["condition"] for one in facts["points"]] == ["speed 600 rpm", "speed 900 rpm", "speed 1200 rpm"]
    user.run("check")
    assert json.loads(user.run("train", "--json"))["estimates"]
    values = json.loads(user.run("evaluate", "--json"))
    assert values["groups"]["trained_on"]["alarms"] == 3
    events = [json.loads(line) for line in user.run("watch", "--json").splitlines()]
    assert (events[0]["alarm"], events[-1]["alarm"]) == (None, "worn")
    user.run("export")
    assert any((user.folder / "edge").iterdir())
    with ExitStack() as stack:
        stack.enter_context(user.serving(free_port()))
        link = (user.folder / "plant" / "login-link").read_text().strip()
        address, _, token = link.partition("/login#")
        user.run("python", "--speed", "0")
        headers = {"Authorization": f"Bearer {token}"}
        cases = httpx.get(f"{address}/api/cases", headers=headers).raise_for_status().json()["rows"]
        assert [(one["machine"], one["case"]["fault"]) for one in cases] == [("press-1", "worn")]
        check_page(stack, link)


def check_page(stack: ExitStack, link: str) -> None:
    """Log in with the printed link, and find the alarm on the page of the machine."""
    if not Path(CHROMIUM).exists():
        pytest.skip("no chromium: the alarm was found through the API, the page cannot be tested")
    page = stack.enter_context(browser()).new_page()
    page.goto(link)
    page.locator(".entry", has_text="press-1").click()
    alarm = page.get_by_label("Alarm", exact=True)
    expect(alarm).to_contain_text("Case 1, high: worn", timeout=30_000)
