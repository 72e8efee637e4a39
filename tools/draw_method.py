"""Draw the two pictures of ``docs/method.md``: the flowchart of the method, and the online data stream.

    python -m tools.draw_method [FOLDER]

The boxes of the flowchart name what computes them in the code, and ``tests/test_docs.py`` checks that it exists. The
stream is that of the scenario files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.drawing import ACCENT, BOX, FAINT, INK, WIDTH, Point, arrow, box, line, picture, text

from cgsa.data.scenario import Scenario, Stage
from cgsa.profile import Profile

IMAGES = Path(__file__).parent.parent / "docs" / "images"
FROZEN, FAULTY, HEALTHY, TRAINED = "#e9e9ee", "#c2410c", "#2b6cb0", "#eef4ea"
HEIGHT = 66


@dataclass(frozen=True)
class Step:
    """One box: what it is in the paper, and in the code."""

    left: float
    top: float
    width: float
    title: str
    symbol: str
    """Name in ``src/cgsa``, such as ``ReliabilityGate.select``."""
    about: str
    fill: str = BOX

    @property
    def middle(self) -> float:
        """Horizontal middle."""
        return self.left + self.width / 2

    @property
    def right(self) -> float:
        """Right edge."""
        return self.left + self.width

    @property
    def centre(self) -> float:
        """Vertical middle."""
        return self.top + HEIGHT / 2

    @property
    def bottom(self) -> float:
        """Bottom edge."""
        return self.top + HEIGHT

    def drawn(self) -> list[str]:
        """Return the box with its three lines of text."""
        return [
            box(self.left, self.top, self.width, HEIGHT, self.fill),
            text(self.middle, self.top + 22, self.title, size=14, weight="bold"),
            text(self.middle, self.top + 40, self.symbol, size=11, colour=ACCENT),
            text(self.middle, self.top + 56, self.about, size=11, colour=FAINT),
        ]


OBJECTIVE, ALGORITHM, COPY = "Cal", "Cgsa.algorithm_1", "copy_student"
LOSS, COEFFICIENT = "gaussian_nll", "adversarial_coefficient"

SEGMENTS = Step(30, 60, 190, "T1, T2, T3", "Scenario.training_segments", "labels y, measured condition c")
EXTRACTOR = Step(260, 60, 170, "F, features", "DiagnosisNet.features", "feature extractor")
CLASSIFIER = Step(470, 60, 190, "G, fault classes", "DiagnosisNet.classify", "eq. (2), cross-entropy")
REVERSAL = Step(260, 170, 170, "gradient times -λ", "reverse_gradient", f"eq. (4), {COEFFICIENT}")
DISCRIMINATOR = Step(470, 170, 190, "D, condition", "ConditionDiscriminator", f"eq. (1), {LOSS}")
BUNDLE = Step(720, 115, 210, "source model", "ModelBundle", "F, G and the mean branch of D")

STREAM = Step(30, 390, 190, "batch X(t)", "stream_windows", "no labels, no condition")
SOURCE = Step(260, 330, 190, "F_P, G_P, D_P, frozen", "EngineBatch.source", "eqs. (6) to (8)", FROZEN)
GATE = Step(490, 330, 190, "reliable set", "ReliabilityGate.select", "eqs. (9) to (11)")
QUEUE = Step(490, 450, 190, "queue of responses", "ResponseQueue", "the last W, first in first out")
ADAPT = Step(720, 330, 210, "one step of Adam", "EngineBatch.adapt", "eqs. (12) and (13)")
STUDENT = Step(260, 560, 190, "F_S, G_S, student", "EngineBatch.student", "eq. (5), before the update")
OUTPUT = Step(490, 560, 190, "diagnosis", "StepOutput", "class probabilities")

OFFLINE: Sequence[Step] = (SEGMENTS, EXTRACTOR, CLASSIFIER, REVERSAL, DISCRIMINATOR, BUNDLE)
ONLINE: Sequence[Step] = (STREAM, SOURCE, GATE, QUEUE, ADAPT, STUDENT, OUTPUT)


def flowchart_symbols() -> list[str]:
    """Return the names of the code that the flowchart shows."""
    return [*(step.symbol for step in (*OFFLINE, *ONLINE)), OBJECTIVE, ALGORITHM, COPY, LOSS, COEFFICIENT]


def draw_flowchart() -> str:
    """Return the flowchart: training above, Algorithm 1 below."""
    parts = [
        text(30, 40, f"Offline stage, once: {OBJECTIVE}, eq. (3)", size=14, anchor="start", colour=ACCENT),
        text(30, 264, f"Online stage, every batch: Algorithm 1, {ALGORITHM}", size=14, anchor="start", colour=ACCENT),
        *(part for step in (*OFFLINE, *ONLINE) for part in step.drawn()),
        _across(SEGMENTS, EXTRACTOR),
        _across(EXTRACTOR, CLASSIFIER),
        _down(EXTRACTOR, REVERSAL),
        _across(REVERSAL, DISCRIMINATOR),
        _across(CLASSIFIER, BUNDLE),
        _across(DISCRIMINATOR, BUNDLE),
        # The bundle gives the source model, and the student as its copy.
        arrow(
            [(BUNDLE.middle, BUNDLE.bottom), (BUNDLE.middle, 275), (SOURCE.middle, 275), (SOURCE.middle, SOURCE.top)]
        ),
        arrow([(240, 275), (240, STUDENT.centre - 12), (STUDENT.left, STUDENT.centre - 12)]),
        line([(SOURCE.middle, 275), (240, 275)]),
        text(STUDENT.left - 26, STUDENT.top - 20, COPY, size=11, colour=FAINT, anchor="end"),
        arrow(
            [
                (STREAM.right, STREAM.centre - 12),
                (230, STREAM.centre - 12),
                (230, SOURCE.centre),
                (SOURCE.left, SOURCE.centre),
            ]
        ),
        arrow(
            [(STREAM.middle, STREAM.bottom), (STREAM.middle, STUDENT.centre + 12), (STUDENT.left, STUDENT.centre + 12)]
        ),
        _across(SOURCE, GATE),
        text(470, 322, "pseudo-label, confidence, response", size=11, colour=FAINT),
        _across(GATE, ADAPT),
        arrow([(GATE.middle - 30, GATE.bottom), (GATE.middle - 30, QUEUE.top)]),
        arrow([(GATE.middle + 30, QUEUE.top), (GATE.middle + 30, GATE.bottom)]),
        _across(STUDENT, OUTPUT),
        # The step changes the student of the next batch.
        arrow(
            [(ADAPT.middle, ADAPT.bottom), (ADAPT.middle, 540), (STUDENT.middle, 540), (STUDENT.middle, STUDENT.top)]
        ),
        text(
            ADAPT.middle - 8,
            532,
            "student of batch t + 1; none if no window is reliable",
            size=11,
            colour=FAINT,
            anchor="end",
        ),
    ]
    return picture(
        parts, 650, "CGSA: training with a condition discriminator, then selective adaptation to every batch"
    )


def _across(one: Step, other: Step) -> str:
    """Return an arrow from the right edge of one box to the left edge of another, with a bend if one is higher."""
    bend = other.left - 30
    between = [] if one.centre == other.centre else [(bend, one.centre), (bend, other.centre)]
    return arrow([(one.right, one.centre), *between, (other.left, other.centre)])


def _down(one: Step, other: Step) -> str:
    return arrow([(one.middle, one.bottom), (other.middle, other.top)])


PANEL, LEFT, RIGHT = 210, 90, WIDTH - 40
MACHINES = ("gearbox", "motor")


def draw_stream() -> str:
    """Return the online streams of the paper's two machines, as their scenario files state them."""
    parts = [
        text(
            30,
            34,
            "The online stream: healthy first, then one fault until the end",
            size=14,
            anchor="start",
            colour=ACCENT,
        ),
        text(30, 54, stream_size(), size=12, anchor="start", colour=FAINT),
    ]
    for number, name in enumerate(MACHINES):
        parts += _panel(Scenario.load(name), 76 + number * (PANEL + 20))
    return picture(parts, 76 + len(MACHINES) * (PANEL + 20), "Load and state of the machine over the online stream")


