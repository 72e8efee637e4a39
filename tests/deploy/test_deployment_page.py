"""The page about deployment has configurations that the service accepts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgsa.service.config import ServiceConfig
from tests.deploy.programs import DEPLOY

PAGE = (DEPLOY.parent / "docs" / "deployment.md").read_text(encoding="utf-8")
CONFIGURATIONS = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("text", CONFIGURATIONS, ids=range(len(CONFIGURATIONS)))
def test_configurations_on_the_page_are_accepted(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plant.toml"
    path.write_text(text, encoding="utf-8")
    ServiceConfig.load(path)


def test_the_page_shows_each_optional_table() -> None:
    assert all(any(f"[{table}]" in text for text in CONFIGURATIONS) for table in ("oidc", "telemetry"))


def test_every_shipped_folder_is_on_the_page() -> None:
    for folder in DEPLOY.iterdir():
        assert f"`deploy/{folder.name}`" in PAGE


def test_the_exposure_on_the_page_is_what_the_test_of_the_unit_allows() -> None:
    (exposure,) = re.findall(r"\| this unit \| ([\d.]+) \|", PAGE)
    assert float(exposure) <= 1.5
