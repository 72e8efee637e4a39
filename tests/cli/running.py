"""Calling the command line in tests."""

from __future__ import annotations

from typer.testing import CliRunner

from cgsa.cli import app


def run_cgsa(*words: object) -> str:
    """Call a command that must end well, and return what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout
