from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import cgsa.registry
from cgsa.errors import ConfigError, UnknownNameError
from cgsa.registry import Registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry[object]:
    added = [EntryPoint("theirs", "math:tau", "cgsa.test")]
    monkeypatch.setattr(cgsa.registry, "entry_points", lambda group: added)
    return Registry("constant", "cgsa.test", {"pi": "math:pi", "e": "math:e"})


def test_builtin_entries_and_entry_points_are_found(registry: Registry[object]) -> None:
    assert list(registry) == ["e", "pi", "theirs"]
    assert registry["pi"] == pytest.approx(3.14159, abs=1e-5)
    assert registry["theirs"] == pytest.approx(6.28318, abs=1e-5)


def test_register_adds_an_entry(registry: Registry[object]) -> None:
    registry.register("mine")(42)
    assert registry["mine"] == 42
    with pytest.raises(ConfigError, match="constant 'mine' is already registered"):
        registry.register("mine")(43)


def test_unknown_names_get_a_hint(registry: Registry[object]) -> None:
    with pytest.raises(
        UnknownNameError, match="unknown constant 'thiers'; did you mean 'theirs'\\? known: e, pi, theirs"
    ):
        registry["thiers"]


def test_an_entry_point_cannot_use_a_builtin_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgsa.registry, "entry_points", lambda group: [EntryPoint("pi", "math:tau", "cgsa.test")])
    with pytest.raises(ConfigError, match="'pi' of math:tau uses a name that is taken"):
        Registry("constant", "cgsa.test", {"pi": "math:pi"})["pi"]
