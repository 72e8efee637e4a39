from __future__ import annotations

from cgsa.bench.figures.curves import MOST_LINES
from cgsa.bench.figures.line_styles import line_styles
from tests.bench.figures.made_records import make_record


def test_entries_can_be_told_apart() -> None:
    records = [make_record(f"m{number}", method="m") for number in range(MOST_LINES - 6)]
    records += [make_record(f"s{number}", method="source") for number in range(4)]
    looks = line_styles([*records, make_record()])
    assert len({(look.colour, look.dash) for look in looks.values()}) == len(looks)
    assert looks["CGSA"].width == max(look.width for look in looks.values())
    assert {entry[0] for entry, look in looks.items() if look.opacity < 1} == {"m"}
