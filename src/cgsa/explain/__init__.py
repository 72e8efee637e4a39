"""Why a recording was diagnosed as it was: which lines, bands and channels changed, and which parts of the machine have
such lines."""
