"""Which engine computes CGSA: the one place where that is decided."""

from __future__ import annotations

from typing import Literal

import torch

from cgsa.engines.base import CgsaEngine, SourceModel
from cgsa.engines.chain_engine import ChainEngine
from cgsa.engines.first_layer import can_slide
from cgsa.engines.graph import can_compile
from cgsa.engines.graph_engine import GraphEngine
from cgsa.engines.plain import PlainEngine
from cgsa.errors import ConfigError

EngineSetting = Literal["auto", "float32", "mixed", "graph"]


def engine_for(setting: EngineSetting, device: torch.device) -> EngineSetting:
    """Return the engine that a setting means on a device; ``auto`` is graph on a GPU and float32 on a CPU."""
    on_gpu = device.type == "cuda"
    if setting == "auto":
        return "graph" if on_gpu and can_compile() else "float32"
    if setting == "graph" and on_gpu and not can_compile():
        raise ConfigError("engine graph needs triton, which comes with PyTorch for CUDA on Linux; take float32")
    return setting


def make_engine(setting: EngineSetting, source: SourceModel, *, lr: float, capacity: int) -> CgsaEngine:
    """Return a new engine for one machine, with a student that equals the source model and an empty queue."""
    chosen = engine_for(setting, source.device)
    if chosen == "graph":
        return GraphEngine(source, lr, capacity)
    mixed = chosen == "mixed"
    # For smaller networks the plain engine is as fast, and bit-identical to Algorithm 1.
    if mixed or can_slide(source.network, source.window):
        return ChainEngine(source, lr, capacity, mixed=mixed)
    return PlainEngine(source, lr, capacity)
