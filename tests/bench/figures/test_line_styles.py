from __future__ import annotations

from cgsa.bench.figures.curves import MOST_LINES
from cgsa.bench.figures.line_styles import line_styles
from tests.bench.figures.made_records import make_record


def test_entries_are_distinguishable() -> None:
    records = [make_record(f"m{number}", method="m") for number in range(MOST_LINES - 6)]
    records += [make_record(f"s{number}", method="source") for number in range(4)]
    styles = line_styles([*records, make_record()])
    assert len({(style.colour, style.dash) for style in styles.values()}) == len(styles)
    assert styles["CGSA"].width == max(style.width for style in styles.values())
    assert {entry[0] for entry, style in styles.items() if style.opacity < 1} == {"m"}
