from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from cgsa.errors import ConfigError, DataError, UnavailableError, is_environmental
from cgsa.fleet.log.checks import CHECKS, Open
from cgsa.fleet.log.jetstream import JetStreamConfig, JetStreamLog
from cgsa.fleet.log.nats import NatsConfig
from cgsa.fleet.log.nats_server import NatsServer


@pytest.fixture
def own_server(nats_server: NatsServer, tmp_path: Path) -> Iterator[NatsServer]:
    """A server that may be killed."""
    with NatsServer(tmp_path / "nats") as server:
        yield server


def opener(server: NatsServer, **settings: object) -> Open:
    config = JetStreamConfig(NatsConfig((server.address,)), **settings)  # type: ignore[arg-type]
    return lambda: JetStreamLog(config)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_holds(check: Callable[[Open], None], nats_server: NatsServer) -> None:
    check(opener(nats_server))


def test_a_server_that_is_killed_loses_nothing_and_repeats_nothing(own_server: NatsServer) -> None:
    """Records are written and read while the server is killed three times."""
    payloads = [b"%03d" % number * 500 for number in range(400)]
    with opener(own_server)() as writer, opener(own_server)() as log:
        writer.append("m", "block", b"first", key="first")
        reader = log.reader("m", 0)
        thread = Thread(target=lambda: [writer.append("m", "block", one, key=one[:3].decode()) for one in payloads])
        thread.start()
        found: list[bytes] = []
        due, limit = [50, 150, 300], time.monotonic() + 60
        while len(found) <= len(payloads):
            assert time.monotonic() < limit, f"{len(found)} records came"
            record = reader.take()
            if record is None:
                time.sleep(0.001)
                continue
            found.append(record.payload)
            if due and len(found) == due[0]:
                due.pop(0)
                own_server.kill()
                time.sleep(0.2)
                own_server.start()
        thread.join()
        reader.close()
        assert found == [b"first", *payloads]
        assert [record.payload for record in log.read("m", 0)] == found


def test_a_server_that_is_away_is_an_error_that_passes(own_server: NatsServer) -> None:
    with opener(own_server, append_seconds=0.5)() as log:
        log.append("m", "block", b"1", key="1")
        own_server.kill()
        with pytest.raises(UnavailableError, match="cannot be written") as caught:
            log.append("m", "block", b"2", key="2")
        assert is_environmental(caught.value)
        own_server.start()
        limit = time.monotonic() + 20
        while True:
            try:
                log.append("m", "block", b"2", key="2")
            except UnavailableError:
                assert time.monotonic() < limit
            else:
                break
        assert [record.payload for record in log.read("m", 0)] == [b"1", b"2"]


def test_a_full_log_takes_no_more_and_drops_nothing(nats_server: NatsServer) -> None:
    with opener(nats_server, name="full", max_bytes=20_000)() as log:
        written = 0
        with pytest.raises(UnavailableError, match="max_bytes, 20000") as caught:
            for number in range(100):
                log.append("m", "block", bytes(1000), key=str(number))
                written += 1
        assert is_environmental(caught.value)
        assert 10 < written < 20
        assert len(list(log.read("m", 0))) == written


def test_a_record_that_is_too_large_is_refused_with_the_remedy(nats_server: NatsServer) -> None:
    with opener(nats_server)() as log, pytest.raises(DataError, match="raise max_payload"):
        log.append("m", "block", bytes(9 * 2**20), key="large")


def test_other_settings_for_the_same_stream_are_refused(nats_server: NatsServer) -> None:
    with opener(nats_server, name="same")():
        pass
    with pytest.raises(ConfigError, match="differs from the settings"):
        opener(nats_server, name="same", remember_seconds=30.0)()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client tries for a while to reach a server, even one that turns it away."""
    monkeypatch.setattr("cgsa.fleet.log.nats.REQUEST_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
def test_a_server_asks_for_user_and_password(nats_server: NatsServer, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    users = {"authorization": {"users": [{"user": "fleet", "password": "s3cret"}]}}
    with NatsServer(tmp_path / "nats", settings=users) as server:
        with JetStreamLog(JetStreamConfig(NatsConfig((server.address,), "fleet", str(secret)))) as log:
            assert log.append("m", "block", b"1", key="1") == 1
        with pytest.raises(UnavailableError, match="cannot be reached"):
            JetStreamLog(JetStreamConfig(NatsConfig((server.address,))))


@pytest.mark.usefixtures("impatient")
def test_server_and_client_prove_who_they_are_by_tls(nats_server: NatsServer, tmp_path: Path) -> None:
    ca, key, certificate = certificates(tmp_path)
    tls = {"tls": {"cert_file": certificate, "key_file": key, "ca_file": ca, "verify": True}}
    with NatsServer(tmp_path / "nats", settings=tls) as server:
        address = f"tls://127.0.0.1:{server.port}"
        known = NatsConfig((address,), ca_file=ca, cert_file=certificate, key_file=key)
        with JetStreamLog(JetStreamConfig(known)) as log:
            assert log.append("m", "block", b"1", key="1") == 1
        for stranger in (NatsConfig((address,), ca_file=ca), NatsConfig((address,))):
            with pytest.raises(UnavailableError, match="cannot be reached"):
                JetStreamLog(JetStreamConfig(stranger))


def certificates(folder: Path) -> tuple[str, str, str]:
    """Make an authority, and a certificate of 127.0.0.1 that it signed."""

    def openssl(*arguments: str) -> None:
        program = shutil.which("openssl")
        assert program is not None
        subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=fleet")
    sign = ("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    openssl(*sign, "-out", "own.pem", "-extfile", "names")
    return str(folder / "ca.pem"), str(folder / "own.key"), str(folder / "own.pem")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"servers": ()}, "servers is empty"),
        ({"cert_file": "a.pem"}, "expected both or neither"),
        ({"user": "a", "token_file": "b"}, "expected one way to log in"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NatsConfig(**settings)  # type: ignore[arg-type]


def test_names_that_are_no_parts_of_a_subject_are_refused() -> None:
    with pytest.raises(ConfigError, match="letters"):
        JetStreamConfig(name="a.b")
