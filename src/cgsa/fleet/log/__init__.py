"""Replayable logs: the contract, its checks, and one module per system."""
