from __future__ import annotations

from cgsa.bench.figures import Drawing


def texts(drawing: Drawing) -> list[str]:
    return [text.get_text() for axis in drawing.figure.axes for text in axis.texts]
