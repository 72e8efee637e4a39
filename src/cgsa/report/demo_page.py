"""The page of the demo: what three approaches say of one stream, with the truth above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cgsa.data.scenario import Condition
from cgsa.evaluation.approach_figures import ApproachFigures, StreamTruth, shown
from cgsa.evaluation.approaches import ApproachRun
from cgsa.explain.explanation import ExplainedSpectra, Explanation
from cgsa.metrics.accuracy import IntArray
from cgsa.report.demo_details import details
from cgsa.report.demo_headline import RIGHT_MEANS, what_happened, who_is_right
from cgsa.report.explain import spectrum_pictures
from cgsa.report.page import HtmlPage, render_page
from cgsa.report.stretched_chart import (
    Layer,
    Scale,
    StretchedChart,
    shares_per_interval,
    stacked_shares,
    state_intervals,
)

COLUMNS = 300
"""Intervals of single decisions along the stream; more would be narrower than a point of a phone."""
TICK_SECONDS = 5.0
NOT_YET = -1
"""State of an approach that has no verdict of its own yet."""


@dataclass(frozen=True, eq=False)
class DemoStory:
    """Everything that the page shows."""

    title: str
    facts: Sequence[str]
    """What was trained and what is shown, in sentences."""
    states: tuple[str, ...]
    """The classes, and unknown."""
    condition: Condition
    """The condition that changes, with the range of the training."""
    stages: tuple[str, ...]
    """Names of the stages along the stream."""
    truth: StreamTruth
    since: float
    """Seconds from which shares are counted."""
    runs: Sequence[ApproachRun]
    figures: Sequence[ApproachFigures]
    explained: tuple[Explanation, ExplainedSpectra] | None = None
    next_steps: Sequence[tuple[str, str]] = ()
    """Commands to try next, with what they do."""
    commands: Sequence[str] = ()
    """Commands that reproduce the page."""

    @property
    def seconds(self) -> float:
        """Length of the stream."""
        return self.truth.borders[-1]

    @property
    def fault(self) -> str:
        """Name of the fault that sets in, with spaces."""
        return readable(self.states[self.truth.fault])

    @property
    def outcome(self) -> str:
        """Which approaches are right."""
        return who_is_right([run.approach.name for run in self.runs], self.figures)

    @property
    def headline(self) -> str:
        """What happened, in one sentence."""
        return what_happened([run.approach.name for run in self.runs], self.figures, self.fault)


def readable(name: str) -> str:
    """Return a name such as ``gear_wear`` with spaces."""
    return name.replace("_", " ")


def demo_page(story: DemoStory) -> HtmlPage:
    """Return the page."""
    explanation = None if story.explained is None else story.explained[0]
    return render_page(
        "demo.html",
        title=story.title,
        right_means=RIGHT_MEANS,
        story=story,
        states=[readable(name) for name in story.states],
        kinds=state_kinds(len(story.states), story.truth.fault, unknown="unknown" in story.states),
        stages=_stages(story),
        onset=None if story.truth.onset is None else 100 * story.truth.onset / story.seconds,
        condition=_condition_chart(story),
        truth=state_intervals(story.truth.time, story.truth.label, np.zeros(len(story.truth.time), np.bool_)),
        ticks=[(100 * at / story.seconds, f"{at:g}") for at in np.arange(0, story.seconds + 0.5, TICK_SECONDS)],
        approaches=[_approach(story, run, found) for run, found in zip(story.runs, story.figures, strict=True)],
        rows=_table(story),
        details=details(story.runs, story.figures, story.truth, story.since),
        sentences=[] if explanation is None else explanation.sentences,
        pictures=[] if story.explained is None else spectrum_pictures(*story.explained),
        chart=_values(story),
    )


def state_kinds(states: int, fault: int, *, unknown: bool) -> list[str]:
    """Return the class of the style sheet for each state: the fault that sets in has the same colour on every page."""
    others = iter(range(1, states + 1))
    return [
        "healthy"
        if state == 0
        else "fault"
        if state == fault
        else "unknown"
        if unknown and state == states - 1
        else f"other{(next(others) - 1) % 3 + 1}"
        for state in range(states)
    ]


def verdicts(run: ApproachRun, truth: StreamTruth) -> IntArray:
    """Return the verdict at each time of the truth; :data:`NOT_YET` before the first one of its own."""
    first = float(run.end[run.ready][0])
    return np.where(truth.time >= first, shown(run, truth, run.state), NOT_YET)


def _stages(story: DemoStory) -> list[dict[str, object]]:
    found = []
    for number, (begin, end) in enumerate(zip(story.truth.borders, story.truth.borders[1:], strict=False)):
        found.append(
            {
                "left": 100 * begin / story.seconds,
                "width": 100 * (end - begin) / story.seconds,
                "name": story.stages[number],
            }
        )
    return found


def _condition_chart(story: DemoStory) -> StretchedChart:
    """Return the operating condition over time, with the range of the training."""
    condition, values = story.condition, story.truth.conditions[story.condition.name]
    top = 1.12 * max(float(values.max()), condition.maximum)
    scale = Scale(story.seconds, min(0.0, condition.minimum), top)
    every = slice(None, None, 2)
    return StretchedChart(
        f"{condition.name} in {condition.unit} over time; trained from {condition.minimum:g} to {condition.maximum:g}",
        (
            Layer("band", scale.band(condition.minimum, condition.maximum), "trained range"),
            Layer("line", scale.line(story.truth.time[every], values[every]), condition.name),
        ),
        scale.ticks([condition.maximum], f" {condition.unit}: trained up to here"),
    )


def _approach(story: DemoStory, run: ApproachRun, found: ApproachFigures) -> dict[str, object]:
    truth, classes = story.truth, run.trace.probabilities.shape[1]
    state = verdicts(run, truth)
    alarm = shown(run, truth, run.alarm)
    shares = shares_per_interval(run.end, run.trace.prediction, classes, story.seconds, COLUMNS)
    return {
        "key": run.approach.key,
        "title": run.approach.title,
        "about": run.approach.about,
        "right": found.right,
        "tiles": _tiles(story, found),
        "verdicts": state_intervals(truth.time, state, (state != truth.label) & (state != NOT_YET)),
        "alarms": [one for one in state_intervals(truth.time, alarm, alarm != truth.label) if one.state],
        "decisions": stacked_shares(shares),
        "window": _short(run.window_seconds),
    }


def _tiles(story: DemoStory, found: ApproachFigures) -> list[tuple[str, str, str, bool]]:
    """Return name, figure, remark and whether it is good, of each large figure."""
    healthy = float((story.truth.label == 0).mean()) * story.seconds
    if found.delay is None:
        delay = ("never", f"the {story.fault} raised no alarm")
    elif found.alarm_at_onset:
        delay = ("before", "a false alarm was active already")
    else:
        remark = "and names it" if found.named_delay == found.delay else "names another fault"
        if found.named_delay is not None and found.named_delay != found.delay:
            remark = f"names it after {found.named_delay:.2f} s"
        delay = (f"{found.delay:.2f} s", remark)
    return [
        (
            "verdicts right",
            f"{found.verdicts_right:.0%}",
            f"single decisions {found.decisions_right:.0%}",
            found.verdicts_right >= 0.9,
        ),
        ("false alarms", str(found.false_alarms), f"in {healthy:.0f} s of health", not found.false_alarms),
        ("alarm after", *delay, found.right or (found.named_delay is not None and not found.alarm_at_onset)),
    ]


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.5 else f"{1000 * seconds:.0f} ms"


def _name(story: DemoStory, state: int) -> str:
    return "none yet" if state == NOT_YET else readable(story.states[state])


def _table(story: DemoStory) -> list[list[str]]:
    """Return truth and verdicts at every second, as text."""
    truth = story.truth
    found = [verdicts(run, truth) for run in story.runs]
    wanted = np.arange(1.0, story.seconds + 0.01)
    rows = np.searchsorted(truth.time, wanted - 1e-6).clip(max=len(truth.time) - 1)
    values = truth.conditions[story.condition.name]
    return [
        [
            f"{truth.time[row]:.0f}",
            f"{values[row]:.1f}",
            *(_name(story, int(one[row])) for one in (truth.label, *found)),
        ]
        for row in rows
    ]


def _values(story: DemoStory) -> dict[str, object]:
    """Return what the script shows at a time."""
    truth, every = story.truth, slice(1, None, 2)
    approaches = []
    for run in story.runs:
        classes = run.trace.probabilities.shape[1]
        shares = shares_per_interval(run.end, run.trace.prediction, classes, story.seconds, COLUMNS)
        most = np.where(np.isnan(shares[:, 0]), NOT_YET, np.nan_to_num(shares).argmax(axis=1))
        approaches.append(
            {
                "title": run.approach.title,
                "verdict": verdicts(run, truth)[every].tolist(),
                "alarm": shown(run, truth, run.alarm)[every].tolist(),
                "decision": most.tolist(),
                "share": [None if np.isnan(one) else round(float(one), 2) for one in shares.max(axis=1)],
            }
        )
    condition = story.condition
    values = truth.conditions[condition.name][every]
    return {
        "seconds": story.seconds,
        "time": np.round(truth.time[every], 2).tolist(),
        "condition": [round(float(one), 1) for one in values],
        "trained": [bool(condition.minimum <= one <= condition.maximum + condition.tolerance) for one in values],
        "name": condition.name,
        "unit": condition.unit,
        "states": [readable(name) for name in story.states],
        "truth": truth.label[every].tolist(),
        "approaches": approaches,
    }
