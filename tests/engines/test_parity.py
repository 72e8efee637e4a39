"""Every engine against the plain one, by the one check that all have to pass.

The plain engine itself is compared with a literal Algorithm 1 in ``tests/online/test_cgsa.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import pytest
import torch
from torch import Tensor

from cgsa.data.windows import underlying_samples
from cgsa.engines import layer_chain
from cgsa.engines.base import Algorithm, CgsaEngine, EngineOutput, SourceModel
from cgsa.engines.chain_engine import ChainEngine
from cgsa.engines.checks import Tolerance, check_engine
from cgsa.engines.graph_engine import GraphEngine
from cgsa.engines.plain import PlainEngine
from cgsa.engines.stacked_students import StackedStudents
from cgsa.nn.bundle import ModelBundle
from cgsa.online.cgsa import Cgsa
from cgsa.online.fleet import StudentFleet
from tests.engines.models import large_bundle, noise_windows, raw_bundle
from tests.machines import BOTH, bundle, stream_windows

QUEUE, LR = 20, 5e-4
SETTINGS = {"queue": QUEUE, "lr": LR, "tau": 0.1, "min_confidence": 0.5}
NAMES = ("press", "pump", "fan")

MakeEngine = Callable[[SourceModel], CgsaEngine]


class StackPlace:
    """The second of three machines in a stack, as an engine; the others are given another batch, or none."""

    def __init__(self, students: StackedStudents, place: int = 1) -> None:
        self.students, self.place = students, place

    def run(self, algorithm: Algorithm, x: Tensor, *, learn: bool) -> EngineOutput:
        values, step = self.stacked(x)
        present = torch.tensor([len(x) % 2 == 0, True, False])
        return self.students.run(algorithm, values, step, present, learn=learn).unpack(self.place)

    def predict(self, x: Tensor) -> Tensor:
        return self.students.predict(*self.stacked(x))[self.place]

    def state_dict(self) -> dict[str, Tensor]:
        return self.students.state_dict(self.place)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.students.load_state_dict(self.place, state)

    def stacked(self, x: Tensor) -> tuple[Tensor, int]:
        shared = underlying_samples(x)
        values, step = (x, 0) if shared is None else shared
        parts = [values + 1.0] * 3
        parts[self.place] = values
        return torch.stack(parts), step


class FleetMachine(StackPlace):
    """A machine of a fleet, as an engine."""

    def __init__(self, fleet: StudentFleet) -> None:
        for name in NAMES:
            fleet.join(name)
        stack, place = fleet._find("pump")
        super().__init__(stack.students, place)
        self.fleet = fleet

    def run(self, algorithm: Algorithm, x: Tensor, *, learn: bool) -> EngineOutput:
        if not learn:
            return super().run(algorithm, x, learn=False)
        output = self.fleet.step({"pump": x, "press": x + 1.0})
        part, place = output.places["pump"]
        return output.packed[part].unpack(place)


def stack_of_three(source: SourceModel) -> CgsaEngine:
    return StackPlace(StackedStudents(source, LR, QUEUE, 3))


ENGINES: dict[str, tuple[MakeEngine, Tolerance]] = {
    "plain": (lambda source: PlainEngine(source, LR, QUEUE), Tolerance()),
    "float32 chain": (lambda source: ChainEngine(source, LR, QUEUE, mixed=False), Tolerance()),
    "mixed": (lambda source: ChainEngine(source, LR, QUEUE, mixed=True), Tolerance(0.0, 0.05, 0.05)),
    "graph": (lambda source: GraphEngine(source, LR, QUEUE), Tolerance(1e-5, 1e-6, 1e-6)),
    "stacked students": (stack_of_three, Tolerance(1e-5, 1e-6, 1e-6)),
}
SOURCES: dict[str, Callable[[], ModelBundle]] = {
    "with a reference": bundle,
    "raw windows": raw_bundle,
    "two conditions": lambda: bundle(conditions=BOTH.conditions),
}


@pytest.fixture(autouse=True)
def every_layer_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_chain, "MIN_BFLOAT16_WEIGHTS", 1)


@pytest.mark.parametrize("size", [1, 30, 256])
@pytest.mark.parametrize("model", SOURCES)
@pytest.mark.parametrize("name", ENGINES)
def test_engines_give_the_results_of_the_plain_engine(name: str, model: str, size: int) -> None:
    make, tolerance = ENGINES[name]
    method = Cgsa(SOURCES[model](), SETTINGS)
    source = method.source_model
    batches = [x for _, x in islice(stream_windows().batches(size), 8 if size < 256 else 4)]
    check_engine(make(source), PlainEngine(source, LR, QUEUE), method.algorithm_1, batches, tolerance)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_a_machine_of_a_fleet_gives_the_results_of_the_plain_engine(together: int) -> None:
    source = raw_bundle()
    method, fleet = Cgsa(source, SETTINGS), StudentFleet(source, SETTINGS, together=3)
    batches = [x for _, x in islice(stream_windows().batches(30 * together), 6)]
    reference = PlainEngine(method.source_model, LR, QUEUE)
    check_engine(FleetMachine(fleet), reference, method.algorithm_1, batches, ENGINES["stacked students"][1])


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        # A weight with hardly any gradient has an uncertain sign, and Adam moves it by the learning rate either way.
        ("float32 chain", Tolerance(2e-6, 1e-4, 4 * LR)),
        ("mixed", Tolerance(2e-6, 0.02, 6 * LR)),
        ("graph", Tolerance(1e-5, 1e-4, 4 * LR)),
    ],
)
def test_a_large_first_layer_gives_the_results_of_the_plain_engine(name: str, tolerance: Tolerance) -> None:
    method = Cgsa(large_bundle(), {"queue": QUEUE, "tau": 1e9, "min_confidence": 0.0})
    engine = ENGINES[name][0](method.source_model)
    reference = PlainEngine(method.source_model, LR, QUEUE)
    batches = [noise_windows(count, seed=count) for count in (256, 40, 200, 70)]
    check_engine(engine, reference, method.algorithm_1, batches, tolerance)


class SpoiltState(PlainEngine):
    def state_dict(self) -> dict[str, Tensor]:
        state = super().state_dict()
        del state["memory.queue"]
        return state


def test_an_engine_that_differs_is_caught() -> None:
    method = Cgsa(bundle(), SETTINGS)
    batches = [x for _, x in islice(stream_windows().batches(60), 4)]
    engine, reference = (PlainEngine(method.source_model, lr, QUEUE) for lr in (LR, 2 * LR))
    with pytest.raises(AssertionError, match="differ from the plain engine's"):
        check_engine(engine, reference, method.algorithm_1, batches)
    state_lacks_the_queue = SpoiltState(method.source_model, LR, QUEUE)
    with pytest.raises(AssertionError, match=r"states differ in \['memory.queue'\]"):
        check_engine(state_lacks_the_queue, PlainEngine(method.source_model, LR, QUEUE), method.algorithm_1, batches)
