"""cgsa: fault diagnosis that adapts itself to operating conditions nobody trained for."""
