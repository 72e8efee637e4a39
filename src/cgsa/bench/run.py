"""Carrying out a plan: in several processes, resumable at any point, one tidy row a stage.

Every finished job is one file in the folder of the run, written in one step: a
bundle for a training, a JSON file with its rows for a meeting. What is there is
not done again; a job that was killed leaves nothing. A file of other settings
is refused, never mixed in.
"""

from __future__ import annotations

import csv
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

import cgsa
from cgsa.bench.plan import Meeting, Plan, Training
from cgsa.config import as_table
from cgsa.data.library import FolderLibrary
from cgsa.data.scenario import Library, Scenario
from cgsa.data.simulation import carry_out_all, scenario_orders
from cgsa.errors import ConfigError
from cgsa.files import replacing
from cgsa.live.engine import record
from cgsa.metrics.cost import count_volume
from cgsa.metrics.stream import score
from cgsa.nn.bundle import MANIFEST, ModelBundle
from cgsa.offline.checkpoint import remove_checkpoint
from cgsa.online import METHODS
from cgsa.profiles import Profile
from cgsa.workflow import start_method, stream_windows, train, training_windows

WHOLE_STREAM = "all"
"""Stage of the row that holds the average over the stages and the ECE over the stream."""


@dataclass(frozen=True)
class Site:
    """Where a plan is carried out, and with what."""

    plan: Plan
    folder: Path
    """Bundles, rows and, without ``data``, simulated recordings."""
    data: Path | None = None
    """Folder with recordings, one subfolder a scenario; none means simulate."""
    device: str = "cpu"
    threads: int = 1
    """Threads a job; another number gives other bits, so it is recorded."""

    def profile(self) -> Profile:
        """Return the profile of the plan."""
        return Profile.load(self.plan.profile)

    def library(self, scenario: Scenario) -> Library:
        """Return the recordings of a scenario."""
        return FolderLibrary((self.data or self.folder / "data") / scenario.name)

    def bundle(self, training: Training) -> Path:
        """Return where the source model of a training goes."""
        return self.folder / "bundles" / training.key

    def rows(self, meeting: Meeting) -> Path:
        """Return where the rows of a meeting go."""
        return self.folder / "rows" / f"{meeting.key}.json"


Done = Callable[[str, int, int], None]
"""Hears the name of each finished job, how many are done, and of how many."""


def run(site: Site, *, workers: int = 1, done: Done | None = None) -> list[dict[str, object]]:
    """Carry out a plan, or what is left of it, and return all its rows."""
    _check_site(site)
    if site.data is None:
        for name in site.plan.scenarios:
            scenario = Scenario.load(name)
            orders = scenario_orders(scenario, site.folder / "data" / scenario.name, site.plan.specimens)
            carry_out_all([order for order in orders if not order.path.exists()], workers)
    trainings, meetings = site.plan.trainings(), site.plan.meetings()
    open_trainings = [job for job in trainings if not (site.bundle(job) / MANIFEST).exists()]
    open_meetings = [job for job in meetings if not site.rows(job).exists()]
    total = len(trainings) + len(meetings)
    count = total - len(open_trainings) - len(open_meetings)
    tell = done or (lambda *_: None)
    tell("", count, total)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(do_training, site, job) for job in open_trainings]
        for key in _finish(pool, waiting):
            tell(key, count := count + 1, total)
        waiting = [pool.submit(do_meeting, site, job) for job in open_meetings]
        for key in _finish(pool, waiting):
            tell(key, count := count + 1, total)
    return collect(site)


def do_training(site: Site, training: Training) -> str:
    """Train and save one source model."""
    torch.set_num_threads(site.threads)
    scenario, profile = Scenario.load(training.scenario), site.profile()
    windows = training_windows(scenario, profile, site.library(scenario), site.device)
    checkpoint = site.folder / "training" / training.key
    seed = site.plan.job_seed(training)
    bundle = train(scenario, profile, windows, objective=training.objective, seed=seed, checkpoint=checkpoint)
    bundle.save(site.bundle(training))
    remove_checkpoint(checkpoint)
    return training.key


def do_meeting(site: Site, meeting: Meeting) -> str:
    """Let one method meet one stream and write its rows."""
    torch.set_num_threads(site.threads)
    rows = meet_once(site, meeting)
    with replacing(site.rows(meeting), ConfigError) as fresh:
        fresh.write_text(json.dumps(rows), encoding="utf-8")
    return meeting.key


