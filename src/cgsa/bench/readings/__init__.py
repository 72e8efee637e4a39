"""Readings of what the paper leaves open, scored by the paper's own statements."""
