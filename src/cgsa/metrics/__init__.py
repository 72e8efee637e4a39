"""Figures of merit. Only this room ever sees the true labels of a stream."""
