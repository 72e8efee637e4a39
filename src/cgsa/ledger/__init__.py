"""The ledger: what was seen of every window, and why it was used for adaptation or not."""
