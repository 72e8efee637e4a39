"""Faults of the surroundings of a service, in random order and combination; see :mod:`benchmarks.faults.__main__`.

A family of faults is one file: its classes derive from :class:`~benchmarks.faults.registry.Fault` and register
themselves. ``registry.FAMILIES`` names the files.
"""
