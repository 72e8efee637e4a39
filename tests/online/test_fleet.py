"""A fleet compared with each of its machines alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgsa.errors import BundleError, ConfigError, DataError
from cgsa.online.cgsa import Cgsa
from cgsa.online.fleet import StudentFleet
from tests.machines import bundle, stream_windows

LEARNING = {"queue": 20, "tau": 0.1, "min_confidence": 0.5}
NAMES = ("press", "pump", "fan", "mill")


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, 30, 64]), max_size=4), max_size=6),
    together=st.integers(1, 5),
)
def test_every_machine_is_diagnosed_as_if_alone(steps: list[dict[str, int]], together: int) -> None:
    """Machines have batches of any size or none, and each its own position in the stream."""
    windows, fleet = stream_windows(), StudentFleet(bundle(), LEARNING, together=together)
    alone = {name: Cgsa(bundle(), LEARNING) for name in NAMES}
    at = {name: 17 * place for place, name in enumerate(NAMES)}
    for name in NAMES:
        fleet.join(name)
    for sizes in steps:
        batches = {name: windows.gather(slice(at[name], at[name] + size)) for name, size in sizes.items()}
        output = fleet.step(batches)
        assert set(output) == set(batches)
        assert len(output) == len(batches)
        for name, x in batches.items():
            expected = alone[name].step(x)
            assert expected.accepted is not None
            ours = output[name]
            assert ours.accepted is not None
            assert torch.equal(ours.accepted, expected.accepted)
            torch.testing.assert_close(ours.probabilities, expected.probabilities, rtol=0, atol=1e-6)
            for what, values in expected.evidence.items():
                torch.testing.assert_close(ours.evidence[what], values, rtol=0, atol=1e-5, equal_nan=True)
            at[name] += len(x)
    for name in NAMES:
        assert_same(fleet.state_dict(name), alone[name].state_dict())


def test_machines_join_and_leave_with_their_state() -> None:
    windows, alone = stream_windows(), Cgsa(bundle(), LEARNING)
    fleet = StudentFleet(bundle(), LEARNING, together=2)
    first, second, third = (windows.gather(slice(100 * n, 100 * n + 100)) for n in range(3))
    fleet.join("pump")
    fleet.join("fan")
    fleet.join("mill")
    fleet.step({"pump": first, "fan": second})
    alone.step(first)
    state = fleet.leave("pump")
    assert_same(state, alone.state_dict())
    assert sorted(fleet.machines) == ["fan", "mill"]

    # A new machine takes the place and starts from the source model.
    fleet.join("press")
    assert_same(fleet.state_dict("press"), Cgsa(bundle(), LEARNING).state_dict())
    # A machine resumes from its state, in a fleet or alone.
    fleet.join("pump", state)
    output = fleet.step({"pump": second, "fan": third})["pump"]
    torch.testing.assert_close(output.probabilities, alone.step(second).probabilities, rtol=0, atol=1e-6)
    moved = Cgsa(bundle(), LEARNING)
    moved.load_state_dict(fleet.state_dict("pump"))
    torch.testing.assert_close(moved.step(third).probabilities, alone.step(third).probabilities, rtol=0, atol=1e-6)
    fleet.load_state_dict("pump", state)
    assert_same(fleet.state_dict("pump"), state)


def test_a_stack_without_machines_is_freed() -> None:
    fleet = StudentFleet(bundle(), together=2)
    for name in NAMES:
        fleet.join(name)
    for name in NAMES:
        fleet.leave(name)
    assert fleet.machines == []
    assert not fleet._stacks


def test_windows_with_their_own_samples_give_the_same_diagnosis() -> None:
    windows = stream_windows().gather(slice(0, 60))
    outputs = []
    for x in (windows, windows.contiguous(), windows.double()):
        fleet = StudentFleet(bundle(), LEARNING, together=2)
        fleet.join("pump")
        outputs.append(fleet.step({"pump": x}).on_host()["pump"].probabilities)
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0])


def test_unusable_batches_change_no_machine() -> None:
    windows, fleet = stream_windows(), StudentFleet(bundle(), LEARNING, together=2)
    good = windows.gather(slice(0, 50))
    bad = windows.gather(slice(50, 100)).clone()
    bad[7, 1, 3] = torch.nan
    for name in NAMES[:3]:
        fleet.join(name)
    before = {name: fleet.state_dict(name) for name in fleet.machines}
    with pytest.raises(DataError, match="windows of fan hold NaN or infinity; leave those machines out"):
        fleet.step({"press": good, "fan": bad})
    with pytest.raises(DataError, match=r"pump: batch of shape \(50, 1, 32\); expected \(windows, 2, 32\)"):
        fleet.step({"press": good, "pump": good[:, :1]})
    with pytest.raises(ConfigError, match="no machine crane in the fleet of 3"):
        fleet.step({"press": good, "crane": good})
    for name, state in before.items():
        after = fleet.state_dict(name)
        assert all(torch.equal(after[part], tensor) for part, tensor in state.items())


def test_names_and_states_are_checked() -> None:
    with pytest.raises(ConfigError, match="0 machines together; expected at least one"):
        StudentFleet(bundle(), together=0)
    fleet = StudentFleet(bundle(), together=2)
    fleet.join("pump")
    with pytest.raises(ConfigError, match="machine 'pump' is in the fleet already"):
        fleet.join("pump")
    with pytest.raises(ConfigError, match="no machine 'fan' in the fleet of 1"):
        fleet.leave("fan")
    with pytest.raises(BundleError, match=r"no memory\.queue"):
        fleet.join("fan", {"network.student.F.0.weight": torch.zeros(1)})
    assert fleet.machines == ["pump"]
    assert len(fleet.step({})) == 0
