"""What ``cgsa demo`` computes: recordings, two models, three runs over one stream, and the explanation of the fault."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cgsa.config import as_table, builtin_files
from cgsa.data.scenario import Library, Scenario
from cgsa.evaluation.approach_figures import StreamTruth, approach_figures, counted_from
from cgsa.evaluation.approaches import APPROACHES, Approach, run_approach
from cgsa.explain.explanation import explain_interval
from cgsa.explain.kinematics import load_kinematics
from cgsa.nn.bundle import ModelBundle
from cgsa.profile import Profile
from cgsa.report.demo_page import DemoStory, readable
from cgsa.rigs import RIGS
from cgsa.workflow import stream_windows, train_candidates

if TYPE_CHECKING:
    from cgsa.cli.demo_progress import StepProgress
    from cgsa.data.windows import Segment
    from cgsa.evaluation.approaches import ApproachRun
    from cgsa.explain.explanation import ExplainedSpectra, Explanation
    from cgsa.offline.run import Progress

ASSEMBLY = 1
"""The assembly that the stream is of; other intervals of its recordings are in the training."""
SIMULATE, EXPLAIN = "Simulate recordings", "Explain the fault, write the page"


@dataclass(frozen=True)
class DemoSettings:
    """What the demo shows, and where its files are."""

    plan: Scenario
    fault: str
    specimens: int
    folder: Path
    profiles: Mapping[str, Profile]
    """The profiles of all approaches, by name."""
    seed: int = 0
    device: str = "cpu"

    @property
    def recordings(self) -> Path:
        """Folder of the simulated recordings."""
        return self.folder / f"{self.plan.name}-{self.specimens}-specimens"

    def model_folder(self, profile: str) -> Path:
        """Return the folder of a model; a model is reused only if everything it depends on is unchanged."""
        inputs = json.dumps([as_table(self.plan), as_table(self.profiles[profile]), self.specimens, self.seed])
        return self.folder / f"{self.plan.name}-{profile}-{hashlib.sha256(inputs.encode()).hexdigest()[:8]}"


def usual_seconds(settings: DemoSettings, missing: int) -> dict[str, float]:
    """Return the steps with their usual durations on two cores; ``missing`` recordings have to be simulated."""
    steps = {SIMULATE: 2.2 * missing} if missing else {}
    for profile, seconds in (("quick", 90.0), ("recommended", 20.0)):
        if profile in settings.profiles and not settings.model_folder(profile).exists():
            steps[_training_step(profile)] = seconds
    streams = {"alone": 4.0, "paper": 5.0, "recommended": 2.0}
    return {**steps, **{_stream_step(one): streams[one.key] for one in APPROACHES}, EXPLAIN: 2.0}


def demo_models(settings: DemoSettings, library: Library, progress: StepProgress) -> dict[str, ModelBundle]:
    """Return one model per profile, trained on the same recordings unless it exists."""
    models = {}
    for name, profile in settings.profiles.items():
        folder = settings.model_folder(name)
        if not folder.exists():
            progress.begin(_training_step(name))

            def report(found: Progress) -> None:
                progress.update(found.epoch * found.steps + found.step, found.epochs * found.steps)

            train_candidates(
                settings.plan,
                {"": profile},
                library,
                folder,
                seed=settings.seed,
                device=settings.device,
                on_candidate=lambda *_: report,
            )
        models[name] = ModelBundle.load(folder, settings.device)
    return models


def compare_approaches(
    settings: DemoSettings, library: Library, models: Mapping[str, ModelBundle], progress: StepProgress
) -> DemoStory:
    """Run all approaches on the stream and return what the page shows."""
    plan, condition = settings.plan, settings.plan.conditions[0]
    segments = plan.stream_segments(library, settings.fault, specimen=ASSEMBLY)
    truth = StreamTruth.of(segments, [condition.name])
    runs = []
    for approach in APPROACHES:
        progress.begin(_stream_step(approach))
        bundle, profile = models[approach.profile], settings.profiles[approach.profile]
        windows = stream_windows(bundle, plan, settings.fault, library, specimen=ASSEMBLY, device=settings.device)
        runs.append(run_approach(approach, bundle, windows, profile, seed=settings.seed, on_progress=progress.update))
    progress.begin(EXPLAIN)
    since = counted_from(runs)
    fault = readable(settings.fault)
    known = next((run.states for run in runs if len(run.states) > len(plan.classes)), plan.classes)
    return DemoStory(
        title=f"{plan.title}; {fault} sets in after {truth.onset or 0:.0f} s",
        facts=_facts(settings, truth, since, runs),
        states=known,
        condition=condition,
        stages=tuple(stage.describe(plan.conditions) for stage in plan.online),
        truth=truth,
        since=since,
        runs=runs,
        figures=[approach_figures(run, truth, since) for run in runs],
        explained=_explain_fault(plan, segments),
        next_steps=_next_steps(plan.name),
        commands=[
            f"cgsa demo {plan.name} --fault {settings.fault} --specimens {settings.specimens} --seed {settings.seed}"
        ],
    )


def _next_steps(shown: str) -> list[tuple[str, str]]:
    """Return commands to try after the demo of a machine, with what they do."""
    other = next(rig for rig in RIGS if rig != shown)
    return [
        ("cgsa serve --demo", "three simulated machines live, in a browser"),
        (f"cgsa demo {other}", f"the same with the {other}"),
        ("cgsa import data/ machine/", "recordings of your own machine"),
        ("cgsa train machine/ model/", "a model, and its accuracy where it was not trained"),
        ("cgsa watch model/ new.csv", "verdicts and alarms over time"),
    ]


def _training_step(profile: str) -> str:
    return f"Train, profile {profile}"


def _stream_step(approach: Approach) -> str:
    return f"Run the stream: {approach.title}"


def _facts(settings: DemoSettings, truth: StreamTruth, since: float, runs: list[ApproachRun]) -> list[str]:
    """Return how the figures came about."""
    plan, condition = settings.plan, settings.plan.conditions[0]
    values = truth.conditions[condition.name]
    beyond = float((values > condition.maximum + condition.tolerance).mean())
    trained = ", ".join(f"{one.describe(plan.conditions)} ({one.name})" for one in plan.offline)
    joined = ", ".join(f"{run.approach.profile} for {run.approach.name}" for run in runs)
    made = (
        f"Simulated recordings of a {plan.machine}, the scenario {plan.name} of the published benchmark: its physics, "
        f"its training and its stream, unchanged. Both models were trained on the same labelled recordings of "
        f"{settings.specimens} assemblies: {trained}. The stream is of assembly {ASSEMBLY}; other parts of its "
        f"recordings were in the training, and no sample is in both, which is checked."
    )
    given = (
        f"For {beyond:.0%} of the stream, the {condition.name} is beyond everything in the training. No approach gets "
        f"the {condition.name} or a label. The machine is known to be healthy at the start, as at every commissioning; "
        f"the recommended profile observes that start, and the others cannot use it."
    )
    counted = (
        f"What counts is what each approach shows every {truth.time[0]:g} s: the verdict of the last window that has "
        f"ended. Shares are counted from {since:.1f} s on, when the healthy start has been observed; alarms count from "
        f"the beginning, and delays from the onset. Verdicts are joined over time with the settings of a profile: "
        f"{joined}."
    )
    return [made, given, counted]


def _explain_fault(plan: Scenario, segments: list[Segment]) -> tuple[Explanation, ExplainedSpectra]:
    """Compare what follows the onset of the fault with what was healthy before."""
    machine = load_kinematics(plan.name) if plan.name in builtin_files("explain/machines") else None
    faulty = next(one.recording for one in segments if one.label)
    return explain_interval(faulty, [one.recording for one in segments if not one.label], machine)
