from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgsa.bench.plan import Plan
from cgsa.bench.preflight import preflight
from cgsa.bench.site import Site
from tests.toy_files import RUNS, write_toy


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = write_toy(tmp_path)
    return Site(Plan.load(folder / "plan.toml"), folder / "runs", folder / "data")


def test_whole_recordings_lack_nothing(site: Site) -> None:
    assert preflight(site) == []


def test_recordings_may_lie_in_one_folder(site: Site) -> None:
    assert site.data is not None
    assert preflight(replace(site, data=site.data / "toy")) == []


def test_everything_that_is_missing_is_told_at_once(site: Site) -> None:
    assert site.data is not None
    for name in (f"wear_H_{RUNS['high']}", f"crack_H_{RUNS['low']}"):
        (site.data / "toy" / f"{name}.parquet").unlink()
    told = "\n".join(preflight(site))
    assert f"no {RUNS['high']} of wear, specimen 1" in told
    assert f"no {RUNS['low']} of crack, specimen 1" in told
    assert len(preflight(site)) == 2


def test_an_empty_folder_is_told(site: Site, tmp_path: Path) -> None:
    (problem,) = preflight(replace(site, data=tmp_path / "nowhere"))
    assert "nowhere is not a folder; expected one with MCC5-THU files" in problem
    (tmp_path / "empty").mkdir()
    (problem,) = preflight(replace(site, data=tmp_path / "empty"))
    assert "no run found" in problem


def test_a_stage_that_holds_no_window_is_told(site: Site) -> None:
    long = replace(site, plan=replace(site.plan, settings={"toy": {"window": {"length": 3000}}}))
    assert any("C1 has 2000 samples; a window takes 3000" in problem for problem in preflight(long))


def test_a_level_that_is_never_reached_is_told(site: Site) -> None:
    path = Path(site.plan.scenarios[0])
    path.write_text(path.read_text().replace("level = 15", "level = 55"))
    assert any("no interval at 55 Nm for C2" in problem for problem in preflight(site))
