"""``python -m runner``: the same as ``run.py``."""

import sys

from .command import run

sys.exit(run())
