"""Addresses of clients, as limits count them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import Scope


class TrustedProxies:
    """The proxies of a configuration: addresses, networks such as ``10.0.0.0/8``, or ``*`` for all."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._names = frozenset(proxies)
        self._networks = [found for name in self._names if (found := _network(name)) is not None]

    def __contains__(self, address: str) -> bool:
        """Return whether an address is that of a proxy."""
        if not self._names:
            return False
        if "*" in self._names or address in self._names:
            return True
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)


def _network(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False)
    except ValueError:
        return None  # a name, or the path of a socket


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
