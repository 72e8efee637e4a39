from __future__ import annotations

import pytest

from cgsa.service.addresses import TrustedProxies, client_network


@pytest.mark.parametrize(
    ("proxies", "address", "trusted"),
    [
        ((), "10.0.0.1", False),
        (("10.0.0.1",), "10.0.0.1", True),
        (("10.0.0.1",), "10.0.0.2", False),
        (("10.0.0.0/8",), "10.9.9.9", True),
        (("10.0.0.0/8",), "2001:db8::1", False),
        (("2001:db8::/32",), "2001:db8::1", True),
        (("*",), "anything", True),
        (("localhost",), "testclient", False),
    ],
)
def test_proxies_are_addresses_or_networks(proxies: tuple[str, ...], address: str, trusted: bool) -> None:  # noqa: FBT001 - a table
    assert (address in TrustedProxies(proxies)) == trusted


def test_a_client_without_an_address_has_a_limit_too() -> None:
    assert client_network({"type": "http"}) == client_network({"type": "http", "client": None}) == ""
    assert client_network({"type": "http", "client": ("x" * 100, 5)}) == "x" * 64
