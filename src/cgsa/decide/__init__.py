"""From a model's output for single windows to a decision about the machine."""
