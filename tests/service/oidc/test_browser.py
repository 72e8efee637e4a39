"""The login with a real provider in a real browser, whose rules for cookies of other sites are what matters."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from playwright.sync_api import expect

from cgsa.service.oidc.client import OidcClient
from cgsa.service.oidc.config import GroupRights, OidcConfig
from tests.service.dashboard.screenshots import browser
from tests.service.oidc.provider import running_provider
from tests.service.running_service import running_service


@pytest.mark.usefixtures("chromium")
def test_a_person_logs_in_and_out(tmp_path: Path) -> None:
    with running_provider("id_token") as provider:
        # The service and its provider are different sites for a browser: 127.0.0.1 and localhost.
        address = f"http://127.0.0.1:{provider.service_port}"
        # A public client, without a secret.
        config = OidcConfig(provider.issuer, "public", rights=(GroupRights("press", "operator"),))
        client = OidcClient(config, address)
        listening = socket.create_server(("127.0.0.1", provider.service_port))
        with (
            running_service(tmp_path, listening=listening, oidc=client, dashboard=True),
            browser() as context,
        ):
            page = context.new_page()
            page.goto(f"{address}/machine/pump-1")
            page.get_by_role("link", name="Log in with single sign-on").click()
            page.get_by_placeholder("Enter any login").fill("ann:press")
            page.get_by_placeholder("and password").fill("any")
            page.get_by_role("button").click()
            page.get_by_role("button", name="Continue").click()
            page.wait_for_url("**/machine/pump-1")
            expect(page.get_by_role("banner").get_by_text("oidc:ann, operator")).to_be_visible(timeout=30_000)
            page.wait_for_load_state("networkidle")
            page.get_by_label("Log out").click()
            page.wait_for_url("**/session/end*")
            page.get_by_role("button", name="Yes").click()
            page.wait_for_url(f"{address}/login")
            page.goto(f"{address}/machine/pump-1")
            assert page.url == f"{address}/login?next=%2Fmachine%2Fpump-1"
