"""Why a recording was diagnosed as it was: what changed, and which parts of the machine have such lines."""
