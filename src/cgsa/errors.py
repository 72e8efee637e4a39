"""Errors that cgsa raises for invalid input.

Every message says what is wrong, where, and what is expected. The command line
prints it without a traceback; any other exception is a bug.
"""

from __future__ import annotations


class CgsaError(Exception):
    """Base class of all errors that a caller can cause and fix."""


class DataError(CgsaError):
    """A recording, or a file that should contain one, is invalid."""


class ConfigError(CgsaError):
    """A setting, profile or scenario is invalid."""


class UnknownNameError(ConfigError):
    """A name is not in its registry."""


class BundleError(CgsaError):
    """A model bundle or checkpoint cannot be verified, read or written."""


class LeakError(DataError):
    """A raw sample is on both sides of a split."""


class TrainingDivergedError(CgsaError):
    """Training produced values that are not finite."""


class OverloadError(CgsaError):
    """The load is too high at present; the caller may try again later."""
