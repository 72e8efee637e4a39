from __future__ import annotations

import pytest
import torch

from cgsa.engines import choose
from cgsa.engines.base import SourceModel
from cgsa.engines.chain_engine import ChainEngine
from cgsa.engines.choose import EngineSetting, engine_for, make_engine
from cgsa.engines.graph_engine import GraphEngine
from cgsa.engines.plain import PlainEngine
from cgsa.errors import ConfigError
from cgsa.nn.bundle import ModelBundle
from tests.engines.models import large_bundle
from tests.machines import bundle

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("setting", "source", "expected"),
    [
        ("auto", bundle(), PlainEngine),
        ("float32", bundle(), PlainEngine),
        ("float32", large_bundle(), ChainEngine),
        ("mixed", bundle(), ChainEngine),
        ("graph", bundle(), GraphEngine),
    ],
)
def test_the_engine_follows_setting_and_network(setting: EngineSetting, source: ModelBundle, expected: type) -> None:
    assert type(make_engine(setting, SourceModel.of(source, CPU), lr=1e-3, capacity=5)) is expected


def test_the_engine_follows_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "can_compile", lambda: True)
    assert [engine_for(setting, GPU) for setting in ("auto", "float32", "graph")] == ["graph", "float32", "graph"]
    assert [engine_for(setting, CPU) for setting in ("auto", "mixed", "graph")] == ["float32", "mixed", "graph"]
    monkeypatch.setattr(choose, "can_compile", lambda: False)
    assert engine_for("auto", GPU) == "float32"
    with pytest.raises(ConfigError, match="engine graph needs triton"):
        engine_for("graph", GPU)
