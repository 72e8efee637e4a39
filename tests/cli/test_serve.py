"""The service from the command line: started, asked, killed, started again; tokens, reports and signatures."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.errors import BundleError, CgsaError, ConfigError
from cgsa.live.store import Store
from cgsa.service.auth import Authenticator
from cgsa.service.rights import Person
from tests.live.stream import blocks
from tests.live.stream import signal as samples
from tests.machines import bundle

FILE = """
folder = "plant"
port = {port}

[worker]
shed_above = 60

[[machines]]
name = "toy"
bundle = "model"
profile = "paper"
settings = {{ stream = {{ batch_size = 64 }} }}
"""


def run(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    bundle().save(tmp_path / "model")
    (tmp_path / "plant.toml").write_text(FILE.format(port=free_port()), encoding="utf-8")
    return tmp_path


@contextmanager
def served(plant: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the service as its users do; give the process and where it listens."""
    url = f"http://127.0.0.1:{(plant / 'plant.toml').read_text(encoding='utf-8').split('port = ')[1].split()[0]}"
    log = (plant / "log").open("a", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "cgsa", "serve", str(plant / "plant.toml")],
        stdout=log,
        stderr=log,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        wait_for(lambda: _answers(f"{url}/ready"), process)
        yield process, url
    finally:
        process.kill()
        process.wait()
        log.close()


def wait_for(ready: object, process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not ready():  # type: ignore[operator]
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_service_is_started_used_killed_and_resumes(plant: Path) -> None:
    sent = blocks(samples(6.0))
    with served(plant) as (process, url):
        link = plant / "plant" / "login-link"
        assert stat.S_IMODE(link.stat().st_mode) == 0o600
        token = link.read_text(encoding="ascii").strip().partition("/login#")[2]
        log = (plant / "log").read_text(encoding="utf-8").replace("\n", "")
        assert "delete the file after use" in log
        assert "cgsa.first-admin" not in log, "a log is read by others"
        header = {"Authorization": f"Bearer {token}"}
        for block in sent[:30]:
            assert (
                httpx.post(
                    f"{url}/api/blocks",
                    content=block.to_bytes(),
                    headers={**header, "Content-Type": "application/octet-stream"},
                ).status_code
                == 202
            )
        assert httpx.post(f"{url}/api/blocks", content=sent[30].to_bytes()).status_code == 401
        process.send_signal(signal.SIGKILL)
        process.wait()
    with served(plant) as (process, url):
        for block in sent[28:]:
            found = httpx.post(
                f"{url}/api/blocks", content=block.to_json(), headers={**header, "Content-Type": "application/json"}
            )
            assert found.status_code == 202

        def done() -> bool:
            counts = httpx.get(f"{url}/api/machines/toy", headers=header).json()["counts"]
            return bool(counts["blocks"] == 62)

        wait_for(done, process)
        machine = httpx.get(f"{url}/api/machines/toy", headers=header).json()
        # Two blocks came twice and were taken once; none is missing.
        assert machine["counts"]["refused_blocks"] == 2
        assert machine["counts"]["gaps"] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in {0, -signal.SIGTERM}
    wide = [path for path in (plant / "plant", *(plant / "plant").rglob("*")) if path.stat().st_mode & 0o077]
    assert wide == [], "others than the owner can read nothing"
    page = plant / "report.html"
    assert json.loads(run("report", plant / "plant", "toy", "--into", page, "--json")) == {"report": str(page)}
    assert "The period over time" in page.read_text(encoding="utf-8")


def test_tokens_are_created_listed_and_revoked(tmp_path: Path) -> None:
    Store(tmp_path / "store.sqlite").close()
    made = json.loads(run("token", tmp_path, "ann", "--role", "operator", "--json"))
    assert made["token"].startswith("cgsa.ann.")
    about: dict[str, object] = {"machines": [], "expires": None, "last_used": None}
    listed = [{"name": "ann", "role": "operator", "state": "good", **about}]
    assert json.loads(run("token", tmp_path, "--json")) == listed
    run("token", tmp_path, "ann", "--revoke")
    assert "revoked" in run("token", tmp_path)
    with pytest.raises(ConfigError, match="expected one of sender, viewer, operator, admin"):
        run("token", tmp_path, "bob", "--role", "king")
    with pytest.raises(ConfigError, match="there is no store here"):
        run("token", tmp_path / "elsewhere")


def test_tokens_have_machines_and_an_expiry_and_are_rotated(tmp_path: Path) -> None:
    Store(tmp_path / "store.sqlite").close()
    words = ("gateway", "--role", "sender", "--machine", "press-*", "--machine", "fan-7", "--days", "365", "--json")
    old = json.loads(run("token", tmp_path, *words))["token"]
    new = json.loads(run("token", tmp_path, "gateway", "--rotate", "--overlap", "7", "--json"))["token"]
    with Store(tmp_path / "store.sqlite") as store:
        authenticator = Authenticator(store)
        expected = Person("gateway", "sender", ("press-*", "fan-7"))
        assert authenticator.by_token(old) == authenticator.by_token(new) == expected
    assert run("token", tmp_path, "gateway", "--rotate").strip().startswith("cgsa.gateway.")
    with Store(tmp_path / "store.sqlite") as store:
        assert Authenticator(store).by_token(new) is None
    (listed,) = json.loads(run("token", tmp_path, "--json"))
    assert listed["machines"] == ["press-*", "fan-7"]
    assert listed["expires"] == pytest.approx(time.time() + 365 * 86_400, abs=600)
    assert "press-*, fan-7" in run("token", tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["ann", "--rotate", "--revoke"],
        ["ann", "--overlap", "7"],
        ["ann", "--rotate", "--role", "admin"],
        ["ann", "--revoke", "--days", "5"],
        ["--machine", "press-1"],
    ],
)
def test_options_of_tokens_that_do_not_go_together_are_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(ConfigError, match="do not go together"):
        run("token", tmp_path, *words)
    with pytest.raises(ConfigError, match="which token"):
        run("token", tmp_path, "--rotate")


def test_only_models_with_a_trusted_signature_are_served(plant: Path) -> None:
    run("sign", plant / "model", plant / "team.key")
    config = plant / "plant.toml"
    config.write_text('trusted_keys = ["team.key.pub"]\n' + config.read_text(encoding="utf-8"), encoding="utf-8")
    with served(plant):
        pass
    (plant / "model" / "manifest.sig").unlink()
    with pytest.raises(BundleError, match="sign"):
        run("serve", config)


@pytest.mark.parametrize("words", [["serve"], ["serve", "plant.toml", "--demo"]])
def test_a_configuration_or_demo_is_required(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected a model, a configuration file or --demo"):
        run(*words)


@pytest.mark.parametrize(
    ("options", "said"), [(["--from", "yesterday"], "such as 2026-11-16T08:00"), ([], "there are no diagnoses")]
)
def test_a_report_without_diagnoses_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    Store(tmp_path / "store.sqlite").close()
    last = ["--to", "2026-11-16T08:00+01:00"] if options else []
    with pytest.raises(CgsaError, match=said):
        run("report", tmp_path, "press", *options, *last)
