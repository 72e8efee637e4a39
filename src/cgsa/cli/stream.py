"""``cgsa stream``: watch recordings with a trained model and tell what it sees."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cgsa.cli.console import AsJson, Device, Profile, Seed, Set, out, pick_device, progress_bar, talk
from cgsa.errors import DataError

if TYPE_CHECKING:
    from cgsa.data.recording import Recording
    from cgsa.events import Diagnosis
    from cgsa.ledger.rows import LedgerRecorder
    from cgsa.nn.bundle import ModelBundle
    from cgsa.online.base import OnlineMethod


def stream(
    bundle: Annotated[Path, typer.Argument(help="A model that [b]cgsa train[/b] wrote.")],
    recordings: Annotated[list[Path], typer.Argument(help="Recording files, in the order in which they happened.")],
    method: Annotated[
        str | None, typer.Option(help="How to adapt; see [b]cgsa methods[/b]; default: the profile's.")
    ] = None,
    profile: Profile = "paper",
    changes: Set = None,
    seed: Seed = 0,
    device: Device = "auto",
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Folder for one row a window: what was seen, and why it was learnt from; see [b]cgsa ledger[/b]."
        ),
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Diagnose recordings window by window, adapting without labels, and print what is seen over time.

    One line is printed for every stretch with one verdict, which is joined over
    time; [b]--json[/b] prints one event a batch. The model goes on adapting from file to file. Labels in
    the files are never looked at.
    """
    from cgsa.config import parse_assignments
    from cgsa.data.readers import read_recording
    from cgsa.data.windows import Segment, Windows
    from cgsa.decide.decision import DecisionMaker
    from cgsa.diagnosis.diagnoser import diagnose
    from cgsa.diagnosis.trust import FrozenModel
    from cgsa.nn.bundle import ModelBundle
    from cgsa.online import METHODS
    from cgsa.profile import Profile as Settings

    where = pick_device(device)
    model = ModelBundle.load(bundle, where)
    settings = Settings.load(profile, parse_assignments(changes or []))
    method = method or settings.default_method
    watcher = METHODS[method](model, settings.method_settings(method), seed=seed, device=where)
    decision = DecisionMaker(settings.decide, model.manifest)
    twin = FrozenModel(model, device=where, labels=watcher.source_labels)
    stretches = _Stretches(model.manifest.classes)
    batch_size = settings.stream.batch_size
    with progress_bar() as bar, _ledger(ledger, watcher, method, bundle, batch_size) as bookkeeper:
        for path in recordings:
            recording = _fitting(read_recording(path), model)
            windows = Windows([Segment(recording, 0, 0)], model.manifest.window, device=where)
            task = bar.add_task(path.name, total=len(windows), note="")
            for event in diagnose(
                watcher,
                windows,
                source=str(path),
                batch_size=batch_size,
                ledger=bookkeeper,
                decision=decision,
                twin=twin,
            ):
                bar.update(task, advance=event.windows, note=event.state or event.verdict)
                if json:
                    sys.stdout.write(event.to_json() + "\n")
                else:
                    stretches.add(event)
    if not json:
        out.print(stretches.table(method))
        out.print(stretches.trust(), soft_wrap=True)


@contextmanager
def _ledger(
    folder: Path | None, watcher: OnlineMethod, method: str, bundle: Path, batch_size: int
) -> Iterator[LedgerRecorder | None]:
    """Keep a ledger while the stream lasts, if one is asked for."""
    if folder is None:
        yield None
        return
    import json
    from dataclasses import replace

    from cgsa import __version__
    from cgsa.ledger.files import LedgerWriter
    from cgsa.ledger.rows import LedgerRecorder, describe
    from cgsa.nn.bundle import MANIFEST

    # The bundle was checked against this hash when it was loaded.
    sha256 = json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))["sha256"]
    about = describe(watcher, method, batch_size=batch_size)
    with LedgerWriter(folder, replace(about, bundle=str(bundle), sha256=sha256, cgsa=__version__)) as writer:
        yield LedgerRecorder(watcher, writer.add)


