from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cgsa.bench import extras
from cgsa.bench.rotation.folds import rotation_folds
from cgsa.bench.rotation.peer_learner import PeerLearner
from cgsa.bench.rotation.peers import PEERS, ExtraTreesPeer, LogisticPeer, Peer, RmsPeer
from cgsa.bench.rotation.sets import steady_state_set
from cgsa.data.library import open_library
from cgsa.errors import ConfigError
from cgsa.profile import Profile
from tests.bench.rotation.made_sets import write_profile, write_set

NAMERS = [
    pytest.param(
        peer,
        marks=[
            pytest.mark.skipif(
                find_spec(package) is None, reason=f"{package} is not installed: pip install 'cgsa[peers]'"
            )
            for package in peer.packages
        ],
        id=peer.name,
    )
    for peer in PEERS.values()
    if peer is not RmsPeer
]


@pytest.mark.parametrize("peer", NAMERS)
def test_a_peer_learns_classes_that_differ_at_every_condition(tmp_path: Path, peer: type[Peer]) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump"))
    fold = rotation_folds(rotated)[1]
    library = open_library(rotated.folder, fold.scenario)
    model = PeerLearner(peer, Profile.load(write_profile(tmp_path))).fit(fold, library, seed=0)
    # A quarter of a second, since the windows of the profile are shorter.
    assert model.manifest.window.length == 64
    segments = fold.scenario_of(fold.streams[0]).stream_segments(library, "worn")
    [(entry, trace)] = model.run(segments)
    assert entry == peer.name
    np.testing.assert_allclose(trace.probabilities.sum(axis=1), 1, atol=1e-5)
    assert trace.probabilities.shape[1] == 3
    assert trace.correct.mean() > 0.9


def test_a_peer_never_gets_shorter_windows_than_the_model(tmp_path: Path) -> None:
    rotated = steady_state_set(write_set(tmp_path / "pump"))
    fold = rotation_folds(rotated)[0]
    library = open_library(rotated.folder, fold.scenario)
    profile = Profile.load(write_profile(tmp_path), {"window": {"length": 128, "step": 32}})
    window = PeerLearner(RmsPeer, profile).fit(fold, library, seed=0).manifest.window
    assert (window.length, window.step) == (128, 32)


def test_random_peers_depend_on_the_seed_and_on_nothing_else() -> None:
    pytest.importorskip("sklearn", reason="pip install 'cgsa[peers]'")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 4)), rng.integers(0, 2, 60)

    def fitted(seed: int) -> list[list[float]]:
        peer = ExtraTreesPeer(seed)
        peer.fit(x, y)
        found: list[list[float]] = peer.predict_proba(x + 0.5).tolist()
        return found

    assert fitted(0) == fitted(0)
    assert fitted(0) != fitted(1)


def test_rms_limits_find_a_fault_but_not_which() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2, 64))
    y = np.repeat([0, 1, 2, 2, 2], 60)
    x[y > 0] *= 3
    peer = RmsPeer()
    peer.fit(x, y)
    said = peer.predict_proba(x).argmax(axis=1)
    assert (said[y == 0] == 0).mean() > 0.95
    assert set(said[y > 0].tolist()) == {2}


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(ConfigError, match=r"peer logistic regression needs sklearn: pip install 'cgsa\[peers\]'"):
        LogisticPeer.require_packages()
    RmsPeer.require_packages()
