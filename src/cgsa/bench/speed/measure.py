"""Time engines in turn on the same stream, so that other load on the machine affects all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cgsa.bench.speed.limits import MatmulRates, measure_matmul_rates
from cgsa.bench.speed.literal import LiteralLoop
from cgsa.config import bind
from cgsa.data.recording import Recording
from cgsa.data.scenario import Condition
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.condition import ConditionDiscriminator, DiscriminatorConfig
from cgsa.nn.mlp import DiagnosisNet, NetworkConfig, build_seeded
from cgsa.online.cgsa import Cgsa, CgsaConfig

ENGINES: Mapping[str, Sequence[str]] = {"cpu": ("float32", "mixed"), "cuda": ("float32", "graph")}
"""Engines for each kind of device."""
LITERAL = "literal loop"
EVERYTHING: Mapping[str, float] = {"tau": 1e9, "min_confidence": 0.0}
"""All windows are accepted once the queue is full: the largest possible cost of a batch."""
RATE = 12_800.0
PAPER_BATCH, PAPER_CHANNELS, CLASSES = 256, 6, 4
WARM_UP = 2
BATCHES_PER_TURN = 5
"""Batches that an engine processes before it is the next one's turn."""
LAST_BATCHES = 8
VARIATIONS: Mapping[str, Sequence[int]] = {
    "batch": (32, 1024),
    "step": (64, 256),
    "channels": (1, 12),
    "batches": (100,),
}


@dataclass(frozen=True)
class Setting:
    """A stream and its windows."""

    batch: int = PAPER_BATCH
    step: int = 16
    channels: int = PAPER_CHANNELS
    batches: int = 12

    def bundle(self) -> ModelBundle:
        """Return the paper's network, untrained: the values of weights do not affect the speed."""
        spec = WindowSpec(step=self.step)
        config = DiscriminatorConfig()
        about = Manifest(
            classes=tuple(f"state {number}" for number in range(CLASSES)),
            channels=tuple(f"channel {number}" for number in range(self.channels)),
            units=("",) * self.channels,
            sample_rate=RATE,
            window=spec,
            conditions=(Condition("torque", "Nm", 0.0, 1.0, 0.1),),
            network=NetworkConfig(),
            discriminator=config,
        )
        network = build_seeded(0, lambda: DiagnosisNet(about.network, self.channels, spec.length, CLASSES))
        discriminator = build_seeded(0, lambda: ConditionDiscriminator(about.network.tap, config))
        return ModelBundle(
            about,
            network.eval().requires_grad_(requires_grad=False),
            discriminator.eval().requires_grad_(requires_grad=False),
        )

    def windows(self) -> Windows:
        """Return a stream of noise, in host memory."""
        spec = WindowSpec(step=self.step)
        samples = (self.batch * self.batches - 1) * self.step + spec.length
        signal = np.random.default_rng(0).standard_normal((self.channels, samples), dtype=np.float32)
        bundle = self.bundle().manifest
        recording = Recording(signal, RATE, bundle.channels, bundle.units, source="noise")
        return Windows([Segment(recording, 0, 0)], spec)


@dataclass(frozen=True)
class Speed:
    """Speed of one engine."""

    engine: str
    windows_per_second: float
    ratio: float
    """Speed relative to the literal loop in the same run."""
    share: float
    """Share of the speed that the measured rate of matrix products allows."""
    p50_ms: float
    p99_ms: float
    memory_mb: float
    """Memory beyond the source model."""


def measure(
    setting: Setting,
    *,
    turn: int = BATCHES_PER_TURN,
    device: torch.device | str = "cpu",
    report: Callable[[int, int], None] | None = None,
) -> list[Speed]:
    """Run the literal loop and all engines over one stream, ``turn`` batches each in turn."""
    bundle, windows = setting.bundle(), setting.windows()
    limits = measure_matmul_rates(device)
    names = (LITERAL, *ENGINES[torch.device(device).type])
    runners = {name: _Runner(name, bundle, windows, setting, device) for name in names}
    for begin in range(WARM_UP, setting.batches, turn):
        for runner in runners.values():
            runner.take_turn(range(begin, min(begin + turn, setting.batches)))
        if report:
            report(min(begin + turn, setting.batches), setting.batches)
    literal = runners[LITERAL].windows_per_second
    return [runner.speed(literal, limits) for runner in runners.values()]


