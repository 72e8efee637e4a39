"""How a machine changed: its healthy signal, what differs from it now, and trends over hours to months."""
