"""The capacity model, and what was published of it."""

from __future__ import annotations

import random
from pathlib import Path

import benchmarks
import pytest
from benchmarks.capacity import HELD_OUT, fitted_model, setup_of
from benchmarks.fleet.capacity_model import FEATURES, CapacityModel, MachineSetup
from benchmarks.result_files import read_lines

MEASURED = read_lines(Path(benchmarks.__path__[0]) / "results" / "measurements" / "capacity.jsonl")


def test_the_model_finds_what_costs_were_made_of() -> None:
    rng = random.Random(0)  # noqa: S311 - no secret
    setups = [
        MachineSetup(
            rng.uniform(1e3, 5e4),
            rng.randint(1, 8),
            rng.choice((512, 1024, 2048)),
            rng.randint(8, 128),
            rng.uniform(0.1, 2.0),
            learns=rng.random() < 0.5,
        )
        for _ in range(60)
    ]
    wanted = {quantity: {name: rng.uniform(0.5, 2.0) for name in parts} for quantity, parts in FEATURES.items()}
    made = CapacityModel(wanted)
    measured = {quantity: [made.predict(quantity, one) for one in setups] for quantity in FEATURES}
    found = CapacityModel.fit(setups, measured)
    for quantity in FEATURES:
        assert [found.predict(quantity, one) for one in setups] == pytest.approx(measured[quantity], rel=1e-6)


def test_saving_states_less_often_costs_less() -> None:
    setup, model = setup_of(MEASURED[0]), fitted_model(MEASURED)
    assert model.load(setup, 10.0) > model.load(setup, 60.0) > model.predict("cpu", setup)
    assert model.per_day(setup, 10.0)["states"] == pytest.approx(6 * model.per_day(setup, 60.0)["states"])


def test_published_measurements_that_were_held_out_are_predicted() -> None:
    model, held_out = fitted_model(MEASURED), [one for one in MEASURED if one["held_out"]]
    assert len(held_out) == HELD_OUT
    for quantity in ("cpu", "log", "store", "state"):
        for one in held_out:
            assert model.predict(quantity, setup_of(one)) == pytest.approx(one[quantity], rel=0.2)
