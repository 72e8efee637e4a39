"""The first hour of a new user: the lines of the README, from a folder of CSV files to an alarm in a browser."""

from __future__ import annotations

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

BASH = "/bin/bash"
ROOT = Path(__file__).parent.parent
FIRST_HOUR = {"README.md": "Your own machine", "docs/own-machine.md": "The first hour"}
"""Pages that show the commands, each with the heading above them."""


def lines_of_the_hour(page: str) -> list[str]:
    """Return the lines for a terminal that follow the heading."""
    section = (ROOT / page).read_text(encoding="utf-8").partition(f"## {FIRST_HOUR[page]}\n")[2].partition("\n## ")[0]
    block: str = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)[0]
    return block.splitlines()


@dataclass(frozen=True)
class User:
    """Somebody at a terminal in a folder, who copies the lines of the README."""

    folder: Path

    def run(self, line: str) -> str:
        """Run a line as it is, which must end well."""
        done = subprocess.run(
            [BASH, "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, line: str) -> Iterator[str]:
        """Run the service; yield what it printed."""
        log = self.folder / "service.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [BASH, "-c", f"exec {line}"], cwd=self.folder, env=self.environment, stdout=output, stderr=output
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

    @property
    def environment(self) -> dict[str, str]:
        """The programs of this environment, a screen that is wide enough, and one thread per process."""
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": programs, "COLUMNS": "160", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user with recordings at three speeds, and new ones at a speed in between."""
    write_csv_files(tmp_path / "data", seconds=10, numbered=False)
    write_csv_files(tmp_path / "new", speeds=(1050,), seconds=16, numbered=False)
    return User(tmp_path)


def test_the_pages_show_the_same_lines() -> None:
    assert lines_of_the_hour("docs/own-machine.md") == lines_of_the_hour("README.md")


def test_the_lines_of_the_readme_lead_from_files_to_an_alarm_in_a_browser(user: User) -> None:
    lines = lines_of_the_hour("README.md")
    with ExitStack() as stack:
        printed: dict[str, str] = {}
        for line in lines:
            program, name, *_ = shlex.split(line)
            # The port that is the default may be taken on this computer.
            serving = f"{line.partition('#')[0]} --port {free_port()}" if name == "serve" else None
            printed[name if program == "cgsa" else program] = (
                user.run(line) if serving is None else stack.enter_context(user.serving(serving))
            )
        assert re.search(r"recordings at +┃ healthy ┃ worn", printed["import"])
        assert re.search(r"speed 600 rpm +│ 1 +│ 1 ", printed["import"])
        assert "Expected accuracy" in printed["train"]
        assert "3 of 3 faults raised an alarm" in printed["evaluate"]
        assert re.search(r"worn_1050rpm.* worn +│ worn ", printed["watch"])
        assert re.search(r"acc_x: 32 to 40 Hz \+\d", printed["explain"])
        assert "run it: python edge/run.py" in printed["export"]
        # The output is no terminal here, so that the link is in a file of the user alone.
        link = (user.folder / "plant" / "login-link").read_text(encoding="utf-8").strip()
        address, _, token = link.partition("/login#")
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
