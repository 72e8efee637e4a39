from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copyfile

import pytest

from cgsa.bench.executors import JobExecutor, ProcessExecutor, RayExecutor
from cgsa.errors import ConfigError

EXECUTORS: dict[str, Callable[[], JobExecutor]] = {
    "processes": lambda: ProcessExecutor(2),
    "ray": lambda: RayExecutor(workers=2),
}


@pytest.mark.parametrize("kind", EXECUTORS)
def test_every_job_runs_once_and_is_reported(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    copy = partial(copyfile, tmp_path / "source")
    jobs = [str(tmp_path / f"copy{number}") for number in range(5)]
    with EXECUTORS[kind]() as executor:
        first = [name for name in executor.run_jobs(copy, jobs, whole_device=False) if name]
        again = [name for name in executor.run_jobs(copy, [str(tmp_path / "more")], whole_device=True) if name]
        assert list(executor.run_jobs(copy, [], whole_device=True)) == []
    assert (sorted(first), again) == (jobs, [str(tmp_path / "more")])
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("kind", EXECUTORS)
def test_a_failing_job_raises_its_own_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    jobs = [str(tmp_path / "copy"), str(tmp_path / "nowhere" / "copy")]
    with EXECUTORS[kind]() as executor, pytest.raises(FileNotFoundError, match="nowhere"):
        list(executor.run_jobs(partial(copyfile, tmp_path / "source"), jobs, whole_device=False))


def sleep_long(marker: str) -> str:
    Path(marker).write_text(str(os.getpid()))
    time.sleep(600)
    return marker


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    script = (
        "from cgsa.bench.executors import ProcessExecutor; from tests.bench.test_executors import sleep_long; "
        f"list(ProcessExecutor(1).run_jobs(sleep_long, [{str(marker)!r}], whole_device=False))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    try:
        wait_for(lambda: marker.exists() and bool(marker.read_text()))
    finally:
        parent.kill()
        parent.wait()
    worker = int(marker.read_text())
    wait_for(lambda: not is_alive(worker))


def wait_for(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        # Its new parent may not have reaped it yet: a finished process that is still listed is a zombie.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'cgsa\[ray\]'"), RayExecutor():
        pass
