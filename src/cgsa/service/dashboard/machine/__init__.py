"""The page of one machine, a panel a file."""
