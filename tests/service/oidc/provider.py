"""An OpenID provider in a process of its own, and the people who log in there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from joserfc.jwk import ECKey, Key, RSAKey

from tests.node_packages import node_package
from tests.service.sources.counterparts import free_port

PACKAGE = "oidc-provider@9.13.3"
SECRET = "a secret: 100 % & more"  # noqa: S105 - of a provider that lives as long as a test
SCRIPT = Path(__file__).with_name("provider.mjs")


def _packages() -> tuple[str, Path]:
    """Return node, and the folder with the provider."""
    node, left_out = shutil.which("node"), "logins with a real OpenID provider are left out"
    if node is None:
        pytest.skip(f"no node: {left_out}")
    return node, node_package(PACKAGE, left_out)


@dataclass(frozen=True)
class Provider:
    """A provider, and the port that it expects the service on."""

    issuer: str
    service_port: int


@contextmanager
def running_provider(claims: str) -> Iterator[Provider]:
    """Run a provider for the duration of the context; ``claims`` is where it states names and groups."""
    node, packages = _packages()
    port, service_port = free_port(), free_port()
    keys: list[Key] = [RSAKey.generate_key(2048, {"kid": "rsa"}), ECKey.generate_key("P-256", {"kid": "elliptic"})]
    environment = {
        **os.environ,
        "PROVIDER_KEYS": json.dumps([{**key.as_dict(private=True), "use": "sig"} for key in keys]),
    }
    words = [node, str(SCRIPT), str(packages), str(port), f"http://127.0.0.1:{service_port}", claims]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n", "the provider did not start"
        yield Provider(f"http://localhost:{port}", service_port)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def log_in(browser: httpx.Client, person: str, target: str = "/", *, agrees: bool = True) -> httpx.Response:
    """Log in as a person does: by the pages of the provider; return the answer of the service at the end."""
    answer = browser.get("/login/oidc", params={"next": target})
    for _ in range(10):
        if answer.is_redirect:
            answer = browser.get(urljoin(str(answer.url), answer.headers["Location"]))
        elif "/interaction/" not in answer.url.path:
            return answer
        elif not agrees:
            answer = browser.get(f"{answer.url}/abort")
        else:
            (action,) = re.findall(r'<form[^>]* action="([^"]+)"', answer.text)
            (prompt,) = re.findall(r'name="prompt" value="(\w+)"', answer.text)
            form = {"prompt": prompt, "login": person, "password": "any"}
            answer = browser.post(urljoin(str(answer.url), action), data=form)
    raise AssertionError(f"no end of the login: {answer.url}")
