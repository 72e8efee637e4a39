"""The offline stage: training a source model from labelled recordings."""
