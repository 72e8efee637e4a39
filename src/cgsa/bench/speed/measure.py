"""Time engines side by side on the same stream, so that a noisy machine disturbs all alike."""

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
"""What there is for a kind of device."""
LITERAL = "literal loop"
EVERYTHING: Mapping[str, float] = {"tau": 1e9, "min_confidence": 0.0}
"""All windows are learnt from once the queue is full: the most that a batch can cost."""
RATE = 12_800.0
PAPER_BATCH, PAPER_CHANNELS, CLASSES = 256, 6, 4
WARM_UP = 2
TURN = 5
"""Batches that an engine meets before the next has its turn."""
LAST = 8
GROWN: Mapping[str, Sequence[int]] = {
    "batch": (32, 1024),
    "step": (64, 256),
    "channels": (1, 12),
    "batches": (100,),
}


@dataclass(frozen=True)
class Setting:
    """What a stream is like."""

    batch: int = PAPER_BATCH
    step: int = 16
    channels: int = PAPER_CHANNELS
    batches: int = 12

    def bundle(self) -> ModelBundle:
        """Return the paper's network, untrained: its weights change no speed."""
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
        """Return a stream of noise, in the memory of the host."""
        spec = WindowSpec(step=self.step)
        samples = (self.batch * self.batches - 1) * self.step + spec.length
        signal = np.random.default_rng(0).standard_normal((self.channels, samples), dtype=np.float32)
        bundle = self.bundle().manifest
        recording = Recording(signal, RATE, bundle.channels, bundle.units, source="noise")
        return Windows([Segment(recording, 0, 0)], spec)


@dataclass(frozen=True)
class Speed:
    """How fast one engine was."""

    engine: str
    windows_per_second: float
    ratio: float
    """To the literal loop's, in the same run."""
    share: float
    """Of what the measured matrix rate allows."""
    p50_ms: float
    p99_ms: float
    memory_mb: float
    """What it holds beyond the source model."""


def measure(
    setting: Setting,
    *,
    turn: int = TURN,
    device: torch.device | str = "cpu",
    report: Callable[[int, int], None] | None = None,
) -> list[Speed]:
    """Drive the literal loop and all engines over one stream, ``turn`` batches each in turn."""
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
    return [runner.told(literal, limits) for runner in runners.values()]


class _Runner:
    """One engine on its way along the stream."""

    def __init__(
        self, name: str, bundle: ModelBundle, windows: Windows, setting: Setting, device: torch.device | str
    ) -> None:
        self.name, self.bundle, self.windows, self.setting, self.device = name, bundle, windows, setting, device
        self.seconds: list[float] = []
        """From the samples of a batch to its verdicts on the host."""
        self.rates: list[float] = []
        """Windows a second where a GPU may still be at work while the next batch is on its way to it."""
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
        """Meet some batches, and take the time of each."""
        if self.on_gpu:
            begun = time.perf_counter()
            torch.cat([self._step(number) for number in batches]).cpu()
            self.rates.append(self.setting.batch * len(batches) / (time.perf_counter() - begun))
        for number in batches:
            begun = time.perf_counter()
            self._step(number).cpu()
            self.seconds.append(time.perf_counter() - begun)

    def _step(self, number: int) -> Tensor:
        """Meet a batch, and return everything that is said of it in one tensor."""
        begin, end = number * self.setting.batch, (number + 1) * self.setting.batch
        if self.name == LITERAL:
            # An index, not a slice: each window is laid out by itself.
            windows = self.windows.gather(torch.arange(begin, end))
            return self.loop.step(windows.to(self.device))[0]
        output = self.method.step(self.windows.gather(slice(begin, end)))
        said = [output.probabilities, *(column[:, None] for column in output.evidence.values())]
        return torch.cat(said if output.accepted is None else [*said, output.accepted[:, None]], dim=1)

    @property
    def windows_per_second(self) -> float:
        """How many windows are diagnosed, and learnt from."""
        return float(np.median(self.rates)) if self.rates else self.setting.batch / float(np.median(self.seconds))

    def told(self, literal: float, limits: MatmulRates) -> Speed:
        """Return how fast it was beside the literal loop's windows a second, and beside what the machine allows."""
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
    """What one more of something costs an engine."""

    engine: str
    what: str
    value: int
    cost: float
    """Seconds a window, as a multiple of those at the paper's setting in the same run."""


def grow(
    engine: str, changes: Mapping[str, Sequence[int]] = GROWN, *, device: torch.device | str = "cpu"
) -> list[Growth]:
    """Return how the cost of a window grows with batch size, window step, channels and length of the stream."""
    found = []
    for what, values in changes.items():
        for value in values:
            runners = {}
            for name, setting in (("paper", Setting()), ("changed", replace(Setting(), **{what: value}))):
                runners[name] = _Runner(engine, setting.bundle(), setting.windows(), setting, device)
                # The last batches: by then a long stream has had time to become slow.
                runners[name].take_turn(range(WARM_UP, setting.batches))
            costs = [float(np.median(runner.seconds[-LAST:])) / runner.setting.batch for runner in runners.values()]
            found.append(Growth(engine, what, value, costs[1] / costs[0]))
    return found


def memory_in_use(device: torch.device | str) -> float:
    """Return bytes in use: of the process, or on the GPU."""
    if torch.device(device).type == "cuda":
        return float(torch.cuda.memory_allocated(device))
    pages = Path("/proc/self/statm")
    return float(pages.read_text().split()[1]) * 4096 if pages.exists() else float("nan")
