from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import publish
from benchmarks.fuzz_readers import OUTCOMES
from benchmarks.result_files import Result, measure_all, merged, read_folder, read_lines, write_lines, write_result


def square(number: int) -> Result:
    if number < 0:
        raise ValueError("negative")
    return {"number": number, "square": number**2}


def test_results_are_measured_once_and_read_back(tmp_path: Path) -> None:
    items = {tmp_path / "results" / f"{number}.json": number for number in (3, 1, 2)}
    found = measure_all(square, items, workers=2)
    assert [one["square"] for one in found] == [9, 1, 4]
    # A result that is there is not measured again.
    (tmp_path / "results" / "2.json").write_text('{"number": 2, "square": 5}')
    assert [one["square"] for one in measure_all(square, items, workers=1)] == [9, 1, 5]
    assert [one["number"] for one in read_folder(tmp_path / "results")] == [1, 2, 3]


def test_a_failed_measurement_keeps_the_others(tmp_path: Path) -> None:
    items = {tmp_path / "1.json": 1, tmp_path / "bad.json": -1}
    with pytest.raises(ValueError, match="negative"):
        measure_all(square, items, workers=1)
    assert [one["number"] for one in read_folder(tmp_path)] == [1]


def test_results_are_published_as_one_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "some.jsonl", [square(2), square(3)])
    assert read_lines(tmp_path / "some.jsonl") == [square(2), square(3)]
    values = [[0.9, 1.0], [0.8, 1.0], [0.7, 0.5]]
    result = {"scenario": "toy", "method": "source", "fault": "wear", "trial": 0, "values": values}
    measured = tmp_path / "runs" / "poison"
    measured.mkdir(parents=True)
    (measured / "one.json").write_text(str(result).replace("'", '"'))
    monkeypatch.setattr(publish, "RESULTS", tmp_path / "results")
    publish.publish_measurements(tmp_path / "runs")
    assert [path.name for path in (tmp_path / "results" / "measurements").iterdir()] == ["poison.jsonl"]
    page = publish.fill_tables("<!-- table: measurements/poison -->\n<!-- end -->")
    assert "| toy | source | 0.900 | 0.800 | 0.700 | 0.200 | 1.000 | 1.000 | 0.500 | 0.500 |" in page


def test_what_was_not_measured_again_stays() -> None:
    earlier: list[Result] = [{"set": "a", "size": 1, "start": 9}, {"set": "b", "size": 2, "start": 8}]
    found = merged(earlier, [{"set": "c", "size": 3, "start": 7}, {"set": "b", "start": 5}], ["set"])
    assert found == [earlier[0], {"set": "b", "size": 2, "start": 5}, {"set": "c", "size": 3, "start": 7}]


def test_a_partial_run_keeps_the_other_rows_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def row(name: str, refused: int) -> Result:
        counts = dict.fromkeys(OUTCOMES, 0) | {"refused": refused, "same": 10 - refused}
        return {"format": name, "seed": 0, "files": 10, **counts, "slowest_s": 0.01, "memory_mb": 0.0}

    monkeypatch.setattr(publish, "RESULTS", tmp_path / "results")
    runs = tmp_path / "runs" / "fuzz_readers"
    for name in ("csv", "mat 5", "wav"):
        write_result(runs / f"{name}.json", row(name, 4))
    publish.publish_measurements(tmp_path / "runs")
    part = tmp_path / "part"
    write_result(part / "fuzz_readers" / "mat.json", row("mat 5", 9))
    publish.publish_measurements(part)
    published = read_lines(publish.measurement_file("fuzz_readers"))
    assert [(one["format"], one["refused"]) for one in published] == [("csv", 4), ("mat 5", 9), ("wav", 4)]
