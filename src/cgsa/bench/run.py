"""Carrying out a plan: resumable at any point, one record a meeting, one tidy row a stage.

Every finished job is one file in the folder of the run, written in one step: a
bundle for a training, a record for a meeting. What is there is not done again;
a job that was killed leaves nothing. A folder of other settings is refused,
never mixed in.
"""

from __future__ import annotations

import csv
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path

import torch

import cgsa
from cgsa.bench.details import details
from cgsa.bench.executors import JobExecutor, ProcessExecutor
from cgsa.bench.plan import StreamRun, TrainingJob, trainings_of
from cgsa.bench.records import WHOLE_STREAM, Row, RunRecord
from cgsa.bench.site import Site
from cgsa.data.library import open_library
from cgsa.data.scenario import Scenario, check_no_leak
from cgsa.data.windows import Windows, WindowSpec
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.diagnosis.trust import chances
from cgsa.errors import ConfigError
from cgsa.files import replacing
from cgsa.metrics.memory import PeakMemory
from cgsa.metrics.stream import score, score_decisions
from cgsa.nn.bundle import MANIFEST, ModelBundle
from cgsa.nn.volume import count_volume
from cgsa.offline.checkpoint import remove_checkpoint
from cgsa.offline.run import Progress
from cgsa.online import METHODS
from cgsa.profile import Profile
from cgsa.rigs.simulation import SimulationJob, scenario_jobs
from cgsa.workflow import create_method, train

PROGRESS = "progress"
"""Name of the file in which a training tells how far it is."""
PROGRESS_SECONDS = 1.0
"""How often a training tells how far it is."""
KEPT_WINDOWS = 4
"""Streams and training sets that a worker keeps: neighbouring jobs share them."""


@dataclass(frozen=True)
class PlanProgress:
    """How far a plan is."""

    trained: float
    """Source models trained; those in the making count in part."""
    trainings: int
    met: int
    """Meetings that are over."""
    meetings: int
    note: str = ""
    """The job that ended last."""


Hearer = Callable[[PlanProgress], None]
Chosen = Callable[[StreamRun], bool]


def run(
    site: Site, *, engine: JobExecutor | None = None, only: Chosen | None = None, hear: Hearer | None = None
) -> list[RunRecord]:
    """Carry out a plan, or what is left of it, and return all its records.

    Parameters
    ----------
    site
        Plan, folder and device.
    engine
        Who does the jobs; one process where none is given.
    only
        Which meetings to do now; all where none is given.
    hear
        Called whenever a job ends and about every second in between.
    """
    site.check()
    doer = engine or ProcessExecutor(gpu=site.device != "cpu")
    wanted = [meeting for meeting in site.plan.meetings() if only is None or only(meeting)]
    meetings = [meeting for meeting in wanted if not site.record(meeting).exists()]
    trainings = [job for job in trainings_of(meetings) if not (site.model(job) / MANIFEST).exists()]
    orders = _open_orders(site, (meeting.scenario for meeting in meetings))
    in_all = len(trainings_of(wanted))
    trained, met = in_all - len(trainings), len(wanted) - len(meetings)
    tell = hear or (lambda _: None)
    tell(PlanProgress(trained, in_all, met, len(wanted)))
    with doer:
        for key in doer.work(do_order, orders, whole_device=False):
            tell(PlanProgress(trained, in_all, met, len(wanted), f"simulated {key}" if key else ""))
        note = ""
        for key in doer.work(partial(do_trainings, site), _groups(trainings, site.together), whole_device=True):
            note = key or note
            tell(PlanProgress(trained + _trained(site, trainings), in_all, met, len(wanted), note))
        for key in doer.work(partial(do_meeting, site), meetings, whole_device=False):
            met, note = (met + 1, key) if key else (met, note)
            tell(PlanProgress(in_all, in_all, met, len(wanted), note))
    return collect(site)


def do_order(order: SimulationJob) -> str:
    """Simulate one run."""
    return order.execute().name


def do_trainings(site: Site, trainings: Sequence[TrainingJob]) -> str:
    """Train and save source models of one scenario and objective."""
    _set_up(site)
    first = trainings[0]
    scenario, profile = Scenario.load(first.scenario), site.plan.profile_of(first.scenario, first.profile)
    folders = [site.checkpoint(training) for training in trainings]
    bundles = train(
        scenario,
        profile,
        _source_windows(site, first.scenario, profile),
        objective=first.objective,
        seeds=[site.plan.job_seed(training) for training in trainings],
        checkpoints=folders,
        report=_progress_writer(folders),
    )
    for training, bundle, folder in zip(trainings, bundles, folders, strict=True):
        bundle.save(site.model(training))
        (folder / PROGRESS).unlink(missing_ok=True)
        remove_checkpoint(folder)
    return first.key


