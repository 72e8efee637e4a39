from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.errors import ConfigError
from cgsa.service.config import ServiceConfig
from cgsa.service.oidc.config import EVERYBODY, GroupRights, OidcConfig, is_safe_address

TEXT = """
address = "https://cgsa.plant"
[oidc]
issuer = "https://login.plant"
client_id = "cgsa"
client_secret = { file = "/etc/cgsa/oidc-secret" }
[[oidc.rights]]
group = "press"
role = "operator"
machines = ["press-*"]
[[oidc.rights]]
group = "*"
role = "viewer"
"""


def load(folder: Path, text: str) -> OidcConfig:
    path = folder / "plant.toml"
    path.write_text(text)
    found = ServiceConfig.load(path).oidc
    assert found is not None
    return found


def test_the_first_entry_of_a_group_holds(tmp_path: Path) -> None:
    config = load(tmp_path, TEXT)
    press, everybody = GroupRights("press", "operator", ("press-*",)), GroupRights(EVERYBODY, "viewer")
    assert config.rights == (press, everybody)
    assert config.rights_of(["other", "press"]) == press
    assert config.rights_of([]) == everybody
    assert OidcConfig("https://login.plant", "cgsa", rights=(press,)).rights_of(["*"]) is None


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        ('address = "https://cgsa.plant"', 'address = "http://cgsa.plant"', "http://cgsa.plant: an identity provider"),
        ('issuer = "https://login.plant"', 'issuer = "http://login.plant"', "expected an https address"),
        ('issuer = "https://login.plant"', 'issuer = "https://login.plant?x"', "expected an https address"),
        ('role = "viewer"', 'role = "sender"', "a sender sees no pages"),
        ('role = "viewer"', 'role = "root"', "role"),
        ('machines = ["press-*"]', 'machines = ["press *"]', r"oidc.rights of 'press': machines 'press \*'"),
        ('client_secret = { file = "/etc/cgsa/oidc-secret" }', 'client_secret = "plain"', "client_secret"),
    ],
)
def test_wrong_settings_are_refused_with_what_would_be_right(
    tmp_path: Path, line: str, replacement: str, message: str
) -> None:
    assert line in TEXT
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, TEXT.replace(line, replacement))


def test_without_rights_nobody_could_log_in(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"oidc\.rights is empty"):
        load(tmp_path, TEXT.partition("[[oidc.rights]]")[0])


@pytest.mark.parametrize("address", ["", "login.plant", "ftp://x", "http://10.0.0.1", "https://", "https://a#b"])
def test_addresses_that_are_not_safe(address: str) -> None:
    assert not is_safe_address(address)
