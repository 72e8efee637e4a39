from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgsa.errors import ConfigError
from cgsa.service.config import ServiceConfig
from cgsa.service.links.settings import bind_link
from cgsa.service.sinks import SINKS
from cgsa.service.sources import SOURCES

REPOSITORY = Path(__file__).parents[2]

FILE = """
folder = "kept"
port = 9000
trusted_keys = ["keys/team.pub"]

[worker]
checkpoint_seconds = 5

[retention]
ledger = 1

[[machines]]
name = "press-1"
bundle = "models/press"
[machines.alarms]
on_delay = 2
severities = { wear = "medium" }

[[machines]]
name = "press-2"
bundle = "/models/press"
profile = "paper"
settings = { method = { cgsa = { tau = 0.1 } } }

[[sources]]
kind = "replay"
machine = "press-1"
files = ["a.parquet", "/b.parquet"]

[[sources]]
kind = "mqtt"
broker = { host = "broker" }

[[sinks]]
kind = "webhook"
url = "http://127.0.0.1:1/alarms"
"""


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text(FILE, encoding="utf-8")
    config = ServiceConfig.load(tmp_path / "plant.toml")
    assert config.folder == str(tmp_path / "kept")
    assert config.trusted_keys == (str(tmp_path / "keys/team.pub"),)
    first, second = config.machines
    assert (first.name, first.bundle, first.profile) == ("press-1", tmp_path / "models/press", None)
    assert first.alarms.severity("wear") == "medium"
    assert (second.bundle, second.profile) == (Path("/models/press"), "paper")
    assert config.sources[0]["files"] == [str(tmp_path / "a.parquet"), "/b.parquet"]
    assert config.sources[1] == {"kind": "mqtt", "broker": {"host": "broker"}}
    assert config.worker.checkpoint_seconds == 5.0
    assert config.retention.ledger == 1.0


def _service_examples() -> list[str]:
    """Return the service configurations that the documentation shows."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    # That of a fleet is another one; see tests/cli/test_fleet.py.
    pages.remove(REPOSITORY / "docs" / "fleet.md")
    blocks = [block for page in pages for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)]
    return [block for block in blocks if re.search(r"^\[\[(machines|sources|sinks)\]\]", block, re.MULTILINE)]


def test_every_configuration_in_the_documentation_is_accepted(tmp_path: Path) -> None:
    examples = _service_examples()
    assert examples
    for text in examples:
        (tmp_path / "plant.toml").write_text(text, encoding="utf-8")
        config = ServiceConfig.load(tmp_path / "plant.toml")
        for table in config.sources:
            bind_link(SOURCES, table)
        for table in config.sinks:
            bind_link(SINKS, table)


def test_the_former_name_of_a_setting_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "plant.toml").write_text("lanes = 3", encoding="utf-8")
    assert ServiceConfig.load(tmp_path / "plant.toml").threads == 3
    assert "lanes is now called threads" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("port = 70000", "expected a port below 65,536"),
        ('tls_key = "key"', "expected both or neither"),
        ('machine = "x"', "no such setting"),
        ('machines = [{name = "a", bundle = "b"}, {name = "a", bundle = "c"}]', "machines a twice"),
        ("machines = [{name = 'a'}]", "machines[0].bundle: missing"),
    ],
)
def test_a_wrong_setting_is_reported(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "plant.toml").write_text(line, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        ServiceConfig.load(tmp_path / "plant.toml")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("host", "local", "url"),
    [
        ("127.0.0.1", True, "http://127.0.0.1:8765"),
        ("localhost", True, "http://localhost:8765"),
        ("::1", True, "http://[::1]:8765"),
        ("0.0.0.0", False, "http://127.0.0.1:8765"),  # noqa: S104 - what is tested
        ("10.1.2.3", False, "http://10.1.2.3:8765"),
        ("plant.example", False, "http://plant.example:8765"),
    ],
)
def test_knows_whether_others_can_reach_it(host: str, *, local: bool, url: str) -> None:
    config = ServiceConfig(host=host)
    assert config.is_local is local
    assert config.url == url
    assert ServiceConfig(host=host, address="https://cgsa.plant/").url == "https://cgsa.plant", "that of a proxy"


PLANT = """
[[machines]]
name = "fan-7"
bundle = "m"
intermittent = { every = 3600 }
standstill = { off_seconds = 3 }

[[sources]]
kind = "folder"
folder = "inbox"
files = "{machine}/*_{time:%Y%m%d-%H%M%S}.csv"
channels = { vibration = "a" }

[[sinks]]
kind = "email"
host = "mail"
sender = "cgsa@plant.example"
recipients = ["shift@plant.example"]
user = "cgsa"
password = { env = "CGSA_MAIL" }
"""


def test_machines_folders_and_mail_are_configured_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text(PLANT, encoding="utf-8")
    config = ServiceConfig.load(tmp_path / "plant.toml")
    (machine,) = config.machines
    assert machine.intermittent is not None
    assert (machine.intermittent.every, machine.standstill.off_seconds) == (3600.0, 3.0)
    _, _, source = bind_link(SOURCES, config.sources[0])
    assert source.folder == str(tmp_path / "inbox")
    assert source.channels == {"vibration": "a"}
    _, _, sink = bind_link(SINKS, config.sinks[0])
    assert sink.recipients == ("shift@plant.example",)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("every = 3600", "evry = 3600", "machines[0].intermittent.evry: no such setting; did you mean 'every'?"),
        ("every = 3600", "every = 0", "machines[0].intermittent: every 0; expected seconds"),
        ("off_seconds = 3", "off_seconds = -3", "machines[0].standstill: off_seconds -3; expected seconds"),
    ],
)
def test_a_wrong_setting_of_a_machine_is_named(tmp_path: Path, before: str, after: str, message: str) -> None:
    (tmp_path / "plant.toml").write_text(PLANT.replace(before, after), encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(message)):
        ServiceConfig.load(tmp_path / "plant.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fles": "*.csv"}, "source folder: fles: no such setting"),
        ({"complete": "soon"}, "source folder: complete: expected one of 'settled', 'renamed', 'marker'"),
        ({"files": "*.csv"}, "source folder: machine None, files '*.csv'; expected the machine in one of them"),
    ],
)
def test_a_wrong_setting_of_a_folder_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        bind_link(SOURCES, {"kind": "folder", "folder": "inbox", **change})
