from __future__ import annotations

import torch
from hypothesis import settings

# The first call of many a function loads or compiles something; a deadline would only measure that.
settings.register_profile("cgsa", deadline=None, derandomize=True)
settings.load_profile("cgsa")

# Tests run in parallel; one thread each keeps them from fighting over the cores.
torch.set_num_threads(1)
