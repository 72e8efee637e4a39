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

ENGINES: dict[str, Callable[[], JobExecutor]] = {
    "processes": lambda: ProcessExecutor(2),
    "ray": lambda: RayExecutor(workers=2),
}


@pytest.mark.parametrize("kind", ENGINES)
def test_every_job_is_done_once_and_told(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    copy = partial(copyfile, tmp_path / "source")
    jobs = [str(tmp_path / f"copy{number}") for number in range(5)]
    with ENGINES[kind]() as engine:
        first = [name for name in engine.work(copy, jobs, whole_device=False) if name]
        again = [name for name in engine.work(copy, [str(tmp_path / "more")], whole_device=True) if name]
        assert list(engine.work(copy, [], whole_device=True)) == []
    assert (sorted(first), again) == (jobs, [str(tmp_path / "more")])
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("kind", ENGINES)
def test_a_failing_job_raises_its_own_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("x")
    jobs = [str(tmp_path / "copy"), str(tmp_path / "nowhere" / "copy")]
    with ENGINES[kind]() as engine, pytest.raises(FileNotFoundError, match="nowhere"):
        list(engine.work(partial(copyfile, tmp_path / "source"), jobs, whole_device=False))


def rest_for_long(marker: str) -> str:
    Path(marker).write_text(str(os.getpid()))
    time.sleep(600)
    return marker


def test_a_worker_ends_when_the_one_who_waits_for_it_is_killed(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    script = (
        "from cgsa.bench.executors import Processes; from tests.bench.test_executors import rest_for_long; "
        f"list(Processes(1).work(rest_for_long, [{str(marker)!r}], whole_device=False))"
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
        # Whoever adopted it may not have looked at its end yet: a process that is over and still listed is a zombie.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_without_ray_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'cgsa\[ray\]'"), RayExecutor():
        pass
