"""Comparing methods: plans, the runner that carries them out, and what it learns."""
