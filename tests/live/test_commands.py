from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgsa.errors import DataError
from cgsa.live.commands import NAMES, Command

DETAILS = st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans())


@given(name=st.sampled_from(NAMES), who=st.text(), text=st.text(), details=DETAILS)
def test_a_command_is_read_back_unchanged(name: str, who: str, text: str, details: dict[str, object]) -> None:
    command = Command(name, who, text, details)  # type: ignore[arg-type]
    assert Command.from_bytes(command.to_bytes()) == command


@given(st.binary(max_size=60) | st.sampled_from([b"{}", b"[]", b'{"name": "explode", "who": "a"}', b'{"name": 1}']))
def test_other_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(DataError):
        Command.from_bytes(payload)


def test_details_have_the_expected_type() -> None:
    command = Command("shelve", "ann", "noise", {"seconds": 60, "state": "wear", "wrong": True})
    assert command.number("seconds") == 60.0
    assert command.text_of("state") == "wear"
    with pytest.raises(DataError, match="command shelve: wrong is True; expected a number"):
        command.number("wrong")
    with pytest.raises(DataError, match="command shelve: missing is None; expected text"):
        command.text_of("missing")
