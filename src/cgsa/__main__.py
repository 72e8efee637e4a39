"""``python -m cgsa`` is the same as ``cgsa``."""

from cgsa.cli import main

main()
