"""From windows to a diagnosis: an online method, the decision over time, and how far to trust both."""
