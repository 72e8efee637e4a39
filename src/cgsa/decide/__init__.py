"""From what a model says of single windows to a decision about the machine."""
