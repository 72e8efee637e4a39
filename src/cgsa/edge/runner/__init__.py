"""Diagnoses the signal of a machine with an exported model; needs numpy and onnxruntime, and neither cgsa nor torch.

``cgsa export`` copies this folder beside the model. Logic is here; every number that decides is in ``package.json``.
"""
