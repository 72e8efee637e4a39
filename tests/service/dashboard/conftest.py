from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cgsa.service.login import login_link
from cgsa.service.rights import Role


@dataclass(frozen=True)
class DemoService:
    """A service that runs in a process of its own."""

    address: str
    tokens: dict[str, str]

    def login_link(self, role: Role) -> str:
        return login_link(self.address, self.tokens[role])


@pytest.fixture(scope="session")
def service(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoService]:
    """A service with five toy machines."""
    folder = tmp_path_factory.mktemp("service")
    command = [sys.executable, "-m", "tests.service.dashboard.demo_service", str(folder)]
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "errors").read_text()
            yield DemoService(**json.loads(line))
        finally:
            process.terminate()
            process.communicate(timeout=30)
    errors_text = (folder / "errors").read_text()
    assert "Traceback" not in errors_text, errors_text
