"""How a machine changed: its healthy reference, what differs from it now, and trends over hours to months."""