def _exact(method: str) -> dict[str, object]:
    """Return the settings with which a method that has several engines takes its reference.

    A comparison counts passes through layers, and gives the same bits when it is done again.
    """
    return {"engine": "float32"} if any(one.name == "engine" for one in fields(METHODS[method].Config)) else {}


def do_meeting(site: Site, meeting: StreamRun) -> str:
    """Let one method meet one stream and write its record."""
    meet_once(site, meeting).save(site.record(meeting))
    return meeting.key


def meet_once(site: Site, meeting: StreamRun) -> RunRecord:
    """Return the record of one meeting; done again alone, all but what was measured are the same bits."""
    _set_up(site)
    entry, scenario = meeting.entry, Scenario.load(meeting.scenario)
    profile = site.plan.profile_of(meeting.scenario, entry.profile)
    windows = _stream_windows(site, meeting, profile)
    source = _source_windows(site, meeting.scenario, profile) if "source_data" in METHODS[entry.method].needs else None
    seed, batch_size = site.plan.job_seed(meeting), entry.batch_size or profile.stream.batch_size
    memory = PeakMemory(site.device)
    bundle = ModelBundle.load(site.model(meeting.training), site.device)
    check_no_leak(bundle.trained_on(), windows.intervals)
    begin = time.perf_counter()
    settings = {**_exact(entry.method), **entry.settings}
    method = create_method(
        bundle, entry.method, profile, settings=settings, seed=seed, device=site.device, source=source
    )
    ready = time.perf_counter()
    # What a method does before the stream is not a cost of its batches; it is told apart.
    memory.begin()
    with count_volume() as volume:
        trace = run_stream(Diagnoser(method), windows, batch_size=batch_size)
    seconds = time.perf_counter() - ready
    figures = score(trace)
    told = decide_afterwards(trace, DecisionMaker(profile.decide, bundle.manifest))
    decided = score_decisions(
        trace,
        told.state.numpy(),
        told.alarm_state.numpy(),
        chances(torch.from_numpy(trace.probabilities), told).numpy(),
        classes=len(scenario.classes),
        seconds_per_window=windows.spec.step / windows.sample_rate,
    )
    common: dict[str, object] = {
        "plan": site.plan.name,
        "scenario": scenario.name,
        "fault": meeting.fault,
        "entry": entry.name,
        "objective": entry.objective,
        "method": entry.method,
        "settings": json.dumps(dict(entry.settings)),
        "batch_size": batch_size,
        "needs": ", ".join(sorted(method.needs)),
        "profile": entry.profile or site.plan.profile,
        "watched": site.plan.watched,
        "trial": meeting.trial,
        "seed": seed,
        "training_seed": bundle.manifest.seed,
    }
    about: dict[str, object] = {
        "device": site.device,
        "threads": site.threads,
        "tf32": site.tf32,
        "cgsa": cgsa.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    stages = [stage.name for stage in scenario.online]
    by_stage = {
        "accuracy": figures.stage_accuracy,
        "ece": figures.stage_ece,
        "verdict_accuracy": decided.stage_verdict,
        "alarm_accuracy": decided.stage_alarm,
        "estimated_accuracy": decided.stage_estimate,
    }
    rows: list[Row] = [
        {**common, "stage": name, **{key: values[place] for key, values in by_stage.items()}, **about}
        for place, name in enumerate(stages)
    ]
    whole = {
        "stage": WHOLE_STREAM,
        "accuracy": figures.average_accuracy,
        "ece": figures.ece,
        "verdict_accuracy": decided.verdict,
        "alarm_accuracy": decided.alarm,
        "delay": decided.delay,
        "named_delay": decided.named_delay,
        "false_alarms": decided.false_alarms,
        "healthy_seconds": decided.healthy_seconds,
        "unknown_share": decided.unknown,
        "estimated_accuracy": decided.estimate,
        "windows": figures.windows,
        "batches": figures.batches,
        "acceptance_rate": figures.acceptance_rate,
        "accepted_label_accuracy": figures.accepted_label_accuracy,
        "rejected_label_accuracy": figures.rejected_label_accuracy,
        "forward_volume": volume.forward / figures.batches,
        "backward_volume": volume.backward / figures.batches,
        "setup_seconds": ready - begin,
        "seconds": seconds,
        "windows_per_second": figures.windows / seconds,
        "peak_megabytes": memory.megabytes(),
    }
    return RunRecord((*rows, {**common, **whole, **about}), details(trace, stages))


def collect(site: Site) -> list[RunRecord]:
    """Read the record of every finished meeting, in the order of the plan, and write their rows as one CSV."""
    records = [RunRecord.load(site.record(job)) for job in site.plan.meetings() if site.record(job).exists()]
    rows = [row for one in records for row in one.rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(site.own / "rows.csv", ConfigError) as fresh, fresh.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return records


def _set_up(site: Site) -> None:
    torch.set_num_threads(site.threads)
    torch.set_float32_matmul_precision("high" if site.tf32 else "highest")


def _open_orders(site: Site, scenarios: Iterable[str]) -> list[SimulationJob]:
    """Return the runs to simulate: none where there are recordings."""
    if site.data is not None:
        return []
    specimens = max(site.plan.specimens, site.plan.watched)
    plans = [Scenario.load(name) for name in dict.fromkeys(scenarios)]
    orders = [order for plan in plans for order in scenario_jobs(plan, site.data_of(plan), specimens)]
    return [order for order in orders if not order.path.exists()]


def _groups(trainings: Sequence[TrainingJob], together: int) -> list[list[TrainingJob]]:
    """Return trainings in groups that differ in the trial alone, each at most ``together`` large."""
    alike: dict[TrainingJob, list[TrainingJob]] = {}
    for training in trainings:
        alike.setdefault(replace(training, trial=0), []).append(training)
    return [group[place : place + together] for group in alike.values() for place in range(0, len(group), together)]


def _progress_writer(folders: Sequence[Path]) -> Callable[[Progress], None]:
    """Return what writes now and then how far the trainings in these folders are."""
    last = 0.0

    def write(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last < PROGRESS_SECONDS:
            return
        last = time.monotonic()
        share = (progress.epoch + progress.step / progress.steps) / progress.epochs
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROGRESS).write_text(f"{share:.4f}", encoding="utf-8")

    return write


def _trained(site: Site, trainings: Sequence[TrainingJob]) -> float:
    """Return how many trainings are done, those under way in part."""
    done = 0.0
    for training in trainings:
        if (site.model(training) / MANIFEST).exists():
            done += 1
        elif (path := site.checkpoint(training) / PROGRESS).exists():
            # It may be gone or half written by now; the next look will find what comes after it.
            with suppress(OSError, ValueError):
                done += float(path.read_text(encoding="utf-8"))
    return done


@dataclass(frozen=True)
class _Cut:
    """Which windows to cut: all that they depend on, so that a worker can keep them."""

    site_data: Path
    scenario: str
    train_on: int | None
    """Assemblies to train on; none means all that are there."""
    spec: WindowSpec
    device: str
    fault: str | None
    """The fault of the stream; none means training windows."""
    specimen: int


def _stream_windows(site: Site, meeting: StreamRun, profile: Profile) -> Windows:
    return _windows(_what(site, meeting.scenario, profile.window, meeting.fault))


def _source_windows(site: Site, scenario: str, profile: Profile) -> Windows:
    return _windows(_what(site, scenario, WindowSpec(profile.window.length, profile.train.step), None))


def _what(site: Site, scenario: str, spec: WindowSpec, fault: str | None) -> _Cut:
    train_on = site.plan.specimens if site.data is None else None
    data = site.data_of(Scenario.load(scenario))
    return _Cut(data, scenario, train_on, spec, site.device, fault, site.plan.watched)


@lru_cache(maxsize=KEPT_WINDOWS)
def _windows(cut: _Cut) -> Windows:
    scenario = Scenario.load(cut.scenario)
    train_on = None if cut.train_on is None else range(1, cut.train_on + 1)
    library = open_library(cut.site_data, scenario, train_on=train_on)
    if cut.fault is None:
        segments = scenario.training_segments(library)
    else:
        segments = scenario.stream_segments(library, cut.fault, specimen=cut.specimen)
    return Windows(segments, cut.spec, conditions=scenario.condition_names, device=cut.device)
