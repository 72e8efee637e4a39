"""Addresses of clients, as limits count them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.types import Scope


def client_network(scope: Scope) -> str:
    """Return the network whose requests share a limit."""
    return network_of(scope["client"][0] if scope.get("client") else "")


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """Return an IPv4 address, or the first half of an IPv6 address: whoever has one has all with the same half.

    >>> network_of("203.0.113.9"), network_of("2001:db8:0:1::7"), network_of("::ffff:203.0.113.9")
    ('203.0.113.9', '2001:db8:0:1::', '203.0.113.9')
    """
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(IPv6Address(int(found) >> 64 << 64))
    return str(found)
