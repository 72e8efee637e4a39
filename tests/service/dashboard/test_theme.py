from __future__ import annotations

import re

import pytest

from cgsa.service.dashboard.summary import DISPLAY_STATUSES
from cgsa.service.dashboard.theme import CSS, DARK, LIGHT, Palette, status_class
from tests.machines import CLASSES

TEXT_CONTRAST = 4.5
"""Required by WCAG 2, level AA."""
LINE_CONTRAST = 3.0


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
def test_text_has_enough_contrast(selector: str) -> None:
    found = variables(selector)
    pairs = [(name, ground) for name in ("text", "muted", "accent") for ground in ("bg", "card")]
    pairs += [(name, f"{name}-bg") for name in ("good", "bad", "warn", "odd", "idle")]
    pairs += [(name, "card") for name in ("good", "bad")]
    weak = {pair: contrast(found[pair[0]], found[pair[1]]) for pair in pairs}
    assert {pair: value for pair, value in weak.items() if value < TEXT_CONTRAST} == {}


@pytest.mark.parametrize(("shown", "selector"), [(LIGHT, ":root"), (DARK, ".body--dark")])
def test_curves_have_enough_contrast(shown: Palette, selector: str) -> None:
    card = variables(selector)["card"]
    assert contrast(shown.text, card) >= TEXT_CONTRAST
    for colour in (shown.healthy, *shown.faults, shown.unknown, shown.no_data):
        assert contrast(colour, card) >= LINE_CONTRAST


def test_white_text_on_filled_buttons_has_enough_contrast() -> None:
    filled = re.findall(r"--q-primary: (#[0-9a-f]{6})", CSS)
    assert len(filled) == 2
    assert all(contrast(colour, "#ffffff") >= TEXT_CONTRAST for colour in filled)


def test_every_status_but_the_idle_ones_has_a_colour() -> None:
    named = {status for status in DISPLAY_STATUSES if f".{status_class(status)}.badge" in CSS}
    assert set(DISPLAY_STATUSES) - named == {"shelved", "no data", "off", "waiting"}


def test_states_have_colours_of_their_own() -> None:
    found = [DARK.state_colour(state, CLASSES) for state in (*CLASSES, "unknown", "no data")]
    assert len(set(found)) == len(found)


def test_the_style_sheet_loads_nothing_from_elsewhere() -> None:
    assert "http" not in CSS
    assert "@import" not in CSS
    assert "url(" not in CSS
