"""Speed of the online stage, relative to a literal loop and to the limits of the machine."""
