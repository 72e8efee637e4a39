"""Metrics. Only this package uses the true labels of a stream."""
