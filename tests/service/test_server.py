from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi import FastAPI

from cgsa.live.plant import Plant
from cgsa.live.store import AuditEntry
from cgsa.service.app import create_app
from cgsa.service.auth import Authenticator
from cgsa.service.sessions import COOKIE
from tests.service.running_service import serving


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with Plant(tmp_path / "plant", threads=1) as found:
        yield found


@pytest.fixture
def app(plant: Plant) -> FastAPI:
    return create_app(plant, Authenticator(plant.store), runs_plant=False, dashboard=False)


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate of this machine for itself, and its key."""
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + dt.timedelta(1)
    )
    (folder / "cert.pem").write_bytes(
        made.add_extension(address, critical=False).sign(key, SHA256()).public_bytes(Encoding.PEM)
    )
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


def test_over_tls_cookie_and_browser_use_tls_alone(app: FastAPI, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    token = app.state.context.authenticator.create_token("ann", "viewer")
    with serving(app, certificate=certificate, key=key) as url:
        trusting = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=url, verify=trusting) as client:
            answer = client.post("/login", data={"token": token}, headers={"Origin": url})
            assert "; Secure" in answer.headers["Set-Cookie"]
            assert COOKIE in client.cookies
            answer = client.get("/api/me")
            assert answer.json()["name"] == "ann"
            assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def origin(app: FastAPI, plant: Plant, **settings: Any) -> str:
    """Where the service believes that a request came from which a proxy handed on."""
    with serving(app, **settings) as url:
        headers = {"X-Forwarded-For": "203.0.113.9", "X-CGSA": "1"}
        assert httpx.post(f"{url}/login", data={"token": "wrong"}, headers=headers).status_code == 401
    plant.store.flush()
    with plant.store.read() as snapshot:
        entry: AuditEntry = snapshot.audit().rows[0]
    return entry.origin


def test_only_configured_proxies_are_trusted(app: FastAPI, plant: Plant) -> None:
    assert origin(app, plant) == "127.0.0.1"


def test_a_trusted_proxy_sets_the_client_address(app: FastAPI, plant: Plant) -> None:
    assert origin(app, plant, proxies=("127.0.0.1",)) == "203.0.113.9"
