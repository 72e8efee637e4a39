from __future__ import annotations

from types import ModuleType

import pytest

from cgsa.errors import ConfigError
from cgsa.live.store import PostgresAddress, Store, opening


def test_connections_to_other_computers_are_encrypted() -> None:
    assert PostgresAddress.parse("postgresql://cgsa@db.plant/plant").tls
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "[::1]"):
        assert not PostgresAddress.parse(f"postgresql://cgsa@{host}/plant").tls
    assert PostgresAddress.parse("postgresql://cgsa@localhost/plant", tls=True).tls
    assert not PostgresAddress.parse("postgresql://cgsa@db.plant/plant", tls=False).tls


@pytest.mark.parametrize("url", ["postgresql://cgsa@db.plant:5433/plant", "postgresql://c%40x@[::1]:5432/my%20plant"])
def test_an_address_is_what_was_parsed(url: str) -> None:
    assert str(PostgresAddress.parse(url)) == url


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("mysql://cgsa@db.plant/plant", "not the address of a database; expected such as postgresql://"),
        ("postgresql://db.plant/plant", "not the address"),
        ("postgresql://cgsa@/plant", "not the address"),
        ("postgresql://cgsa@db.plant", "not the address"),
        ("postgresql://cgsa@db.plant:x/plant", "not the address"),
        ("postgresql://cgsa@db.plant/plant?sslmode=disable", "expected no more than user, host, port and database"),
        ("plant", "not the address"),
    ],
)
def test_other_addresses_are_refused(url: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        PostgresAddress.parse(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="has a password; name its file") as caught:
        PostgresAddress.parse("postgresql://cgsa:hush@db.plant/plant")
    assert "hush" not in str(caught.value)


def test_the_password_is_in_no_text() -> None:
    address = PostgresAddress.parse("postgresql://cgsa@db.plant/plant", password=lambda: "hush")
    assert "hush" not in f"{address} {address!r}"


def test_without_its_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name="psycopg")

    monkeypatch.setattr(opening, "import_module", missing)
    with pytest.raises(ConfigError, match=r"needs psycopg; install it with pip install 'cgsa\[postgres\]'"):
        Store(PostgresAddress.parse("postgresql://cgsa@localhost/plant"))
