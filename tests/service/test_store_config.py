"""A service whose store is in PostgreSQL, the commands on its folder, and the check of its configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cgsa.cli import app
from cgsa.errors import CgsaError, ConfigError, DataError
from cgsa.live.backup import back_up
from cgsa.live.plant import Plant
from cgsa.live.store import PostgresAddress, RowSelection, Store
from cgsa.service.config import ServiceConfig
from cgsa.service.configuration_check import check_configuration, is_in_use
from cgsa.service.links.secret import Secret
from cgsa.service.service import create_service
from cgsa.service.store_config import StoreConfig, place_of, write_place
from tests.cli.test_serve import free_port, run
from tests.live.store.examples import stored_diagnosis
from tests.machines import bundle
from tests.postgres import PostgresServer


@pytest.fixture
def address(postgres: PostgresServer) -> Iterator[PostgresAddress]:
    with postgres.database() as found:
        yield found


@pytest.fixture
def path(tmp_path: Path, address: PostgresAddress) -> Path:
    """A configuration with a store in PostgreSQL."""
    bundle().save(tmp_path / "model")
    (tmp_path / "password").write_text("any\n")
    (tmp_path / "password").chmod(0o600)
    (tmp_path / "plant.toml").write_text(
        f"""
        folder = "plant"
        port = {free_port()}
        [store]
        url = "{address}"
        password = {{ file = "password" }}
        [[machines]]
        name = "toy"
        bundle = "model"
        profile = "paper"
        """
    )
    return tmp_path / "plant.toml"


def findings(path: Path) -> list[tuple[str, str, str]]:
    return [(one.severity, one.where, one.text) for one in check_configuration(path)]


def problems(path: Path) -> list[str]:
    return [text for severity, where, text in findings(path) if severity == "problem" and where == "store"]


def test_commands_find_the_store_of_a_folder(path: Path, address: PostgresAddress) -> None:
    service = create_service(ServiceConfig.load(path))
    plant = path.parent / "plant"
    try:
        assert service.plant.store.where == str(address)
        assert is_in_use(plant)
        with pytest.raises(DataError, match="is in use by process"):
            Plant(plant, store=address)
        # While the service runs, too: any number of processes write.
        made = json.loads(run("token", plant, "ann", "--role", "operator", "--json"))
        assert service.authenticator.by_token(made["token"]) is not None
        service.plant.store.add_diagnosis(stored_diagnosis(0, "toy"))
        service.plant.store.flush()
        run("report", plant, "toy", "--into", path.parent / "report.html")
        assert "The period over time" in (path.parent / "report.html").read_text(encoding="utf-8")
        with pytest.raises(DataError, match="its store is in PostgreSQL, which pg_dump backs up"):
            back_up(plant, path.parent / "copy")
    finally:
        service.plant.stop()
    assert not is_in_use(plant)
    assert place_of(plant) == address
    assert (plant / "store.json").stat().st_mode & 0o777 == 0o600
    assert not (plant / "store.sqlite").exists()
    with pytest.raises(ConfigError, match="no service runs on it"):
        run("reload", plant)


def test_the_password_is_read_from_its_file_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("hush\n")
    config = StoreConfig("postgresql://cgsa@db.plant/cgsa", Secret(file="secret"), ca="ca.crt").resolved(tmp_path)
    write_place(tmp_path, config)
    monkeypatch.chdir("/")
    found = place_of(tmp_path)
    assert isinstance(found, PostgresAddress)
    assert found.password is not None
    assert (found.password(), found.ca, found.tls) == ("hush", str(tmp_path / "ca.crt"), True)
    assert "hush" not in (tmp_path / "store.json").read_text()
    write_place(tmp_path, None)
    assert place_of(tmp_path) == tmp_path / "store.sqlite"


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ('url = "plant"', "not the address of a database"),
        ('url = "postgresql://cgsa:hush@db.plant/cgsa"', "name its file or variable as password"),
        ('url = "postgresql://cgsa@db.plant/cgsa"\nreaders = 0', "expected 1 or more"),
        ('url = "postgresql://cgsa@db.plant/cgsa"\nkey = "a"', "expected both or neither"),
        ('url = "postgresql://cgsa@localhost/cgsa"\nca = "a"', "expected tls = true"),
    ],
)
def test_wrong_settings_are_refused(settings: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text(f"[store]\n{settings}\n")
    with pytest.raises(ConfigError, match=wrong) as caught:
        ServiceConfig.load(tmp_path / "plant.toml")
    assert "hush" not in str(caught.value)


def test_a_right_store_is_no_problem_and_is_not_changed(
    path: Path, postgres: PostgresServer, address: PostgresAddress
) -> None:
    assert problems(path) == []
    notes = [text for _, where, text in findings(path) if where == "store"]
    assert notes == [f"{address}: the server has fsync = off; a power failure would destroy the database"]
    assert postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", address.database) == []
    Store(address).close()
    assert problems(path) == []


def test_what_is_wrong_with_a_database_is_said(path: Path, postgres: PostgresServer, address: PostgresAddress) -> None:
    postgres.execute("CREATE TABLE theirs (x BIGINT)", address.database)
    assert "not a store of cgsa; choose another one" in problems(path)[0]
    postgres.execute("DROP TABLE theirs", address.database)
    Store(address).close()
    postgres.execute("UPDATE cgsa_store SET version = 99", address.database)
    assert "store of version 99; this cgsa reads versions up to" in problems(path)[0]
    (path.parent / "password").unlink()
    (found,) = problems(path)
    assert "the secret cannot be read" in found
    path.write_text(path.read_text().replace(f":{address.port}/", ":1/"))
    (path.parent / "password").write_text("any")
    assert "cannot be used" in problems(path)[0]
    result = CliRunner().invoke(app, ["serve", "--check", str(path), "--json"])
    assert result.exit_code == 1
    assert [one["where"] for one in json.loads(result.stdout)["findings"] if one["severity"] == "problem"] == ["store"]


def test_missing_rights_are_named(path: Path, postgres: PostgresServer, address: PostgresAddress) -> None:
    name = f"reader_{os.getpid()}"
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    text = path.read_text().replace("cgsa@127", f"{name}@127")
    path.write_text(text)
    assert "the role may use no schema" in problems(path)[0]
    postgres.execute("GRANT USAGE ON SCHEMA public TO public", address.database)
    assert "the role may create no tables; make it the owner of the database" in problems(path)[0]
    Store(address).close()
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}", address.database)
    (found,) = problems(path)
    assert "may not read and write alarm_changes, audit, cases, cgsa_store," in found
    with pytest.raises(CgsaError, match="cannot be opened"):
        Store(ServiceConfig.load(path).store.address())  # type: ignore[union-attr]  # there is one
    postgres.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}", address.database)
    assert problems(path) == []
    # Whoever owns the tables migrates them; to write rows, these rights are enough.
    with Store(ServiceConfig.load(path).store.address()) as store:  # type: ignore[union-attr]  # there is one
        store.add_diagnosis(stored_diagnosis(0))
        store.flush()
        with store.read() as view:
            assert len(view.diagnoses(pick=RowSelection()).rows) == 1


def test_a_connection_without_tls_to_another_computer_is_noted(path: Path) -> None:
    path.write_text(path.read_text().replace("@127.0.0.1:", "@db.invalid:").replace("[store]", "[store]\ntls = false"))
    assert [text for severity, _, text in findings(path) if severity == "note" and "rows are sent unencrypted" in text]
    assert "cannot be used" in problems(path)[0]


def test_a_folder_with_a_store_of_its_own_is_not_used(path: Path, address: PostgresAddress) -> None:
    Store(path.parent / "plant" / "store.sqlite").close()
    with pytest.raises(DataError, match="this folder has a store of its own"):
        Plant(path.parent / "plant", store=address)
    assert "has a store of its own" in problems(path)[0]
