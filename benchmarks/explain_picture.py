"""Draw the picture of docs/explain.md: a damaged ball of the simulated motor, explained.

    python -m benchmarks.explain_picture docs/images/explain-motor.png

It prints the sentences of the explanation as well.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from cgsa.data.recording import Recording
from cgsa.explain.explanation import explain_interval
from cgsa.explain.kinematics import load_kinematics
from cgsa.report.explain_figures import compared_spectra_figure
from cgsa.rigs import RIGS

SPECIMEN, RPM, TORQUE, SECONDS = 11, 1400.0, 20.0, 12.0
CHANNELS = ("vibration_x", "vibration_y", "vibration_z", "current_a")


def drive(state: str, seed: int) -> Recording:
    recording = RIGS["motor"]().drive(
        state, torque=TORQUE, speed=RPM, seconds=SECONDS, specimen=SPECIMEN, seed=seed, same_assembly=True
    )
    return recording.select(CHANNELS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    healthy = [drive("health", seed) for seed in range(3)]
    explanation, spectra = explain_interval(drive("bearing_ball", 3), healthy, load_kinematics("motor"))
    print("\n".join(explanation.sentences))
    family = next(one for one in explanation.families if one.domain == "envelope")
    compared_spectra_figure(spectra, family, envelope=True).savefig(
        options.picture, dpi=90, metadata={"Software": None}
    )


if __name__ == "__main__":
    main()
