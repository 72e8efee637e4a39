"""Fast implementations of the online and offline steps; each is checked against the plain one."""
