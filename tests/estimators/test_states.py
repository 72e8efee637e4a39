from __future__ import annotations

from pathlib import Path

import pytest

from cgsa.errors import BundleError
from cgsa.estimators.machine import Machine
from cgsa.estimators.states import pack_state, unpack_state
from cgsa.estimators.verdicts import WindowVerdicts
from cgsa.live.signal_diagnoser import DiagnosisConfig
from tests.estimators.toy import commissioned, machine
from tests.machines import bundle
from tests.starts import steady

WEAR = steady("wear")


def test_a_saved_state_resumes_in_another_machine(tmp_path: Path) -> None:
    first = commissioned()
    list(first.stream([WEAR[:, :1003]]))
    first.save_state(tmp_path / "state")
    second = machine()
    second.load_state(tmp_path / "state")
    rest = [WindowVerdicts.concatenate(one.stream([WEAR[:, 1003:]])).to_dict() for one in (first, second)]
    assert rest[0] == rest[1]


def test_the_newest_state_counts_and_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    found = commissioned()
    found.save_state(tmp_path)
    expected = found.predict(WEAR).to_dict()
    found.reset()
    found.save_state(tmp_path)
    newest = max(tmp_path.glob("*.state"))
    newest.write_bytes(newest.read_bytes()[:-9])
    found.load_state(tmp_path)
    assert found.predict(WEAR).to_dict() == expected


def test_nothing_to_resume_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="it holds no saved state; expected what save_state wrote"):
        machine().load_state(tmp_path / "nothing")


def test_the_state_of_another_model_or_method_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    Machine(bundle(), DiagnosisConfig("source")).save_state(tmp_path)
    found = commissioned()
    before = found.predict(WEAR).to_dict()
    with pytest.raises(BundleError, match=r"a machine with another method, settings, .*model; load the model"):
        found.load_state(tmp_path)
    assert found.predict(WEAR).to_dict() == before


def test_a_packed_state_without_an_owner_is_refused() -> None:
    found = machine()
    packed = {**pack_state(found._signal), "about": b"{}"}
    with pytest.raises(BundleError, match="does not say which machine"):
        unpack_state(found._signal, packed)
