from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.config import bind
from cgsa.errors import ConfigError
from cgsa.service.links.secret import Secret


def test_a_secret_is_read_anew_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "password"
    secret = bind(Secret, {"file": str(path)}, "test")
    path.write_text("one\n")
    assert secret.read() == "one"
    path.write_text(" two ")
    assert secret.read() == " two "
    monkeypatch.setenv("CGSA_TEST_SECRET", "three")
    assert Secret(env="CGSA_TEST_SECRET").read() == "three"


@pytest.mark.parametrize("table", [{}, {"file": "a", "env": "b"}])
def test_a_secret_has_one_source(table: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="either file or env"):
        bind(Secret, table, "test")


def test_a_missing_secret_is_named_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="missing: the secret cannot be read"):
        Secret(file=str(tmp_path / "missing")).read()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="empty: is empty or missing"):
        Secret(file=str(tmp_path / "empty")).read()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="binary: the secret cannot be read"):
        Secret(file=str(tmp_path / "binary")).read()
    monkeypatch.delenv("CGSA_TEST_SECRET", raising=False)
    with pytest.raises(ConfigError, match="environment variable CGSA_TEST_SECRET"):
        Secret(env="CGSA_TEST_SECRET").read()
