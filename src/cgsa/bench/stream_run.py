"""One stream run: a method processes a stream, and its scores and costs become a record."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import fields

import torch

import cgsa
from cgsa.bench.plan import StreamRun
from cgsa.bench.records import WHOLE_STREAM, Row, RunRecord
from cgsa.bench.stream_details import stream_details
from cgsa.bench.workspace import PlanWorkspace
from cgsa.data.scenario import Scenario, check_no_leak
from cgsa.data.windows import Windows
from cgsa.decide.decision import DecisionMaker
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import decide_afterwards, run_stream
from cgsa.diagnosis.trust import SourceAgreement, chances
from cgsa.metrics.memory import PeakMemory
from cgsa.metrics.stream import DecisionScore, StreamScore, StreamTrace, score, score_decisions
from cgsa.nn.bundle import ModelBundle
from cgsa.nn.volume import count_volume
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.evidence import AGREES_WITH_SOURCE
from cgsa.profile import Profile
from cgsa.workflow import create_method


def measure_stream_run(workspace: PlanWorkspace, run: StreamRun, windows: Windows, source: Windows | None) -> RunRecord:
    """Run a method on the windows of a stream and return its record.

    ``source`` holds the training windows, for methods that need them.
    """
    entry, scenario = run.entry, Scenario.load(run.scenario)
    profile = workspace.plan.profile_of(run.scenario, entry.profile)
    seed, batch_size = workspace.plan.job_seed(run), entry.batch_size or profile.stream.batch_size
    device = entry.device or workspace.device
    memory = PeakMemory(device)
    bundle = ModelBundle.load(workspace.model_folder(run.training), device)
    check_no_leak(bundle.trained_on(), windows.intervals)
    started = time.perf_counter()
    method = create_method(
        bundle,
        entry.method,
        profile,
        settings={**_reference_engine(entry.method), **entry.settings},
        seed=seed,
        device=device,
        source=source,
        healthy_start=True,
    )
    ready = time.perf_counter()
    # The work of a method before the stream is not a cost of its batches; it has a column of its own.
    memory.begin()
    with count_volume() as volume:
        trace = run_stream(Diagnoser(method), windows, batch_size=batch_size)
    seconds = time.perf_counter() - ready
    figures, decided = score(trace), _score_decisions(trace, bundle, profile, windows)
    common = {
        "plan": workspace.plan.name,
        "scenario": scenario.name,
        "fault": run.fault,
        "entry": entry.name,
        "objective": entry.objective,
        "method": entry.method,
        "settings": json.dumps(dict(entry.settings)),
        "batch_size": batch_size,
        "needs": ", ".join(sorted(method.needs)),
        "profile": entry.profile or workspace.plan.profile,
        "watched": workspace.plan.watched,
        "trial": run.trial,
        "seed": seed,
        "training_seed": bundle.manifest.seed,
    }
    costs = {
        "forward_volume": volume.forward / figures.batches,
        "backward_volume": volume.backward / figures.batches,
        "setup_seconds": ready - started,
        "seconds": seconds,
        "windows_per_second": figures.windows / seconds,
        "peak_megabytes": memory.megabytes(),
    }
    environment = {
        "device": device,
        "threads": workspace.threads,
        "tf32": workspace.tf32,
        "cgsa": cgsa.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    stages = [stage.name for stage in scenario.online]
    changed = {"changed_share": _changed_share(method, trace, windows)}
    whole = {**common, **_stream_columns(figures, decided), **changed, **costs, **environment}
    rows = [{**common, **columns, **environment} for columns in _stage_columns(stages, figures, decided)]
    return RunRecord((*rows, whole), stream_details(trace, stages))


def _changed_share(method: OnlineMethod, trace: StreamTrace, windows: Windows) -> float:
    """Return the share of windows to which a method gives another class than the frozen source model."""
    agreement = SourceAgreement(method.bundle, device=method.device, labels=method.source_labels)
    agreed = 0
    for where, x in windows.batches(trace.batch_size):
        evidence = {name: torch.from_numpy(values[where]) for name, values in trace.evidence.items()}
        output = agreement.add_to(StepOutput(torch.from_numpy(trace.probabilities[where]), evidence=evidence), x)
        agreed += int(output.evidence[AGREES_WITH_SOURCE].sum())
    return 1.0 - agreed / len(windows)


def _reference_engine(method: str) -> dict[str, object]:
    """Return the settings that select the reference engine of a method that has several.

    A comparison counts passes through layers and must be repeatable bit by bit.
    """
    has_engines = any(setting.name == "engine" for setting in fields(METHODS[method].Config))
    return {"engine": "float32"} if has_engines else {}


def _score_decisions(trace: StreamTrace, bundle: ModelBundle, profile: Profile, windows: Windows) -> DecisionScore:
    """Score the verdicts and alarms that the decision stage derives from the outputs of a method."""
    decided = decide_afterwards(trace, DecisionMaker(profile.decide, bundle.manifest))
    return score_decisions(
        trace,
        decided.state.numpy(),
        decided.alarm_state.numpy(),
        chances(torch.from_numpy(trace.probabilities), decided).numpy(),
        classes=len(bundle.manifest.classes),
        seconds_per_window=windows.spec.step / windows.sample_rate,
    )


def _stage_columns(stages: Sequence[str], figures: StreamScore, decided: DecisionScore) -> list[Row]:
    """Return the columns of one row per stage."""
    columns: dict[str, Sequence[object]] = {
        "stage": stages,
        "accuracy": figures.stage_accuracy,
        "ece": figures.stage_ece,
        "verdict_accuracy": decided.stage_verdict,
        "alarm_accuracy": decided.stage_alarm,
        "estimated_accuracy": decided.stage_estimate,
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _stream_columns(figures: StreamScore, decided: DecisionScore) -> Row:
    """Return the columns of the row for the whole stream."""
    return {
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
    }
