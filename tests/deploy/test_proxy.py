"""The service behind nginx, with the configuration that is shipped."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie

import httpx
import pytest

from cgsa.service.sessions import COOKIE
from tests.deploy.programs import DEPLOY, program
from tests.service.running_service import RunningService, running_service
from tests.service.sources.counterparts import certificate, free_port

NAME = "cgsa.plant.example"
FRAME = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
daemon off;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/cgsa.conf;
}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, dashboard=True, server={"proxies": ["127.0.0.1"]}) as found:
        found.feed(40)
        yield found


@pytest.fixture(scope="module")
def client(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of the proxy."""
    nginx = program("nginx", "nginx-light")
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    certificate(folder, NAME, f"subjectAltName=DNS:{NAME}")
    text = (DEPLOY / "nginx" / "cgsa.conf").read_text(encoding="utf-8")
    for shipped, here in {
        "http://127.0.0.1:8765": service.url,
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "/etc/ssl/certs/cgsa.pem": f"{folder}/{NAME}.crt",
        "/etc/ssl/private/cgsa.key": f"{folder}/{NAME}.key",
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    (folder / "cgsa.conf").write_text(text)
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(user + FRAME.format(folder=folder))
    process = subprocess.Popen([nginx, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"])
    try:
        _wait(port, process)
        trust = ssl.create_default_context(cafile=f"{folder}/{NAME}.crt")
        # The name is checked as a browser would check it, although it leads to this machine.
        extensions = {"sni_hostname": NAME}
        transport = httpx.HTTPTransport(verify=trust)
        with httpx.Client(transport=transport, base_url=f"https://127.0.0.1:{port}", headers={"Host": NAME}) as found:
            found.event_hooks["request"].append(lambda request: request.extensions.update(extensions))
            yield found
    finally:
        process.terminate()
        process.wait(20)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.02)
        else:
            return


def test_answers_ask_browsers_to_use_tls_only(client: httpx.Client) -> None:
    assert client.get("/health").headers["Strict-Transport-Security"] == "max-age=31536000"


def test_a_login_through_the_proxy_is_secure_and_audited_by_the_address_of_the_client(
    service: RunningService, client: httpx.Client
) -> None:
    answer = client.post(
        "/login",
        data={"token": service.tokens["viewer"]},
        headers={"Origin": f"https://{NAME}", "X-Forwarded-For": "203.0.113.9"},
    )
    assert answer.status_code == 303, answer.text
    assert SimpleCookie(answer.headers["Set-Cookie"])[COOKIE]["secure"] is True
    assert service.audit(who="the-viewer")[0].origin == "127.0.0.1", "not what the client says about itself"


def test_events_come_as_they_happen(service: RunningService, client: httpx.Client) -> None:
    headers = {"Authorization": f"Bearer {service.tokens['viewer']}"}
    with client.stream("GET", "/api/events", headers=headers, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")
        service.feed(20, first=1000)
        assert any(line.startswith("event: diagnosis") for line in lines)


def test_pages_get_their_connection(service: RunningService, client: httpx.Client) -> None:
    headers = {
        "Authorization": f"Bearer {service.tokens['viewer']}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with client.stream("GET", "/_nicegui_ws/socket.io/?EIO=4&transport=websocket", headers=headers) as answer:
        assert answer.status_code == 101
