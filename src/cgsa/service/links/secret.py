"""Passwords and keys: a configuration names where they are stored, never their values."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cgsa.errors import ConfigError


@dataclass(frozen=True)
class Secret:
    """Where a secret is stored: in a file or in an environment variable."""

    file: str | None = None
    """File that holds it."""
    env: str | None = None
    """Environment variable that holds it."""

    def __post_init__(self) -> None:
        if (self.file is None) == (self.env is None):
            raise ConfigError("a secret needs either file or env, and not both")

    def read(self) -> str:
        """Return the current secret: a changed password needs no restart of the service."""
        if self.env is not None:
            found = os.environ.get(self.env, "")
            where = f"environment variable {self.env}"
        else:
            where = str(self.file)
            try:
                found = Path(where).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{where}: the secret cannot be read ({error})") from error
        if not found:
            raise ConfigError(f"{where}: is empty or missing; expected a secret")
        return found
