"""Rotation: every operating condition, unit and run of a set of recordings is left out of training in turn.

A single split can be lucky, and settings can be tuned to it. Here every recorded condition takes its turn as the unseen
one, for every fault, so a result has no split to depend on.
"""
