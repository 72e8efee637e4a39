"""``cgsa serve --check`` finds everything that is wrong at once, and starts nothing."""

from __future__ import annotations

import json
import os
import socket
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.files import lock_file
from cgsa.live.store import MIGRATIONS, Store, connection
from cgsa.service.configuration_check import ConfigFinding, check_configuration, is_in_use
from cgsa.service.signing import create_keys
from tests.cli.test_serve import free_port
from tests.machines import bundle

GOOD = """
folder = "plant"
port = {port}

[[machines]]
name = "toy"
bundle = "model"
profile = "paper"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A configuration in which nothing is wrong."""
    bundle().save(tmp_path / "model")
    (tmp_path / "plant.toml").write_text(GOOD.format(port=free_port()))
    return tmp_path / "plant.toml"


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def problems(path: Path) -> list[tuple[str, str]]:
    return [(one.where, one.text) for one in check_configuration(path) if one.severity == "problem"]


def notes(path: Path) -> list[ConfigFinding]:
    return [one for one in check_configuration(path) if one.severity == "note"]


def found(path: Path, where: str) -> list[str]:
    return [text for place, text in problems(path) if place == where]


def test_nothing_is_wrong_and_nothing_is_written(path: Path) -> None:
    assert problems(path) == []
    assert sorted(one.name for one in path.parent.iterdir()) == ["model", "plant.toml"]


def test_all_that_is_wrong_is_listed_at_once(path: Path) -> None:
    append(
        path,
        """
        [[machines]]
        name = "press 1"
        bundle = "model"

        [[machines]]
        name = "fan"
        bundle = "absent"
        [machines.explain]
        kinematics = "absent.toml"
        healthy = ["absent.csv"]

        [[machines]]
        name = "pump"
        bundle = "model"
        profile = "paper"
        method = "nonsense"

        [[sources]]
        kind = "replay"
        machine = "unknown"
        files = ["absent.parquet"]

        [[sources]]
        kind = "mqtt"
        broker = { host = "broker", user = "me", password = { file = "absent" } }

        [[sinks]]
        kind = "pigeon"

        [[sinks]]
        kind = "webhook"
        url = "https://desk"

        [[sinks]]
        kind = "webhook"
        url = "https://desk"

        [limits]
        streems = 3
        """,
    )
    wrong = problems(path)
    texts = dict(wrong)
    assert "machines[1]: machine 'press 1'" in " ".join(text for place, text in wrong if place == str(path))
    assert any("limits.streems: no such setting; did you mean 'streams'" in text for _, text in wrong)
    assert "absent" in texts["machine fan"]
    assert texts["machine fan: explain.healthy"].endswith("absent.csv: no recording and no data set")
    assert "machine fan: explain.kinematics" in texts
    assert "nonsense" in texts["machine pump"]
    assert found(path, "source replay")[0] == "no machine 'unknown' is configured; there are fan, pump, toy"
    assert "absent.parquet: there is no such file" in found(path, "source replay")[1]
    assert "the secret cannot be read" in texts["source mqtt"]
    assert "pigeon" in texts["sink pigeon"]
    assert texts["sink webhook"] == "there are two of this name; expected different names"


def test_a_file_that_is_no_toml_is_one_problem(path: Path) -> None:
    path.write_text("folder = ")
    ((where, _),) = problems(path)
    assert where == str(path)


def test_models_that_nobody_trusts_are_refused(path: Path) -> None:
    public = create_keys(path.parent / "key")
    path.write_text(f'trusted_keys = ["{public}"]\n' + path.read_text())
    assert "manifest.sig" in found(path, "machine toy")[0]


def test_a_port_that_is_taken(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path.write_text(GOOD.format(port=port))
        assert found(path, "host, port") == [f"127.0.0.1:{port}: Address already in use"]
        # The service that the configuration is of may have it.
        Store(path.parent / "plant" / "store.sqlite").close()
        handle = lock_file(path.parent / "plant" / "store.sqlite.lock")
        assert is_in_use(path.parent / "plant")
        assert problems(path) == []
        assert {"a service runs on it" in one.text or "is taken" in one.text for one in notes(path)} >= {True}
        os.close(handle)
    assert not is_in_use(path.parent / "plant")


def test_an_address_of_another_computer(path: Path) -> None:
    path.write_text('host = "192.0.2.1"\n' + path.read_text())
    assert "192.0.2.1" in found(path, "host, port")[0]
    assert any("configure TLS" in one.text for one in notes(path))


def certificate(folder: Path, days: tuple[int, int]) -> None:
    """Write a certificate, valid from and to some days from now, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + timedelta(days[0]))
        .not_valid_after(now + timedelta(days[1]))
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    (folder / "key.pem").chmod(0o600)


def test_certificates(path: Path) -> None:
    path.write_text('tls_certificate = "cert.pem"\ntls_key = "key.pem"\n' + path.read_text())
    assert "No such file" in found(path, "tls_certificate")[0]
    certificate(path.parent, (-3, 300))
    assert problems(path) == []
    right = (path.parent / "key.pem").read_bytes()
    certificate(path.parent, (-3, 10))
    assert problems(path) == []
    assert any("ends on" in one.text for one in notes(path))
    (path.parent / "key.pem").write_bytes(right)
    assert "cannot be used" in found(path, "tls_certificate")[0]
    certificate(path.parent, (-3, -1))
    assert "valid from" in found(path, "tls_certificate")[0]


def test_a_store_of_a_newer_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(connection, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (x);"))
        Store(path.parent / "plant" / "store.sqlite").close()
    assert f"store of version {len(MIGRATIONS) + 1}; this cgsa reads" in found(path, "folder")[0]


def test_files_that_others_may_use_are_noted(path: Path) -> None:
    (path.parent / "plant").mkdir(mode=0o755)
    assert any("others than its owner may use it" in one.text for one in notes(path))


def test_little_space(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 100_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert "100 MB are free on its disk" in found(path, "folder")[0]
    usage.free = 1_000_000_000  # type: ignore[attr-defined]  # of a made class
    assert problems(path) == []
    assert any("1 machines may take up to" in one.text for one in notes(path))


def test_an_unknown_device(path: Path) -> None:
    path.write_text('device = "abacus"\n' + path.read_text())
    assert "abacus" in found(path, "machine toy")[0]


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def test_the_command_states_all_and_ends_with_a_status(path: Path) -> None:
    status, output = run("serve", "--check", path)
    assert status == 0
    assert output.endswith(f"{path}: no problems\n")
    append(path, '\n[[sinks]]\nkind = "pigeon"\n')
    status, output = run("serve", "--check", path)
    assert status == 1
    assert "problem: sink pigeon" in output
    assert f"{path}: 1 problem\n" in output
    status, output = run("serve", "--check", "--json", path)
    assert status == 1
    answer = json.loads(output)
    assert answer["problems"] == 1
    assert {"severity", "where", "text"} == set(answer["findings"][0])


def test_a_check_takes_a_file(path: Path) -> None:
    for words in (("--check",), ("--json", path), ("--check", path.parent / "model"), ("--check", "--demo")):
        status, _ = run("serve", *words)
        assert status == 1
    assert stat.S_ISREG(path.stat().st_mode)
