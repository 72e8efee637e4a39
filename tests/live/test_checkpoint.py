from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load as load_tensors
from torch import Tensor

from cgsa.errors import BundleError, ConfigError
from cgsa.live.checkpoint import (
    DAY,
    HOUR,
    MINUTE,
    Checkpoints,
    StateRetention,
    environment,
    states_to_keep,
)
from cgsa.live.state_file import DIGEST_BYTES, MAGIC, PREAMBLE, VERSION, RestoredState, SavedState
from cgsa.nn import container
from tests.live import child_processes
from tests.live.faults import failing, flips, messages_of


def tensors(number: float) -> dict[str, Tensor]:
    return {"weight": torch.tensor([number, -number]), "count": torch.tensor(3)}


def two_states(folder: Path) -> tuple[Checkpoints, Path]:
    """Save two states; return the path of the second."""
    checkpoints = Checkpoints(folder)
    for number in (1, 2):
        checkpoints.save(10 * number, tensors(number), {"words": "so many"}, time=float(number))
    return checkpoints, folder / "00000002.state"


def check_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Compare bits, so that equal NaN values are equal."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(*(one.detach().reshape(-1).view(torch.uint8) for one in (found[name], tensor)))


def check_falls_back(folder: Path, reason: str) -> None:
    """The second state is refused, and the first one is used."""
    with pytest.raises(BundleError, match=reason):
        Checkpoints(folder).load(2)
    checkpoints = Checkpoints(folder)
    found = checkpoints.newest()
    assert found is not None
    assert found.saved.number == 1
    check_same(found.tensors, tensors(1))
    (note,) = checkpoints.notes
    assert note.startswith(f"{folder / '00000002.state'}: ")


def forged(header: bytes, body: bytes, *, version: int = VERSION, claims: tuple[int, int] | None = None) -> bytes:
    """Return a file whose header has the right hash, whatever it contains."""
    lengths = claims or (len(header), len(body))
    known = PREAMBLE.pack(MAGIC, version, *lengths, b"")[:-DIGEST_BYTES]
    return known + hashlib.sha256(known + header).digest() + header + body


def described(body: bytes, **changes: object) -> bytes:
    header = {"number": 2, "position": 0, "time": 0.0, "sha256": hashlib.sha256(body).hexdigest(), "about": {}}
    return json.dumps({**header, **changes}).encode()


def test_a_state_is_restored_bit_identically(tmp_path: Path) -> None:
    shared = torch.arange(12.0).reshape(3, 4)
    given_state = {
        "network.weight": torch.tensor([1.5, math.nan, -0.0, math.inf]),
        "scalar": torch.tensor(7),
        "none": torch.empty(0, 3),
        "across": shared.T,
        "part": shared[1:, 1],
        "learnt": torch.ones(2, requires_grad=True),
        "flags": torch.tensor([True, False]),
        **{str(dtype): torch.tensor([1, 2, 3]).to(dtype) for dtype in container.DTYPES},
    }
    checkpoints = Checkpoints(tmp_path / "deep" / "states")
    saved = checkpoints.save(5, given_state, {"threads": 2, "alarms": [{"state": "standing"}]}, time=1.25)
    assert (saved.number, saved.position, saved.time) == (1, 5, 1.25)
    assert saved.about == {"threads": 2, "alarms": [{"state": "standing"}]}
    assert saved.bytes == (tmp_path / "deep" / "states" / "00000001.state").stat().st_size
    for found in (checkpoints.newest(), checkpoints.load(1)):
        assert isinstance(found, RestoredState)
        assert found.saved == saved
        check_same(found.tensors, {name: tensor.contiguous() for name, tensor in given_state.items()})
    assert checkpoints.states() == (saved,)
    assert checkpoints.notes == ()


