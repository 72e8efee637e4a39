"""Events: what a running diagnosis tells the world, one line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Trust:
    """How far to trust what was said of a batch; no label is needed for it."""

    agreement: float | None
    """Share of the windows of which the frozen source model says the same; none where nobody asked it."""
    coverage: float | None
    """Share that lies where training was; none where the model does not know where that is."""
    accuracy: float | None
    """Estimated share that is right."""
    note: str
    """Whether the method learns, in words."""


@dataclass(frozen=True)
class Diagnosis:
    """What was seen in one batch of windows."""

    kind: ClassVar[str] = "diagnosis"
    version: ClassVar[int] = 1

    batch: int
    """Number of the batch in the stream, from 0."""
    source: str
    """Recording that the batch ends in."""
    begin: float
    """Second at which its first window begins, counted along the stream."""
    end: float
    """Second at which its last window ends."""
    windows: int
    verdict: str
    """The class with the highest mean probability."""
    probabilities: dict[str, float]
    """Mean probability of each class."""
    accepted: int | None
    """Windows that were learnt from; none where the method never learns."""
    deviation: float | None
    """Mean deviation of the residual response; none while the queue warms up or where there is none."""
    state: str | None = None
    """What the windows say at the end of the batch, joined over time; none where nothing joins them."""
    alarm: str | None = None
    """The fault that an alarm tells of at the end of the batch; none where no alarm stands."""
    trust: Trust | None = None
    """None where nothing joins the windows."""

    def to_json(self) -> str:
        """Return the event as one line."""
        return json.dumps({"event": self.kind, "version": self.version, **asdict(self)})
