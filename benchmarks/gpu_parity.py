"""Does a GPU give the results of the reference? Needs a GPU; prints the agreement.

    python benchmarks/gpu_parity.py

1. Training as a replayed CUDA graph against the same steps run one by one: the weights must be bit-identical.
2. Ten models trained in parallel against the same models trained one after another: bit-identical, and the ratio of the
   times. Both use autograd; `training_speed.py` measures the speed of stacked plain and CAL models.
3. CGSA on the GPU against the CPU, from one bundle over one stream: verdicts and accepted windows.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import numpy as np
import torch

from cgsa.data.recording import Recording
from cgsa.data.scenario import Condition
from cgsa.data.windows import Segment, Windows, WindowSpec
from cgsa.diagnosis.diagnoser import Diagnoser
from cgsa.diagnosis.labelled import run_stream
from cgsa.nn.bundle import Manifest, ModelBundle
from cgsa.nn.mlp import NetworkConfig
from cgsa.offline.config import TrainConfig
from cgsa.offline.step import TrainingStep
from cgsa.offline.trainer import train_models
from cgsa.online.cgsa import Cgsa

RATE, SECONDS = 12_800.0, 6
CHANNELS = tuple("abcdef")
CONDITION = Condition("torque", "Nm", 0.0, 10.0, 0.5)


def recording(label: int, seed: int) -> Recording:
    """Return a sine in noise; its frequency depends on the class and its amplitude follows the torque."""
    rng = np.random.default_rng(seed)
    time_ = np.arange(round(SECONDS * RATE)) / RATE
    torque = np.linspace(0, 10, len(time_))
    line = np.sin(2 * np.pi * (300 + 200 * label) * time_) * (1 + 0.1 * torque)
    signal = line + rng.standard_normal((len(CHANNELS), len(time_)))
    return Recording(
        signal.astype(np.float32), RATE, CHANNELS, ("g",) * 6, {"torque": torque.astype(np.float32)}, source=str(seed)
    )


def windows(device: str, *, seed: int, step: int) -> Windows:
    segments = [Segment(recording(label, seed + label), label, 0) for label in range(4)]
    return Windows(segments, WindowSpec(1024, step), conditions=("torque",), device=device)


def manifest(objective: str, seed: int = 0) -> Manifest:
    return Manifest(
        classes=("health", "f1", "f2", "f3"),
        channels=CHANNELS,
        units=("g",) * 6,
        sample_rate=RATE,
        window=WindowSpec(),
        conditions=(CONDITION,),
        network=NetworkConfig(),
        objective=objective,
        seed=seed,
    )


def train(objective: str, *, captured: bool) -> ModelBundle:
    data, config = windows("cuda", seed=0, step=64), TrainConfig(epochs=5)
    torch.cuda.synchronize()
    begin = time.monotonic()
    if captured:
        bundle = train_models(data, [manifest(objective)], config, device="cuda")[0]
    else:

        def plain(step: TrainingStep, _size: int) -> object:
            return lambda index, progress: step._run(index, torch.tensor(progress, device="cuda"))

        with patch.object(TrainingStep, "_captured", plain):
            bundle = train_models(data, [manifest(objective)], config, device="cuda")[0]
    torch.cuda.synchronize()
    steps = 5 * (len(data) // 256)
    how = "graph" if captured else "plain"
    print(f"{objective:7} {how}: {1e3 * (time.monotonic() - begin) / steps:.3f} ms per step over {steps} steps")
    return bundle


def train_in_parallel(objective: str, models: int) -> None:
    data, config = windows("cuda", seed=0, step=8), TrainConfig(epochs=20)
    every = [manifest(objective, seed) for seed in range(models)]
    seconds, bundles = [], []
    for group in (every, every[:1]):
        torch.cuda.synchronize()
        begin = time.monotonic()
        bundles.append(train_models(data, group, config, device="cuda"))
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - begin)
    same = all(
        torch.equal(a, b)
        for a, b in zip(bundles[0][0].network.parameters(), bundles[1][0].network.parameters(), strict=True)
    )
    steps = config.epochs * (len(data) // 256)
    print(
        f"{objective:7} {models} in parallel: {1e3 * seconds[0] / steps:.2f} ms per step of all, "
        f"{seconds[0] / (models * seconds[1]):.2f} of the time of {models} one after another, bit-identical: {same}"
    )


def main() -> None:
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    with patch("cgsa.offline.trainer.STACKED_ON", ()):
        compare()


def compare() -> None:
    for objective in ("plain", "supcon", "dann", "cal"):
        one, other = train(objective, captured=True), train(objective, captured=False)
        pairs = zip(one.network.parameters(), other.network.parameters(), strict=True)
        gaps = [float((a - b).abs().max()) for a, b in pairs]
        print(f"{objective:7} largest difference of a weight: {max(gaps):g}")
    for objective in ("plain", "supcon", "dann", "cal"):
        train_in_parallel(objective, 10)
    bundle = train("cal", captured=True)
    stream = {device: windows(device, seed=50, step=16) for device in ("cuda", "cpu")}
    traces = {}
    for device, data in stream.items():
        begin = time.monotonic()
        method = Cgsa(bundle.to(device), {"engine": "float32"}, device=device)
        traces[device] = run_stream(Diagnoser(method), data, batch_size=256)
        print(f"CGSA on {device}: {len(data) / (time.monotonic() - begin):.0f} windows/s")
    gpu, cpu = traces["cuda"], traces["cpu"]
    print(f"equal verdicts: {np.mean(gpu.prediction == cpu.prediction):.5f}")
    print(f"equal acceptance: {np.mean(gpu.accepted == cpu.accepted):.5f}")
    print(f"largest difference of a probability: {np.abs(gpu.probabilities - cpu.probabilities).max():.2e}")


if __name__ == "__main__":
    main()