def stream_size() -> str:
    """Return how many windows and batches a stream has under the profile ``paper``."""
    scenario, profile = Scenario.load(MACHINES[0]), Profile.load("paper")
    window = profile.window
    counts = [
        (round(seconds * scenario.sample_rate) - window.length) // window.step + 1
        for stage in scenario.online
        for _, seconds in _parts_of(stage)
    ]
    batches = -(-sum(counts) // profile.stream.batch_size)
    listed = " + ".join(f"{count:,}" for count in counts)
    return (
        f"{listed} windows of {window.length} samples at step {window.step}: {batches} batches of "
        f"{profile.stream.batch_size}; no window across the onset"
    )


def _panel(scenario: Scenario, top: float) -> list[str]:
    """Return one stream: its level over time, above the range of the training."""
    [condition] = scenario.conditions
    levels = [level for stage in scenario.online for _, level in stage.levels(scenario.conditions)]
    total = sum(stage.seconds or 0 for stage in scenario.online)
    base, most = top + PANEL - 30, 1.15 * max(levels)

    def at(seconds: float, level: float) -> Point:
        return LEFT + seconds / total * (RIGHT - LEFT), base - level / most * (PANEL - 60)

    (_, lowest), (_, highest) = at(0, condition.minimum), at(0, condition.maximum)
    parts = [
        text(
            30,
            top + 14,
            f"{scenario.name}, {condition.name} in {condition.unit}",
            size=13,
            anchor="start",
            weight="bold",
        ),
        box(LEFT, highest, RIGHT - LEFT, lowest - highest, TRAINED),
        text(
            RIGHT - 8,
            lowest - 8,
            f"training: {condition.minimum:g} to {condition.maximum:g}",
            size=11,
            colour=FAINT,
            anchor="end",
        ),
        line([(LEFT, base), (RIGHT, base)], FAINT, 1),
    ]
    start = 0.0
    for stage, level in zip(scenario.online, levels, strict=True):
        begin, name = start, f"{stage.name}: {level:g} {condition.unit}"
        for state, seconds in _parts_of(stage):
            colour = HEALTHY if state == "healthy" else FAULTY
            parts.append(line([at(start, level), at(start + seconds, level)], colour, 5))
            x, y = at(start + seconds / 2, level)
            parts.append(text(x, y - 10, state, size=12, colour=colour))
            start += seconds
        parts += [
            line([at(start, 0), at(start, most)], FAINT, 0.5),
            text(at((begin + start) / 2, 0)[0], base + 18, f"{name}, {stage.seconds:g} s", size=12, colour=INK),
        ]
    return parts


def _parts_of(stage: Stage) -> list[tuple[str, float]]:
    """Return the healthy and the faulty part of a stage with their seconds; those that exist."""
    seconds = stage.seconds or 0.0
    parts = [("healthy", stage.fault_from * seconds), ("fault", (1 - stage.fault_from) * seconds)]
    return [part for part in parts if part[1] > 0]


PICTURES = {"method-flowchart.svg": draw_flowchart, "method-stream.svg": draw_stream}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")
