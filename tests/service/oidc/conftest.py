from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cgsa.service.links.secret import Secret
from cgsa.service.oidc.client import OidcClient
from cgsa.service.oidc.config import GroupRights, OidcConfig
from tests.service.oidc.provider import SECRET, Provider, running_provider
from tests.service.running_service import RunningService, running_service

RIGHTS = (
    GroupRights("admins", "admin"),
    GroupRights("press", "operator", ("press-*",)),
    GroupRights("operators", "operator", ("pump-?",)),
    GroupRights("guests", "viewer"),
)


@pytest.fixture(scope="module", params=["id_token", "userinfo"])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    """A real provider."""
    with running_provider(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def config(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> OidcConfig:
    secret = tmp_path_factory.mktemp("secret") / "oidc"
    secret.write_text(f"{SECRET}\n")
    return OidcConfig(provider.issuer, "confidential", Secret(str(secret)), label="Plant login", rights=RIGHTS)


@pytest.fixture(scope="module")
def service(
    provider: Provider, config: OidcConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service whose people log in at the provider."""
    listening = socket.create_server(("127.0.0.1", provider.service_port))
    client = OidcClient(config, f"http://127.0.0.1:{provider.service_port}")
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, listening=listening, oidc=client, dashboard=True) as found:
        yield found