class _Runner:
    """One engine and its position in the stream."""

    def __init__(
        self, name: str, bundle: ModelBundle, windows: Windows, setting: Setting, device: torch.device | str
    ) -> None:
        self.name, self.bundle, self.windows, self.setting, self.device = name, bundle, windows, setting, device
        self.seconds: list[float] = []
        """From the samples of a batch to its diagnoses on the host, per batch."""
        self.rates: list[float] = []
        """Windows per second if the next batch is sent while a GPU still works, per turn."""
        self.on_gpu = torch.device(device).type == "cuda"
        before = memory_in_use(device)
        if name == LITERAL:
            self.loop = LiteralLoop(bundle, bind(CgsaConfig, EVERYTHING, "literal loop"), device)
        else:
            self.method = Cgsa(bundle, {"engine": name, **EVERYTHING}, device=device)
        self.take_turn(range(WARM_UP))
        self.seconds.clear()
        self.rates.clear()
        self.memory = memory_in_use(device) - before

    def take_turn(self, batches: range) -> None:
        """Process some batches and time each of them."""
        if self.on_gpu:
            begun = time.perf_counter()
            torch.cat([self._step(number) for number in batches]).cpu()
            self.rates.append(self.setting.batch * len(batches) / (time.perf_counter() - begun))
        for number in batches:
            begun = time.perf_counter()
            self._step(number).cpu()
            self.seconds.append(time.perf_counter() - begun)

    def _step(self, number: int) -> Tensor:
        """Process a batch, and return its complete output in one tensor."""
        begin, end = number * self.setting.batch, (number + 1) * self.setting.batch
        if self.name == LITERAL:
            # An index, not a slice, so that each window is copied on its own.
            windows = self.windows.gather(torch.arange(begin, end))
            return self.loop.step(windows.to(self.device))[0]
        output = self.method.step(self.windows.gather(slice(begin, end)))
        parts = [output.probabilities, *(column[:, None] for column in output.evidence.values())]
        return torch.cat(parts if output.accepted is None else [*parts, output.accepted[:, None]], dim=1)

    @property
    def windows_per_second(self) -> float:
        """Windows diagnosed and used for adaptation per second."""
        return float(np.median(self.rates)) if self.rates else self.setting.batch / float(np.median(self.seconds))

    def speed(self, literal: float, limits: MatmulRates) -> Speed:
        """Return the speed, relative to the literal loop and to the limits of the machine."""
        rate = self.windows_per_second
        allowed = limits.seconds(self.bundle.network, self.setting.batch, mixed=self.name == "mixed")
        return Speed(
            engine=self.name,
            windows_per_second=rate,
            ratio=rate / literal,
            share=allowed * rate / self.setting.batch,
            p50_ms=1e3 * float(np.median(self.seconds)),
            p99_ms=1e3 * float(np.quantile(self.seconds, 0.99)),
            memory_mb=self.memory / 1e6,
        )


@dataclass(frozen=True)
class Growth:
    """Cost of a window for an engine if one property of the stream changes."""

    engine: str
    what: str
    value: int
    cost: float
    """Seconds per window, relative to the paper's setting in the same run."""


def grow(
    engine: str, changes: Mapping[str, Sequence[int]] = VARIATIONS, *, device: torch.device | str = "cpu"
) -> list[Growth]:
    """Return how the cost of a window depends on batch size, window step, channels and length of the stream."""
    found = []
    for what, values in changes.items():
        for value in values:
            costs = []
            for setting in (Setting(), replace(Setting(), **{what: value})):
                runner = _Runner(engine, setting.bundle(), setting.windows(), setting, device)
                runner.take_turn(range(WARM_UP, setting.batches))
                # The last batches count: a long stream has had time to slow down by then.
                costs.append(float(np.median(runner.seconds[-LAST_BATCHES:])) / setting.batch)
            found.append(Growth(engine, what, value, costs[1] / costs[0]))
    return found


def memory_in_use(device: torch.device | str) -> float:
    """Return the memory in use in bytes: of the process, or on the GPU."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.memory_allocated(device))
    pages = Path("/proc/self/statm")
    return float(pages.read_text().split()[1]) * 4096 if pages.exists() else float("nan")
