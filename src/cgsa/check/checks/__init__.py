"""The checks, one per module; :data:`cgsa.check.CHECKS` lists them."""
