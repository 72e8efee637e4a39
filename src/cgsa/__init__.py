"""cgsa: fault diagnosis that adapts itself to operating conditions nobody trained for.

``__init__.pyi`` lists the public names and their modules. Each name is imported
when it is first used, so ``import cgsa`` and ``cgsa --help`` do not wait for
torch.
"""

# lazy_loader.attach_stub does the same, but the numerical core must import where it is not installed.
from __future__ import annotations

import ast
from importlib import import_module, resources

__version__ = "0.2.0"

_MODULES = {
    alias.name: str(node.module)
    for node in ast.parse(resources.files(__name__).joinpath("__init__.pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604 - every key is a string


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'cgsa' has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found
