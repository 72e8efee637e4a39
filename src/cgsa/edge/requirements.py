"""Says what to install where the packages of the extra ``edge`` are missing."""

from __future__ import annotations

from importlib.util import find_spec

from cgsa.errors import ConfigError


def require_onnx() -> None:
    """Fail, and say how to install them, unless the packages that an export needs are installed."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} not installed; an export needs them: pip install 'cgsa[edge]'")
