from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cgsa.errors import ConfigError
from cgsa.service.config import ServiceConfig
from cgsa.service.limits import RequestLimits

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match="limit body_bytes is 0; expected a positive number"):
        RequestLimits(body_bytes=0)
    with pytest.raises(ConfigError, match="limit block_bytes"):
        RequestLimits(block_bytes=2**30)
    with pytest.raises(ConfigError, match="limit address_rate"):
        RequestLimits(address_rate=float("nan"))


def test_limits_come_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "plant.toml"
    file.write_text("[limits]\nblock_rate = 5000\n", encoding="utf-8")
    assert ServiceConfig.load(file).limits == RequestLimits(block_rate=5000.0)


def test_the_page_lists_every_limit_with_its_default() -> None:
    found = dict(
        re.findall(r"^\| `(\w+)` \| ([\d,.]+)(?: MiB| KiB)? \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    units = {"MiB": 2**20, "KiB": 2**10}
    for field in fields(RequestLimits):
        row = re.search(
            rf"^\| `{field.name}` \| ([\d,.]+)(?: (MiB|KiB))? \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert row is not None, field.name
        assert float(row[1].replace(",", "")) * units.get(row[2], 1) == field.default, field.name
    assert found
