"""Levels of the channels of a live machine: measured beside the model, compared with limits, followed over hours."""
