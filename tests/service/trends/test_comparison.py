from __future__ import annotations

from pathlib import Path

import numpy as np

from cgsa.data.recording import Recording
from cgsa.live.plant import ExplainConfig
from cgsa.live.store import HealthyPiece
from cgsa.service.trends.comparison import MAX_POINTS, NO_HEALTHY_SIGNAL, compare_with_healthy

RATE = 4000.0
KINEMATICS = '[kinematics]\nshafts = [{ name = "rotor" }]\n'


def noise(seed: int, line: float = 0.0) -> np.ndarray:
    time = np.arange(round(3 * RATE)) / RATE
    signal = np.random.default_rng(seed).standard_normal((2, len(time)))
    signal[1] += line * sum(np.sin(2 * np.pi * order * 20 * time) for order in range(1, 6))
    return signal.astype(np.float32)


PIECES = tuple(HealthyPiece("m", 100.0 * n, RATE, ("a", "b"), {}, noise(n)) for n in range(4))
NOW = Recording(noise(9, line=2.0), RATE, ("a", "b"), ("g", "g"), source="m")


def test_what_rose_against_the_healthy_signal_is_named(tmp_path: Path) -> None:
    (tmp_path / "press.toml").write_text(KINEMATICS)
    known = ExplainConfig(str(tmp_path / "press.toml"), speed=1200.0)
    found = compare_with_healthy(5.0, NOW, PIECES, known)
    assert found.explanation is not None
    assert "unbalance" in found.explanation.sentences[0]
    assert found.compared_with == "4 pieces of this machine while it was healthy, taken over 5 min"
    lines = found.families["harmonics of shaft rotor"]
    assert lines[0] == (20.0, "shaft rotor")
    curve = found.spectra[1]
    assert curve.healthy is not None
    assert len(curve.frequency) == len(curve.now) == len(curve.healthy) <= MAX_POINTS
    place = int(np.abs(curve.frequency - 20).argmin())
    assert curve.now[max(0, place - 2) : place + 3].max() > 10 * curve.healthy[max(0, place - 2) : place + 3].max()
    peak = found.explanation.peaks[0]
    assert (peak.channel, peak.decibels > 15) == ("b", True)
    assert len(found.envelopes) == 2
    assert found.notes == ()


def test_a_machine_without_a_healthy_signal_says_so() -> None:
    found = compare_with_healthy(5.0, NOW, (), ExplainConfig())
    assert found.compared_with == "nothing"
    assert found.spectra[0].healthy is None
    assert NO_HEALTHY_SIGNAL in found.notes
    other = HealthyPiece("m", 0.0, RATE, ("x", "y"), {}, noise(1))
    assert compare_with_healthy(5.0, NOW, (other,), ExplainConfig()).compared_with == "nothing"


def test_what_prevents_the_comparison_becomes_a_note() -> None:
    found = compare_with_healthy(5.0, NOW, PIECES, ExplainConfig("missing.toml"))
    assert found.explanation is None
    assert "missing.toml" in found.notes[0]
