"""The few errors that cgsa raises on purpose.

Every message says what is wrong, where, and what would be right. The command
line prints them as they are, without a traceback; anything else is a bug.
"""

from __future__ import annotations


class CgsaError(Exception):
    """Root of every error that a caller can cause and put right."""


class DataError(CgsaError):
    """A recording, or a file that should hold one, cannot be used as it is."""


class ConfigError(CgsaError):
    """A setting, profile or scenario is wrong."""


class UnknownNameError(ConfigError):
    """A name was looked up in a registry that does not hold it."""


class BundleError(CgsaError):
    """A model bundle or checkpoint cannot be trusted, read or written."""


class LeakError(DataError):
    """A raw sample stands on both sides of a split."""


class TrainingDivergedError(CgsaError):
    """Training ended in numbers that mean nothing."""


class OverloadError(CgsaError):
    """More is asked for at the moment than can be done; it may be asked again later."""