def test_the_tensors_are_a_safetensors_file(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(0, tensors(1), {}, time=0.0)
    data = (tmp_path / "00000001.state").read_bytes()
    header_bytes, size = PREAMBLE.unpack(data[: PREAMBLE.size])[2:4]
    assert len(data) == PREAMBLE.size + header_bytes + size
    check_same(load_tensors(data[-size:]), tensors(1))


def test_the_same_state_has_the_same_hash_whatever_the_order(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    first = checkpoints.save(0, tensors(1), {}, time=0.0)
    turned = checkpoints.save(9, dict(reversed(tensors(1).items())), {"other": "words"}, time=1.0)
    other = checkpoints.save(9, tensors(2), {}, time=1.0)
    assert first.sha256 == turned.sha256 != other.sha256


def test_an_empty_folder_has_no_states(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "nowhere")
    assert checkpoints.newest() is None
    assert checkpoints.states() == ()
    with pytest.raises(BundleError, match="cannot be read"):
        checkpoints.load(1)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"position": -1}, "position -1"),
        ({"time": math.nan}, "a finite time"),
        ({"tensors": {"x": torch.zeros(1, dtype=torch.complex64)}}, "tensor x is torch.complex64"),
        ({"about": {"x": object()}}, "must be plain JSON"),
    ],
)
def test_invalid_states_are_refused(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"position": 0, "tensors": {}, "about": {}, "time": 0.0}
    with pytest.raises(BundleError, match=message):
        Checkpoints(tmp_path).save(**{**right, **wrong})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limit", "size"), [("MAX_HEADER_BYTES", 50), ("MAX_TENSOR_BYTES", 10)])
def test_a_state_beyond_the_limits_is_neither_saved_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, size: int
) -> None:
    checkpoints, _ = two_states(tmp_path)
    monkeypatch.setattr(container, limit, size)
    with pytest.raises(BundleError, match="are saved"):
        checkpoints.save(0, tensors(3), {}, time=0.0)
    with pytest.raises(BundleError, match="are read"):
        checkpoints.load(2)


def test_every_truncation_and_any_addition_is_refused(tmp_path: Path) -> None:
    _, path = two_states(tmp_path)
    data = path.read_bytes()
    for changed in [*(data[:length] for length in range(len(data))), data + b"\0"]:
        path.write_bytes(changed)
        check_falls_back(tmp_path, "cut short")


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    _, path = two_states(tmp_path)
    data = path.read_bytes()
    size = PREAMBLE.unpack(data[: PREAMBLE.size])[3]
    for place, changed in flips(data):
        path.write_bytes(changed)
        checkpoints = Checkpoints(tmp_path)
        # Listing reads the header alone, and accepts it only if it is intact.
        listed = [state.number for state in checkpoints.states()]
        assert listed == ([1, 2] if place >= len(data) - size else [1])
        found = checkpoints.newest()
        assert found is not None
        assert found.saved.number == 1
        (note,) = checkpoints.notes
        assert note.startswith(f"{path}: ")


def test_a_damaged_state_stays_and_its_number_is_not_reused(tmp_path: Path) -> None:
    checkpoints, path = two_states(tmp_path)
    path.write_bytes(b"damaged")
    saved = checkpoints.save(30, tensors(3), {}, time=3.0)
    assert saved.number == 3
    assert [state.number for state in checkpoints.states()] == [1, 3]
    assert path.read_bytes() == b"damaged"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (forged(described(b""), b"", version=2), "state version 2; this cgsa reads version 1"),
        (forged(b"{}", b"", claims=(2**31, 0)), "at most 16777216 and 4294967296 are read"),
        (forged(b"{}", b"", claims=(2, 2**63)), "at most 16777216 and 4294967296 are read"),
        (forged(b"{}", b"", claims=(2, 2**32)), "expected 4294967354"),
        (forged(b"{}", b""), "its header does not describe a state"),
        (forged(b"[]", b""), "its header does not describe a state"),
        (forged(b"\xff", b""), "its header does not describe a state"),
        (forged(b"[" * 100_000, b""), "its header does not describe a state"),
        (forged(described(b"", position="here"), b""), "expected a whole number"),
        (forged(described(b"", more=1), b""), "no such setting"),
        (forged(described(b"", number=1), b""), "holds state 1; it was renamed or copied"),
        (forged(described(b""), b""), "not a safetensors file"),
        (forged(described(bytes(7) + b"\1"), bytes(7) + b"\1"), "not a safetensors file"),
        (forged(described(b"\2" + bytes(7) + b"[]"), b"\2" + bytes(7) + b"[]"), "not a safetensors file"),
        (b"\x80\x04\x95" + bytes(200), "not a state of a watch"),
    ],
)
def test_a_forged_state_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    _, path = two_states(tmp_path)
    path.write_bytes(data)
    check_falls_back(tmp_path, reason)


