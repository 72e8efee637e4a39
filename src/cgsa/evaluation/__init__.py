"""How good a model is on labelled recordings of a machine."""
