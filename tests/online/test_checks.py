from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from cgsa.engines.plain import PlainEngine
from cgsa.online import METHODS
from cgsa.online.base import OnlineMethod, StepOutput
from cgsa.online.cgsa import Cgsa
from cgsa.online.checks import CHECKS, check_method, example_batches
from cgsa.online.source import FrozenSource
from tests.machines import bundle, ensemble_bundle, healthy_bundle
from tests.online.models import source_windows, varied_bundle

# Random windows sit anywhere in the range of the discriminator: wide thresholds make the method really learn.
SETTINGS: dict[str, dict[str, object]] = {
    "cgsa": {"tau": 1.0, "min_confidence": 0.3, "queue": 20},
    "cgsa_joined": {"tau": 1.0, "min_belief": 0.3, "queue": 20},
    "oafd": {"lr": 1e-3, "momentum": 0.9, "bank": 2, "centroid": 1.0},
    "reference": {"commission_seconds": 0.2},
    "tri_training": {"bootstrap_steps": 3},
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_keeps_the_contract(name: str, check: object) -> None:
    suitable = {"ensemble": ensemble_bundle, "healthy_only": healthy_bundle}
    source = next((make() for need, make in suitable.items() if need in METHODS[name].needs), varied_bundle())
    assert callable(check)
    check(lambda: METHODS[name](source, SETTINGS.get(name), source=source_windows()), example_batches(source))


def test_methods_adapt_under_the_contract_checks() -> None:
    source = bundle()
    method = Cgsa(source, SETTINGS["cgsa"])
    for x in example_batches(source):
        method.step(x)
    assert not torch.equal(method.state_dict()["network.student.G.0.weight"], source.network.state_dict()["G.0.weight"])


class LearnsFirst(Cgsa):
    def _step(self, x: Tensor) -> StepOutput:
        super()._step(x)
        return super()._step(x)


class ForgetsItsQueue(Cgsa):
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        queue = self.state_dict()["memory.queue"]
        super().load_state_dict({**state, "memory.queue": queue})


class HandsOutItsWeights(Cgsa):
    def state_dict(self) -> dict[str, Tensor]:
        assert isinstance(self.engine, PlainEngine)
        return {**super().state_dict(), "network.student.G.0.weight": self.engine.student.state_dict()["G.0.weight"]}


class SpoilsTheBundle(FrozenSource):
    def _step(self, x: Tensor) -> StepOutput:
        output = super()._step(x)
        with torch.no_grad():
            next(self.bundle.network.parameters()).add_(1e-3)
        return output


class DrawsGlobally(FrozenSource):
    def _step(self, x: Tensor) -> StepOutput:
        torch.rand(1)
        return super()._step(x)


class TakesAnything(FrozenSource):
    def step(self, x: Tensor, *, learn: bool = True, conditions: Tensor | None = None) -> StepOutput:
        return self._step(x) if learn else self._step_without_learning(x)


@pytest.mark.parametrize(
    "broken", [LearnsFirst, ForgetsItsQueue, HandsOutItsWeights, SpoilsTheBundle, DrawsGlobally, TakesAnything]
)
def test_broken_methods_are_caught(broken: type[OnlineMethod]) -> None:
    settings = SETTINGS["cgsa"] if issubclass(broken, Cgsa) else None
    with pytest.raises(AssertionError):
        check_method(broken, bundle(), settings)
