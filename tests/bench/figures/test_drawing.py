from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image

from cgsa.bench.figures import Drawing, all_drawings
from cgsa.bench.figures.drawing import DPI
from cgsa.bench.figures.style import figure_style
from tests.bench.figures.made_records import RECORDS


def test_every_drawing_is_written_with_reproducible_bytes(drawings: dict[str, Drawing], tmp_path: Path) -> None:
    for drawing in drawings.values():
        drawing.write(tmp_path / "once")
        drawing.write(tmp_path / "again")
    for drawing in all_drawings(RECORDS):
        drawing.write(tmp_path / "anew")
    names = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert names == sorted(f"{name}.{ending}" for name in drawings for ending in ("svg", "png", "csv", "md", "tex"))
    for name in names:
        content = (tmp_path / "once" / name).read_bytes()
        assert content == (tmp_path / "again" / name).read_bytes()
        assert content == (tmp_path / "anew" / name).read_bytes()
    svg = (tmp_path / "once" / "curves-gearbox.svg").read_text()
    assert svg.startswith("<svg")
    assert "dc:date" not in svg


def test_a_palette_preserves_the_colours(drawings: dict[str, Drawing]) -> None:
    drawing, full = drawings["curves-gearbox"], io.BytesIO()
    with figure_style():
        drawing.figure.savefig(full, format="png", dpi=DPI)
    small = drawing.png()
    assert len(small) < len(full.getvalue()) / 2
    before, after = (np.asarray(Image.open(picture).convert("RGB"), int) for picture in (full, io.BytesIO(small)))
    assert np.abs(before - after).max() < 32


def test_drawing_does_not_change_matplotlib_settings() -> None:
    before = dict(mpl.rcParams)
    all_drawings(RECORDS[:3])[0].png()
    assert dict(mpl.rcParams) == before
