"""A bundle as bytes, for pickled estimators: the two files of the bundle, checked again when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from cgsa.errors import BundleError
from cgsa.nn.bundle import MANIFEST, TENSORS, ModelBundle

FOLDER = "bundle"
FILES = (MANIFEST, TENSORS)


def pack(bundle: ModelBundle) -> dict[str, bytes]:
    """Return the files of a bundle by name."""
    with TemporaryDirectory() as temporary:
        folder = bundle.save(Path(temporary) / FOLDER)
        return {name: (folder / name).read_bytes() for name in FILES}


def unpack(files: Mapping[str, bytes]) -> ModelBundle:
    """Return the bundle of :func:`pack`; everything that is checked when a bundle is loaded is checked."""
    if set(files) != set(FILES):
        raise BundleError(f"a packed bundle with {', '.join(sorted(files)) or 'nothing'}; expected {', '.join(FILES)}")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / FOLDER
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return ModelBundle.load(folder)