def meet_once(site: Site, meeting: Meeting) -> list[dict[str, object]]:
    """Return the rows of one meeting; done again alone, all but the measured times are the same bits."""
    scenario, profile = Scenario.load(meeting.scenario), site.profile()
    library = site.library(scenario)
    bundle = ModelBundle.load(site.bundle(meeting.training), site.device)
    windows = stream_windows(bundle, scenario, meeting.fault, library, device=site.device)
    needs = METHODS[meeting.entry.method].needs
    source = training_windows(scenario, profile, library, site.device) if "source_data" in needs else None
    seed = site.plan.job_seed(meeting)
    begin = time.perf_counter()
    method = start_method(
        bundle,
        meeting.entry.method,
        profile,
        settings=meeting.entry.settings,
        seed=seed,
        device=site.device,
        source=source,
    )
    ready = time.perf_counter()
    # What a method does before the stream is not a cost of its batches; it is told apart.
    with count_volume() as volume:
        trace = record(method, windows, batch_size=profile.stream.batch_size)
    seconds = time.perf_counter() - ready
    figures = score(trace)
    common: dict[str, object] = {
        "plan": site.plan.name,
        "scenario": scenario.name,
        "fault": meeting.fault,
        "entry": meeting.entry.name,
        "objective": meeting.entry.objective,
        "method": meeting.entry.method,
        "settings": json.dumps(dict(meeting.entry.settings)),
        "needs": ", ".join(sorted(needs)),
        "profile": site.plan.profile,
        "trial": meeting.trial,
        "seed": seed,
        "training_seed": bundle.manifest.seed,
    }
    cost: dict[str, object] = {
        "batches": figures.batches,
        "setup_seconds": ready - begin,
        "seconds": seconds,
        "windows_per_second": figures.windows / seconds,
        "forward_volume": volume.forward / figures.batches,
        "backward_volume": volume.backward / figures.batches,
    }
    about: dict[str, object] = {
        "device": site.device,
        "threads": site.threads,
        "cgsa": cgsa.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    stages = [stage.name for stage in scenario.online]
    by_stage = zip(stages, figures.stage_accuracy, figures.stage_ece, strict=True)
    rows = [{**common, "stage": name, "accuracy": accuracy, "ece": ece, **about} for name, accuracy, ece in by_stage]
    whole = {
        "stage": WHOLE_STREAM,
        "accuracy": figures.average_accuracy,
        "ece": figures.ece,
        "windows": figures.windows,
        "acceptance_rate": figures.acceptance_rate,
        "accepted_label_accuracy": figures.accepted_label_accuracy,
        "rejected_label_accuracy": figures.rejected_label_accuracy,
    }
    return [*rows, {**common, **whole, **cost, **about}]


def collect(site: Site) -> list[dict[str, object]]:
    """Read the rows of every finished meeting, in the order of the plan, and write them as one CSV."""
    rows = [
        row for job in site.plan.meetings() if site.rows(job).exists() for row in json.loads(site.rows(job).read_text())
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(site.folder / "rows.csv", ConfigError) as fresh, fresh.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return rows


def _finish(pool: ProcessPoolExecutor, jobs: Sequence[Future[str]]) -> Iterable[str]:
    """Yield each job's name as it ends; where one fails, start no other."""
    try:
        for job in as_completed(jobs):
            yield job.result()
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise


def _check_site(site: Site) -> None:
    """Refuse a folder that holds a run of other settings; only the number of trials may grow."""
    plan = {name: value for name, value in asdict(site.plan).items() if name != "trials"}
    settings = {"plan": plan, "profile": as_table(site.profile()), "threads": site.threads, "device": site.device}
    path = site.folder / "plan.json"
    if not path.exists():
        with replacing(path, ConfigError) as fresh:
            fresh.write_text(json.dumps(settings, indent=1), encoding="utf-8")
        return
    before, now = json.loads(path.read_text()), json.loads(json.dumps(settings))
    different = sorted(key for key in now if before.get(key) != now[key])
    if different:
        raise ConfigError(f"{site.folder}: holds a run with another {', '.join(different)}; choose another folder")
