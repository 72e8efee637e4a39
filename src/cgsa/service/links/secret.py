"""Passwords and keys: a configuration says where they are found, never what they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cgsa.errors import ConfigError


@dataclass(frozen=True)
class Secret:
    """Where a secret is found: in a file, or in a variable of the environment."""

    file: str | None = None
    env: str | None = None

    def __post_init__(self) -> None:
        if (self.file is None) == (self.env is None):
            raise ConfigError("a secret is named by either file or env, and by one of them alone")

    def read(self) -> str:
        """Return the secret as it is now: whoever changes a password need not restart the service."""
        if self.env is not None:
            found = os.environ.get(self.env, "")
            where = f"variable {self.env} of the environment"
        else:
            where = str(self.file)
            try:
                found = Path(where).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{where}: no secret can be read there ({error})") from error
        if not found:
            raise ConfigError(f"{where}: is empty or not there; expected a secret")
        return found
