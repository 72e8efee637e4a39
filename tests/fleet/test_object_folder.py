from __future__ import annotations

from pathlib import Path

import pytest
import torch
from pyarrow import fs

from cgsa.errors import BundleError, ConfigError
from cgsa.fleet.object_folder import ObjectFolder
from cgsa.fleet.states import MachineStates


def in_memory() -> ObjectFolder:
    """An object store: files appear when they are closed, however they came to an end."""
    store = fs._MockFileSystem()
    return ObjectFolder(store, "bucket/fleet")


@pytest.fixture(params=["disk", "object store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectFolder:
    return ObjectFolder.of(str(tmp_path / "fleet")) if request.param == "disk" else in_memory()


def test_files_are_listed_read_and_removed(folder: ObjectFolder) -> None:
    assert folder.names() == ()
    folder.write("b", (b"two", memoryview(b" pieces")))
    folder.write("a", ())
    folder.below("further").write("c", (b"3",))
    assert folder.names() == ("a", "b")
    assert folder.read("b") == b"two pieces"
    assert folder.below("further").read("c") == b"3"
    folder.remove("a")
    folder.remove("a")
    assert folder.names() == ("b",)
    with pytest.raises(BundleError, match="cannot be read"):
        folder.read("nothing")


def test_an_address_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a path"):
        ObjectFolder.of("nonsense://bucket")


def save(states: MachineStates, position: int) -> None:
    states.save(position, {"weight": torch.tensor([float(position)])}, {"watch": {}}, time=1.0)


def test_the_newest_state_of_the_newest_epoch_counts(folder: ObjectFolder) -> None:
    old, new = MachineStates(folder, 3), MachineStates(folder, 4)
    save(old, 10)
    save(new, 8)
    save(old, 30)
    found = new.newest()
    assert found is not None
    assert found.saved.position == 8
    assert torch.equal(found.tensors["weight"], torch.tensor([8.0]))


def test_old_states_are_removed_and_those_of_a_later_owner_are_not(folder: ObjectFolder) -> None:
    old, new = MachineStates(folder, 1, keep=3), MachineStates(folder, 2, keep=3)
    save(new, 5)
    for position in range(10, 20):
        save(old, position)
    assert new.positions() == (17, 18, 19, 5)
    for position in range(20, 24):
        save(new, position)
    assert new.positions() == (21, 22, 23)


@pytest.mark.parametrize("kept", [0, 10, 60, -1])
def test_an_upload_that_was_cut_short_is_not_used(folder: ObjectFolder, kept: int) -> None:
    states = MachineStates(folder, 1)
    save(states, 10)
    save(states, 20)
    name = folder.names()[-1]
    data = folder.read(name)
    folder.remove(name)
    folder.write(name, (data[:kept],))
    found = states.newest()
    assert found is not None
    assert found.saved.position == 10
    assert len(states.take_notes()) == 1
    assert not states.take_notes()


def test_a_state_under_the_name_of_another_is_refused(folder: ObjectFolder) -> None:
    states = MachineStates(folder, 1)
    save(states, 10)
    folder.write(folder.names()[0].replace("10.state", "99.state"), (folder.read(folder.names()[0]),))
    found = states.newest()
    assert found is not None
    assert found.saved.position == 10


def test_states_that_cannot_be_read_at_present_are_not_taken_for_none(
    folder: ObjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(MachineStates(folder, 1), 10)

    def fail(self: ObjectFolder, name: str) -> bytes:
        raise BundleError("cannot be read") from OSError(5, "input/output error")

    monkeypatch.setattr(ObjectFolder, "read", fail)
    with pytest.raises(BundleError):
        MachineStates(folder, 1).newest()
