from __future__ import annotations

import re

import pytest

from cgsa.service.dashboard.summary import MOODS
from cgsa.service.dashboard.theme import CSS, DARK, LIGHT, Palette, mood_class, palette
from tests.machines import CLASSES

ENOUGH = 4.5
"""Contrast of text after WCAG 2, level AA."""
ENOUGH_FOR_LINES = 3.0


def variables(selector: str) -> dict[str, str]:
    begin = CSS.index(selector)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", CSS[begin : CSS.index("}", begin)]))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("selector", [":root", ".body--dark"])
def test_text_can_be_read(selector: str) -> None:
    found = variables(selector)
    pairs = [(name, ground) for name in ("text", "muted", "accent") for ground in ("bg", "card")]
    pairs += [(name, f"{name}-bg") for name in ("good", "bad", "warn", "odd", "idle")]
    pairs += [(name, "card") for name in ("good", "bad")]
    weak = {pair: contrast(found[pair[0]], found[pair[1]]) for pair in pairs}
    assert {pair: value for pair, value in weak.items() if value < ENOUGH} == {}


@pytest.mark.parametrize(("shown", "selector"), [(LIGHT, ":root"), (DARK, ".body--dark")])
def test_curves_can_be_seen(shown: Palette, selector: str) -> None:
    card = variables(selector)["card"]
    assert contrast(shown.text, card) >= ENOUGH
    for colour in (shown.healthy, *shown.faults, shown.unknown, shown.no_data):
        assert contrast(colour, card) >= ENOUGH_FOR_LINES


def test_white_text_on_filled_buttons_can_be_read() -> None:
    filled = re.findall(r"--q-primary: (#[0-9a-f]{6})", CSS)
    assert len(filled) == 2
    assert all(contrast(colour, "#ffffff") >= ENOUGH for colour in filled)


def test_every_mood_but_the_idle_ones_has_a_colour() -> None:
    named = {mood for mood in MOODS if f".{mood_class(mood)}.badge" in CSS}
    assert set(MOODS) - named == {"shelved", "no data", "waiting"}


def test_states_have_colours_of_their_own() -> None:
    found = [palette(dark=True).of_state(state, CLASSES) for state in (*CLASSES, "unknown", "no data")]
    assert len(set(found)) == len(found)


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert "http" not in CSS
    assert "@import" not in CSS
    assert "url(" not in CSS
