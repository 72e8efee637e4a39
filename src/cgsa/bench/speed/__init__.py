"""How fast the online stage is, beside a literal loop and beside what the machine allows."""
