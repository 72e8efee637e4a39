from __future__ import annotations

import os

# Kernels of a GPU are interpreted; the compiler must know before anything loads it, and torch does.
os.environ["TRITON_INTERPRET"] = "1"

import torch
from hypothesis import settings

# The first call of many a function loads or compiles something; a deadline would only measure that.
settings.register_profile("cgsa", deadline=None, derandomize=True)
settings.load_profile("cgsa")

# Tests run in parallel; one thread each keeps them from fighting over the cores.
torch.set_num_threads(1)
