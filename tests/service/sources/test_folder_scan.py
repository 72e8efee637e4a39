from __future__ import annotations

import os
from pathlib import Path

from cgsa.service.sources.file_pattern import FilePattern
from cgsa.service.sources.folder_scan import FolderScan
from cgsa.service.sources.taken_files import TakenFile, TakenFiles

OLD = 1_000_000.0


def scan_of(folder: Path, known: set[str], pattern: str = "*") -> FolderScan:
    return FolderScan(
        folder,
        FilePattern(pattern),
        complete="renamed",
        settle_seconds=0.0,
        is_known=known.__contains__,
        clock=lambda: OLD + 1e6,
        stopwatch=lambda: 0.0,
    )


def settle(folder: Path, time: float = OLD) -> None:
    os.utime(folder, (time, time))


def test_a_folder_at_rest_is_not_listed_again(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.csv").touch()
    settle(tmp_path)
    known: set[str] = set()
    scan = scan_of(tmp_path, known)
    known |= {found.path for found in scan.scan()}
    assert len(known) == 2000
    for _ in range(100):
        assert scan.scan() == []
    assert scan.listed == 1
    (tmp_path / "new.csv").touch()
    settle(tmp_path, OLD + 5)
    assert [found.path for found in scan.scan()] == ["new.csv"]
    assert scan.listed == 2


def test_only_regular_complete_files_of_the_pattern_are_found(tmp_path: Path) -> None:
    for name in (".hidden.csv", "a.csv.tmp", "a.csv.part", "a.csv.done", "a.txt", "refused/m.csv", "processed/m.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "m1").mkdir()
    (tmp_path / "m1" / "b.csv").touch()
    assert scan_of(tmp_path, set(), "*.csv").scan() == []
    assert [found.path for found in scan_of(tmp_path, set(), "*/*.csv").scan()] == ["m1/b.csv"]


def test_what_was_taken_survives_a_restart(tmp_path: Path) -> None:
    one = TakenFile("1.csv", 10, 5, "taking", 7, 3.5)
    with TakenFiles(tmp_path / "x.sqlite") as taken:
        taken.put(one)
        taken.put(TakenFile("2.csv", 10, 5, "refused", reason="empty"))
        taken.forget("2.csv")
    with TakenFiles(tmp_path / "x.sqlite") as taken:
        assert taken.files() == [one]
        taken.forget_missing(tmp_path)
        assert "1.csv" not in taken
