"""Writes the sender of a machine: the program of this package with the settings of the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cgsa.data.steady_state import UNKNOWN_UNIT
from cgsa.errors import DataError
from cgsa.files import replacing
from cgsa.nn.bundle import Manifest

_SETTINGS = re.compile(r"(?<=for it\.\n).*?(?=# End of the settings)", re.DOTALL)
_TOKEN = re.compile(r'^TOKEN = "([^"]*)"$', re.MULTILINE)


@dataclass(frozen=True)
class SenderSettings:
    """What a sender needs to know."""

    url: str
    token: str
    machine: str
    manifest: Manifest
    """Of the model that watches the machine."""
    certificate: str | None = None
    """File with the certificate of a service with TLS."""

    @property
    def units(self) -> dict[str, str]:
        """The units of the channels, as far as they are known."""
        pairs = zip(self.manifest.channels, self.manifest.units, strict=True)
        return {name: unit for name, unit in pairs if unit not in {"", UNKNOWN_UNIT}}

    def curl_example(self, time: float) -> str:
        """Return a command that posts one block of two samples."""
        block = {
            "machine": self.machine,
            "sequence": 0,
            "time": round(time, 3),
            "sample_rate": self.manifest.sample_rate,
            "channels": self.manifest.channels,
            "units": self.units,
            "samples": [[0.0, 0.1] for _ in self.manifest.channels],
        }
        return (
            f"curl -H {_quoted(f'Authorization: Bearer {self.token}')} -H 'Content-Type: application/json' "
            f"-d {_quoted(json.dumps(block))} {self.url}/api/blocks"
        )


def write_sender(path: Path, settings: SenderSettings) -> None:
    """Write the program atomically; it holds a token, so that only its owner may read it.

    In a program that exists, only the settings are replaced: its owner may have changed the rest.
    """
    values: Mapping[str, object] = {
        "URL": settings.url,
        "TOKEN": settings.token,
        "MACHINE": settings.machine,
        "SAMPLE_RATE": settings.manifest.sample_rate,
        "CHANNELS": list(settings.manifest.channels),
        "UNITS": settings.units,
        "CERTIFICATE": settings.certificate,
    }
    # Text, numbers, lists and dictionaries of them are written alike in JSON and Python.
    lines = "".join(f"{name} = {'None' if value is None else json.dumps(value)}\n" for name, value in values.items())
    text = _program(path)
    if not _SETTINGS.search(text):
        raise DataError(f"{path}: exists and is no sender that cgsa serve wrote; move it elsewhere")
    fresh_text = _SETTINGS.sub(lambda _: lines, text, count=1)
    with replacing(path, DataError) as fresh:
        fresh.touch(mode=0o700)
        fresh.write_text(fresh_text, encoding="utf-8")


def _program(path: Path) -> str:
    """Return the text of the program, as it is or as this release writes it."""
    if path.exists():
        return path.read_text(encoding="utf-8")
    text = (resources.files("cgsa.service.sender") / "send.py").read_text(encoding="utf-8")
    return text.replace("THIS_FILE", path.name)


def sender_token(path: Path) -> str:
    """Return the token in a sender that was written before; empty if there is none."""
    try:
        found = _TOKEN.search(path.read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[1] if found else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
