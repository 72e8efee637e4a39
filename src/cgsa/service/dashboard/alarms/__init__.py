"""The page with the alarms of all machines, one part per module."""