def _fitting(recording: Recording, model: ModelBundle) -> Recording:
    """Return the recording with the channels of the model, or say why it does not fit."""
    about = model.manifest
    if recording.sample_rate != about.sample_rate:
        raise DataError(
            f"{recording.source}: {recording.sample_rate:g} Hz; the model was trained at {about.sample_rate:g} Hz"
        )
    for note in recording.notes:
        talk.print(f"[yellow]note:[/] {recording.source}: {note}", soft_wrap=True)
    begin, end = recording.offset, recording.offset + recording.samples
    if any(known == recording.source and max(begin, a) < min(end, b) for known, a, b in model.trained_on()):
        talk.print(f"[yellow]note:[/] the model was trained on parts of {recording.source}", soft_wrap=True)
    chosen = recording.select(about.channels).require_finite()
    wrong = [name for name, a, b in zip(about.channels, chosen.units, about.units, strict=True) if a != b]
    if wrong:
        raise DataError(f"{recording.source}: units of {', '.join(wrong)} differ from those of the training")
    return chosen


class _Stretches:
    """Batches in a row with one verdict, joined into one line."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self._classes = classes
        self._events: list[Diagnosis] = []

    def add(self, event: Diagnosis) -> None:
        self._events.append(event)

    def table(self, method: str) -> Table:
        table = Table(title=f"What {method} sees")
        for name in ("recording", "from", "to", "verdict", "alarm", "agree", "learnt"):
            table.add_column(name, justify="left" if name in {"recording", "verdict", "alarm"} else "right")
        for events in self._joined():
            windows = sum(event.windows for event in events)
            state, alarm = self._told(events[0])
            agree = sum(event.probabilities.get(state, 0.0) * event.windows for event in events) / windows
            learnt = sum(event.accepted or 0 for event in events) / windows
            style = "green" if state == self._classes[0] else "red"
            table.add_row(
                Path(events[0].source).name,
                f"{events[0].begin:.1f} s",
                f"{events[-1].end:.1f} s",
                f"[{style}]{state}[/]{self._likeness(state, events)}",
                alarm or "",
                f"{agree:.2f}",
                "never" if events[0].accepted is None else f"{learnt:.0%}",
            )
        return table

    def _likeness(self, state: str, events: list[Diagnosis]) -> str:
        """Return which fault an unknown state is like: it may be that fault in a strange machine."""
        named = Counter(event.verdict for event in events).most_common(1)[0][0]
        return f", like {named}" if state not in self._classes and named != self._classes[0] else ""

    def trust(self) -> str:
        """Return in one line how far to trust all that was seen."""

        def mean(name: str) -> float | None:
            told = [(getattr(event.trust, name), event.windows) for event in self._events if event.trust]
            known = [(value, windows) for value, windows in told if value is not None]
            total = sum(windows for _, windows in known)
            return sum(value * windows for value, windows in known) / total if total else None

        agreement, coverage, accuracy = (mean(name) for name in ("agreement", "coverage", "accuracy"))
        words = [
            "" if agreement is None else f"the frozen model says the same of {agreement:.0%} of the windows",
            "" if coverage is None else f"{coverage:.0%} lie where training was",
            "" if accuracy is None else f"about {accuracy:.0%} should be right",
        ]
        return "trust: " + ", ".join(filter(None, words))

    @staticmethod
    def _told(event: Diagnosis) -> tuple[str, str | None]:
        return event.state or event.verdict, event.alarm

    def _joined(self) -> Iterator[list[Diagnosis]]:
        row: list[Diagnosis] = []
        for event in self._events:
            if row and (self._told(row[-1]), row[-1].source) != (self._told(event), event.source):
                yield row
                row = []
            row.append(event)
        if row:
            yield row