def test_only_a_plain_file_is_a_state(tmp_path: Path) -> None:
    _, path = two_states(tmp_path)
    elsewhere = path.rename(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    check_falls_back(tmp_path, "not a plain file")
    path.unlink()
    path.mkdir()
    check_falls_back(tmp_path, "not a plain file")


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    checkpoints = Checkpoints(blocker)
    for call in (checkpoints.newest, lambda: checkpoints.save(0, {}, {}, time=0.0)):
        with pytest.raises(BundleError, match="no states can be kept here"):
            call()


def test_every_failing_call_leaves_the_previous_state(tmp_path: Path) -> None:
    seen: set[str] = set()
    for lasting in (False, True):
        for fail_at in count(1):
            folder = tmp_path / f"{lasting}-{fail_at}"
            checkpoints = Checkpoints(folder, retention=StateRetention(newest=2, minutely=0, hourly=0, daily=0))
            for number in (1, 2):
                checkpoints.save(number, tensors(number), {}, time=0.0)
            problem = ""
            with failing(fail_at, lasting=lasting) as faults:
                try:
                    checkpoints.save(3, tensors(3), {}, time=0.0)
                except BundleError as error:
                    problem = str(error)
            found = Checkpoints(folder).newest()
            assert found is not None
            # If only the last step failed, the state exists: complete, but not safe from a power failure.
            assert found.saved.position in ((2, 3) if problem else (3,))
            check_same(found.tensors, tensors(found.saved.position))
            reported = any("No space left on device" in text for text in (problem, *checkpoints.notes))
            # The first call creates the folder, which exists already.
            assert reported == faults.reached or (fail_at == 1 and not lasting)
            saved = checkpoints.save(4, tensors(4), {}, time=0.0)
            assert saved.number > found.saved.number
            assert len(list(folder.iterdir())) == 2
            seen |= set(faults.calls)
            if not faults.reached:
                break
        assert fail_at > 5
    assert seen >= {"mkdir", "write", "fsync", "replace", "unlink"}


def test_an_old_state_that_cannot_be_removed_is_only_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    checkpoints = Checkpoints(tmp_path, retention=StateRetention(newest=2, minutely=0, hourly=0, daily=0))
    for number in (1, 2):
        checkpoints.save(number, tensors(number), {}, time=0.0)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert checkpoints.save(3, tensors(3), {}, time=0.0).number == 3
    assert checkpoints.notes == (f"{tmp_path / '00000001.state'}: cannot be removed (Operation not permitted)",)


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    left = tmp_path / ".00000007.state.abcd1234"
    left.mkdir()
    (left / "new").write_bytes(b"half")
    (tmp_path / ".other").mkdir()
    Checkpoints(tmp_path).save(0, tensors(1), {}, time=0.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other", "00000001.state"]


def test_a_full_disk_leaves_the_previous_state(tmp_path: Path) -> None:
    messages = messages_of(child_processes.save_until_full, tmp_path)
    assert [message[0] for message in messages] == ["refused", "newest", "saved"]
    assert "File too large" in messages[0][1]
    assert messages[1:] == [("newest", 1), ("saved", 2)]
    found = Checkpoints(tmp_path).newest()
    assert found is not None
    check_same(found.tensors, {"large": torch.zeros(100_000)})


def test_states_thin_out_over_time_and_protected_ones_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, retention=StateRetention(newest=2, minutely=0, hourly=3, daily=2))
    for number in range(1, 61):
        checkpoints.save(number, {}, {}, time=number * HOUR / 2, protect={5})
    found = checkpoints.states()
    # Two newest; the last of three hours; the last of two days, of which the first ended with state 47.
    assert [state.number for state in found] == [5, 47, 57, 59, 60]


def state(number: int, time: float, size: int = 1) -> SavedState:
    return SavedState(number, number, time, size, "", {})


RETENTIONS = st.builds(
    StateRetention,
    newest=st.integers(2, 5),
    minutely=st.integers(0, 4),
    hourly=st.integers(0, 4),
    daily=st.integers(0, 4),
    max_bytes=st.integers(0, 60),
)


@st.composite
def histories(draw: st.DrawFn) -> list[SavedState]:
    """States in any order, with wrong clocks and missing numbers."""
    numbers = draw(st.lists(st.integers(1, 50), unique=True, max_size=30))
    times = st.one_of(st.floats(0, 4 * DAY), st.sampled_from([0.0, 1e18, -1e18]))
    return [state(number, draw(times), draw(st.integers(1, 20))) for number in numbers]


@given(histories(), RETENTIONS, st.sets(st.integers(1, 50), max_size=4))
def test_the_states_to_keep_have_all_promised_properties(
    states: list[SavedState], retention: StateRetention, protect: set[int]
) -> None:
    stays = states_to_keep(states, retention, protect)
    numbers = sorted((state.number for state in states), reverse=True)
    certain = set(numbers[:2]) | protect & set(numbers)
    assert certain <= stays <= set(numbers)
    assert len(stays) <= retention.newest + retention.minutely + retention.hourly + retention.daily + len(protect)
    held = sum(state.bytes for state in states if state.number in stays)
    assert held <= retention.max_bytes or stays == certain
    # A second call removes nothing more.
    assert states_to_keep([state for state in states if state.number in stays], retention, protect) == stays
    # If there is too little space, the oldest go first.
    roomy = states_to_keep(states, replace(retention, max_bytes=10**9), protect)
    assert stays <= roomy
    assert all(number > max(roomy - stays, default=0) for number in stays - certain)


def literal_states_to_keep(states: list[SavedState], retention: StateRetention) -> set[int]:
    """The states to keep by the description, state by state, if there is space for all."""
    stays = set()
    for one in states:
        later = [other for other in states if other.number > one.number]
        if len(later) < retention.newest:
            stays.add(one.number)
        for seconds, limit in ((MINUTE, retention.minutely), (HOUR, retention.hourly), (DAY, retention.daily)):
            own = math.floor(one.time / seconds)
            hours = {math.floor(other.time / seconds) for other in later}
            if own not in hours and len(hours) < limit:
                stays.add(one.number)
    return stays


@given(st.lists(st.floats(0, 5 * HOUR), max_size=40), RETENTIONS)
def test_thinning_out_step_by_step_equals_thinning_out_at_the_end(
    steps: list[float], retention: StateRetention
) -> None:
    retention = replace(retention, max_bytes=10**9)
    time = 0.0
    every: list[SavedState] = []
    held: list[SavedState] = []
    for number, step in enumerate(steps):
        time += step
        every.append(state(number, time))
        stays = states_to_keep([*held, every[-1]], retention)
        held = [one for one in (*held, every[-1]) if one.number in stays]
    assert {one.number for one in held} == states_to_keep(every, retention) == literal_states_to_keep(every, retention)


@pytest.mark.parametrize("wrong", [{"newest": 1}, {"minutely": -1}, {"hourly": -1}, {"daily": -1}, {"max_bytes": -1}])
def test_a_retention_that_keeps_too_little_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="expected at least 2 newest"):
        StateRetention(**wrong)


def test_the_environment_lists_what_bit_identical_results_depend_on() -> None:
    found = environment("cpu")
    assert found["device"] == "cpu"
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert all(isinstance(value, str | int) for value in found.values())
