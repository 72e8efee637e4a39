"""The page of one machine, one panel per module."""
