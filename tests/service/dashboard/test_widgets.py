from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from cgsa.service.dashboard.widgets import bars_html, log_html, table_html


class Reader(HTMLParser):
    """Collects tags and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


HOSTILE = st.text(st.sampled_from("<>&\"'script /=ab"), min_size=1, max_size=30)


@given(HOSTILE)
def test_user_input_is_text_and_never_markup(text: str) -> None:
    table, log, bars = (
        Reader(found) for found in (table_html([text], [[text]]), log_html([(text, text)]), bars_html([(text, 1)]))
    )
    assert table.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    assert log.tags == {"div", "span"}
    assert bars.tags == {"div", "span"}
    assert "".join(table.texts) == "".join(log.texts) == 2 * text
    assert "".join(bars.texts).startswith(text)


def test_bars_are_shares() -> None:
    found = bars_html([("learnt", 30), ("not confident", 10)])
    assert "30 (75 %)" in found
    assert "width:25.0%" in found
    assert bars_html([]) == ""
